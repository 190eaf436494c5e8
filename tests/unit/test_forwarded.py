"""Which operations are forwarded, what their answers mean, and how a card's limit is told."""

import re
from datetime import timedelta

import pytest

from tests.unit.builders import PUBLISHED
from webhook_dispatcher.api.admission import headers_of_limits
from webhook_dispatcher.api.calls import ForwardedOperation, Request, Response
from webhook_dispatcher.api.card_attempts import subject_of
from webhook_dispatcher.api.charge_service import forwarded
from webhook_dispatcher.api.metrics import UPSTREAM_OUTCOMES
from webhook_dispatcher.api.operations.table import table
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.rate_limit import Limit, RateLimits
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage.api.limits import Taken
from webhook_dispatcher.transport.guard import EgressPolicy, Guard

LIMITS = {"key": Limit(600, timedelta(minutes=1)), "card": Limit(10, timedelta(minutes=15))}
POLICY = '"key";q=600;w=60, "card";q=10;w=900'


async def _forward(_: Request) -> Response:
    raise AssertionError


def test_what_is_forwarded_takes_the_place_of_ours() -> None:
    ours = table(Databases({}), RateLimits(), Guard(EgressPolicy()))
    rows = forwarded.operations(_forward)
    together = forwarded.instead(ours, rows)
    assert {row.name for row in ours} & {row.name for row in rows} == {"readCharge"}
    assert len(together) == len(ours) + len(rows) - 1
    assert [type(row) for row in together if row.name == "readCharge"] == [ForwardedOperation]
    assert len({row.name for row in together}) == len(together)
    assert [row.name for row in rows if row.limit == "card"] == ["confirmCard"]
    assert {row.method for row in rows if row.idempotency == "required"} == {"POST"}


def test_the_charge_service_may_answer_with_what_was_published() -> None:
    for code in range(-17_000, 0):
        assert forwarded.CODES.may_pass(code) == PUBLISHED.may_pass(code), code
        if PUBLISHED.may_pass(code):
            assert forwarded.CODES.statuses.get(code) == PUBLISHED.statuses.get(code)
            assert (code in forwarded.CODES.validation) == (-1009 <= code <= -1001)


def test_each_outcome_has_its_word() -> None:
    assert tuple(forwarded.OUTCOMES.values()) == UPSTREAM_OUTCOMES


def test_each_card_of_a_merchant_has_one_name_that_nobody_else_has() -> None:
    names = {
        subject_of(merchant, card, LIMITS["card"]).name
        for merchant, card in (("m", "abc"), ("ma", "bc"), ("m", "ABC"), ("mabc", ""), ("m" * 300, "c" * 300))
    }
    assert len(names) == 5
    assert all(len(name) < 200 for name in names)
    assert subject_of("m", "abc", LIMITS["card"]).is_durable


@pytest.mark.parametrize(
    ("left", "seconds", "told"),
    [
        ((5, 9), None, {"RateLimit": '"key";r=5, "card";r=9'}),
        ((0, 0), None, {"RateLimit": '"key";r=0, "card";r=0'}),
        ((5, 0), 700, {"RateLimit": '"key";r=5, "card";r=0;t=700', "Retry-After": "700"}),
        ((0, 9), 30, {"RateLimit": '"key";r=0;t=30, "card";r=9', "Retry-After": "30"}),
        ((0, 0), 700, {"RateLimit": '"key";r=0;t=700, "card";r=0;t=700', "Retry-After": "700"}),
    ],
)
def test_two_limits_are_told(left: tuple[int, int], seconds: int | None, told: dict[str, str]) -> None:
    taken = Taken(None if seconds is None else timedelta(seconds=seconds), 0, None, left)
    assert headers_of_limits(LIMITS, taken) == {"RateLimit-Policy": POLICY, **told}


def test_without_a_limit_of_cards_nothing_is_told_of_it() -> None:
    limits = {**LIMITS, "card": Limit(0, timedelta(minutes=1))}
    told = headers_of_limits(limits, Taken(None, 5, None, (5, None)))
    assert told == {"RateLimit-Policy": '"key";q=600;w=60', "RateLimit": '"key";r=5'}


@pytest.mark.parametrize(
    "url",
    ["charges:8081", "ftp://charges", "http://", "//charges", "http://u@charges", "http://:secret@charges"]
    + ["http://ana:secret@charges/", "http://x/?a", "http://charges#a", "http://charges:99999"],
)
def test_a_url_that_cannot_be_the_charge_services_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_settings({"WEBHOOK_API_UPSTREAM": url})
    assert re.match("WEBHOOK_API_UPSTREAM: (must|[Pp]ort|.*host)", str(refused.value))
    assert "secret" not in str(refused.value)
