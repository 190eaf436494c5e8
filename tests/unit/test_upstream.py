"""What is sent to the charge service: its key, its path, its headers; and what aiohttp's errors become.

Connections, time-outs and bytes are in tests/integration/test_upstream.py, over real sockets.
"""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from aiohttp import (
    ClientError,
    ClientOSError,
    ClientPayloadError,
    ClientResponseError,
    ServerDisconnectedError,
)
from aioresponses import aioresponses
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from tests.unit.builders import PUBLISHED
from tests.unit.fakes.network import Replied
from webhook_dispatcher.api.charge_service.upstream import (
    Unaddressable,
    Upstream,
    UpstreamRequest,
    derived_key,
    headers_of,
    target_of,
)
from webhook_dispatcher.api.charge_service.upstream_answers import (
    UpstreamAway,
    UpstreamBroken,
    UpstreamError,
)

CONFIRM = "/v1/cards/{id}/confirm"
ANY_TEXT = st.text(st.characters(exclude_categories=()))
FOUR = st.tuples(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)


@st.composite
def cut_otherwise(draw: st.DrawFn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Cut one text in four at different places: without frames, both are the same bytes."""
    text = draw(st.text(st.sampled_from("a\0\1\2\u0100"), max_size=40))
    cuts = [sorted(draw(st.lists(st.integers(0, len(text)), min_size=3, max_size=3))) for _ in range(2)]
    first, second = (
        tuple(text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True))
        for places in cuts
    )
    return first, second


@given(cut_otherwise() | st.tuples(FOUR, FOUR))
@example((("a", "b", "", ""), ("ab", "", "", "")))
@example((("\ud800", "", "", ""), ("?", "", "", "")))
def test_two_requests_have_the_same_derived_key_only_if_they_are_the_same(
    pair: tuple[tuple[str, str, str, str], tuple[str, str, str, str]],
) -> None:
    first, second = pair
    assert (derived_key(*first) == derived_key(*second)) == (first == second)


def test_a_derived_key_is_what_it_was() -> None:
    # It must never change: keys that are in use would have a second effect.
    key = derived_key("c1", "POST", "/v1/charges", "k1")
    assert key == "5cdb7936a3953e965335a300a40eeb3a58a3ff8439cf8e809046bb3282b2c99a"


SEGMENT = re.compile(r"[A-Za-z0-9._~-]|%[0-9A-F]{2}")


@given(st.text())
@example("..;a")
@example("a?b#c")
@example("a\r\nHost: b")
def test_an_id_is_one_segment_that_means_it_or_it_is_refused(text: str) -> None:
    try:
        target = target_of(CONFIRM, {"id": text})
    except Unaddressable:
        return
    segment = target.removeprefix("/v1/cards/").removesuffix("/confirm")
    assert (SEGMENT.sub("", segment), unquote(segment)) == ("", text)
    assert not re.search("%(2F|5C|25|0[0-9A-F]|1[0-9A-F]|7F)", segment)
    assert str(URL(target, encoded=True)) == target


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "...", "..;a", ".a", "a/b", "a\\b", "a%2fb", "%", "a\r\nb", "a\0b", "\x7f", "\x85"),
        *("a" * 256, "é" * 128, "\ud800"),
    ],
)
def test_ids_that_servers_disagree_about_are_refused(text: str) -> None:
    with pytest.raises(Unaddressable):
        target_of(CONFIRM, {"id": text})


@pytest.mark.parametrize("text", ["card_1", "a.b", "a..b", "é", "a b", "a" * 255, "b:c@d", "{id}"])
def test_other_ids_are_sent(text: str) -> None:
    assert unquote(target_of(CONFIRM, {"id": text})) == f"/v1/cards/{text}/confirm"


@given(st.lists(st.tuples(st.text(), st.text())))
def test_a_query_arrives_as_it_was_understood(query: list[tuple[str, str]]) -> None:
    target = target_of("/v1/charges", {}, query)
    path, _, pairs = target.partition("?")
    assert path == "/v1/charges"
    assert parse_qsl(pairs, keep_blank_values=True, strict_parsing=bool(pairs)) == query
    assert re.sub(r"[A-Za-z0-9._~&=-]|%[0-9A-F]{2}", "", pairs) == ""


def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(Unaddressable):
        target_of("/v1/charges", {}, [("a", "\udcff")])


def request(**changes: object) -> UpstreamRequest:
    facts: dict[str, Any] = {"method": "POST", "template": "/v1/charges", "parameters": {}}
    facts |= {"merchant_id": "merchant-1"}
    return UpstreamRequest(**(facts | {"request_id": "r1", "language": "uz", "body": b"{}"} | changes))


def test_every_header_is_ours() -> None:
    assert headers_of(request(idempotency_key="k"), "test/1") == {
        "Service-Merchant-Id": "merchant-1",
        "X-Request-Id": "r1",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Accept-Language": "uz",
        "User-Agent": "test/1",
        "Content-Type": "application/json; charset=utf-8",
        "Idempotency-Key": "k",
    }
    without = headers_of(request(method="GET", body=None), "test/1")
    assert without.keys().isdisjoint({"Content-Type", "Idempotency-Key"})


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_two_merchants_are_one_in_their_header(first: str, second: str) -> None:
    # Blanks at the ends of a header are no part of it.
    headers = [headers_of(request(merchant_id=merchant), "test/1") for merchant in (first, second)]
    sent = [each["Service-Merchant-Id"].strip() for each in headers]
    assert (sent[0] == sent[1], unquote(sent[0])) == (first == second, first)
    assert all(name.isascii() and name.isprintable() for name in sent)


URLS = "http://charges.internal:8081/partner"


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream(URLS + "/", PUBLISHED, "test/1") as upstream:
        yield upstream


class ChargeService(aioresponses):
    """Answers one request."""

    def answer(self, **answer: object) -> None:
        self.post(URLS + "/v1/charges", response_class=Replied, **answer)


@pytest.fixture
def charge_service() -> Iterator[ChargeService]:
    charge_service = ChargeService()
    with charge_service:
        yield charge_service


async def test_an_error_has_its_retry_after(upstream: Upstream, charge_service: ChargeService) -> None:
    charge_service.answer(status=409, payload={"code": -11003}, headers={"Retry-After": "7"})
    assert await upstream.forward(request()) == UpstreamError(-11003, 409, retry_after=7)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ServerDisconnectedError(), UpstreamAway),
        (ClientOSError(104, "reset"), UpstreamAway),
        (ClientPayloadError(), UpstreamAway),
        (ClientError(), UpstreamAway),
        (RuntimeError("uvloop says so"), UpstreamAway),
        (ClientResponseError(None, ()), UpstreamBroken),  # type: ignore[arg-type]
        (ValueError(), UpstreamBroken),
    ],
)
async def test_what_goes_wrong_is_a_value(
    upstream: Upstream, charge_service: ChargeService, error: Exception, kind: type
) -> None:
    charge_service.answer(exception=error)
    assert isinstance(await upstream.forward(request()), kind)


async def test_ids_that_are_no_text_are_not_taken_for_an_answer(upstream: Upstream) -> None:
    with pytest.raises(UnicodeEncodeError):
        await upstream.forward(request(merchant_id="\ud800"))


async def test_an_error_of_ours_is_not_taken_for_the_charge_services(
    upstream: Upstream, charge_service: ChargeService
) -> None:
    charge_service.answer(exception=KeyError("a bug"))
    with pytest.raises(KeyError):
        await upstream.forward(request())
