"""The sample charge service behind the client that forwards to it: each code, misbehaviour and key."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from examples import charge_service
from examples.charge_service.ledger import Event
from examples.charge_service.misbehaviour import AFTER_ACTING, NAMES, Misbehaviour
from examples.charge_service.service import ChargeService
from tests.unit.builders import PUBLISHED
from tests.waiting import until
from webhook_dispatcher.api.charge_service.forwarded import ROWS
from webhook_dispatcher.api.charge_service.upstream import Upstream, UpstreamRequest
from webhook_dispatcher.api.charge_service.upstream_answers import (
    FieldProblem,
    Forwarded,
    Reply,
    UpstreamAway,
    UpstreamBroken,
    UpstreamError,
    UpstreamTooSlow,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
GOOD, POOR = "4111111111111111", "4111111111110004"
TWO = [{"id": "rcp_1", "share": 7000}, {"id": "rcp_2", "share": 3000}]
SOON = timedelta(seconds=0.3)


@dataclass
class KeptOutbox:
    """Keeps what is written, and waits or fails when told."""

    events: list[Event] = field(default_factory=list)
    may_write: asyncio.Event = field(default_factory=asyncio.Event)
    is_broken: bool = False
    is_slow: bool = False

    async def write(self, events: Sequence[Event]) -> None:
        await self.may_write.wait()
        if self.is_slow:
            await asyncio.sleep(0.05)
        if self.is_broken:
            raise OSError("the database is away")
        self.events += events

    def types(self) -> list[str]:
        return [event.type for event in self.events]


@dataclass
class Partner:
    """Asks as the Partner API does, for one merchant."""

    upstream: Upstream
    outbox: KeptOutbox
    misbehaviour: Misbehaviour
    url: str
    merchant_id: str = "merchant-1"
    _keys: int = 0

    def of(self, merchant_id: str) -> "Partner":
        return Partner(self.upstream, self.outbox, self.misbehaviour, self.url, merchant_id)

    async def get(self, template: str, **parameters: str) -> Reply:
        request = UpstreamRequest("GET", template, self.merchant_id, "r1", "en", parameters)
        return await self.upstream.forward(request)

    async def post(
        self, template: str, body: Mapping[str, Any], key: str | None = None, **parameters: str
    ) -> Reply:
        """Ask with a key of its own, unless one is given."""
        self._keys += 1
        return await self.send(
            "POST", template, body, key or f"{self.merchant_id} {self._keys}", **parameters
        )

    async def send(
        self, method: str, template: str, body: Mapping[str, Any], key: str | None = None, **parameters: str
    ) -> Reply:
        """Ask with that key, or none."""
        content = json.dumps(body).encode()
        return await self.upstream.forward(
            UpstreamRequest(method, template, self.merchant_id, "r1", "en", parameters, (), content, key)
        )

    async def card(self, number: str = GOOD, *, is_confirmed: bool = True) -> str:
        """Bind a card and return its id."""
        card_id: str = shown(await self.post("/v1/cards", {"number": number}))["id"]
        if is_confirmed:
            assert shown(await self.confirm(card_id, number[-6:]))["status"] == "ACTIVE"
        return card_id

    async def confirm(self, card_id: str, code: str) -> Reply:
        return await self.post("/v1/cards/{id}/confirm", {"code": code}, id=card_id)

    async def charge(self, card_id: str, key: str | None = None, **changes: Any) -> Reply:
        """Make a charge of a card."""
        fields = {"externalId": "order-1", "cardId": card_id, "amount": 1990, "currency": "UZS"}
        return await self.post("/v1/charges", {**fields, "recipients": TWO, **changes}, key)

    async def reverse(self, charge_id: str, **body: Any) -> Reply:
        return await self.post("/v1/charges/{id}/reverse", body, id=charge_id)


def shown(reply: Reply) -> dict[str, Any]:
    assert isinstance(reply, Forwarded), reply
    return dict(json.loads(reply.data))


@asynccontextmanager
async def serving(timeout: timedelta) -> AsyncIterator[Partner]:
    outbox, misbehaviour = KeptOutbox(), Misbehaviour()
    outbox.may_write.set()
    runner = web.AppRunner(ChargeService(outbox, misbehaviour, lambda: NOON).application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with Upstream(url, PUBLISHED, "test/1", timeout=timeout) as upstream:
            yield Partner(upstream, outbox, misbehaviour, url)
    finally:
        misbehaviour.release()
        outbox.may_write.set()
        await runner.cleanup()


@pytest.fixture
async def partner() -> AsyncIterator[Partner]:
    async with serving(timedelta(seconds=30)) as partner:
        yield partner


@asynccontextmanager
async def impatient(partner: Partner) -> AsyncIterator[Partner]:
    """Ask the same service, and soon give up waiting."""
    async with Upstream(partner.url, PUBLISHED, "test/1", timeout=SOON) as upstream:
        yield replace(partner, upstream=upstream)


async def test_a_charge_is_made_shown_and_reversed(partner: Partner) -> None:
    made = await partner.charge(await partner.card(), fiscal=True)
    assert isinstance(made, Forwarded)
    assert made.status == 201
    charge = shown(made)
    assert (charge["status"], charge["split"]["status"]) == ("SUCCEEDED", "COMPLETED")
    assert await partner.get("/v1/charges/{id}", id=charge["id"]) == Forwarded(200, made.data)
    reversed_ = await partner.reverse(charge["id"], version=1)
    assert shown(reversed_)["status"] == "REVERSED"
    steps = ["created", "succeeded", "split_completed", "fiscal_registered", "reversed"]
    assert partner.outbox.types() == [f"charge.{step}" for step in steps]
    assert partner.outbox.events[-2].object.encode() == made.data, "an event has what GET answered"
    assert json.loads(partner.outbox.events[-1].object) == shown(reversed_)


async def test_1007_names_each_field(partner: Partner) -> None:
    recipients = [{"id": "rcp_1", "share": 0}, {"share": 10000}]
    reply = await partner.charge("card_1", recipients=recipients, amount="1990", colour="red")
    assert isinstance(reply, UpstreamError)
    assert (reply.code, reply.status) == (-1007, 422)
    assert set(reply.details) == {
        FieldProblem("recipients.0.share", "must not be less than 1"),
        FieldProblem("recipients.1.id", "must be 1 to 128 printable characters"),
        FieldProblem("amount", "must be a whole number above 0"),
        FieldProblem("colour", "is not a known field"),
    }


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b"\xff", b"9" * 5000])
async def test_1007_is_answered_to_what_is_no_object(partner: Partner, body: bytes) -> None:
    asked = UpstreamRequest("POST", "/v1/charges", "m", "r1", "en", {}, (), body, "k")
    reply = await partner.upstream.forward(asked)
    assert reply == UpstreamError(-1007, 422, (FieldProblem("", "must be a JSON object"),))


async def test_a_card_is_removed(partner: Partner) -> None:
    card = await partner.card()
    assert await partner.of("merchant-2").send("DELETE", "/v1/cards/{id}", {}, id=card) == UpstreamError(
        -8006, 403
    )
    assert await partner.send("DELETE", "/v1/cards/{id}", {}, id=card) == Forwarded(200, b"null")
    assert await partner.get("/v1/cards/{id}", id=card) == UpstreamError(-8001, 404)


ANN = {"name": "Ann"}
KEPT = (
    ("/v1/recipients", "/v1/recipients/{id}", ANN, "id", -6001),
    (
        "/v1/customers",
        "/v1/customers/{externalUserId}",
        {"externalUserId": "u1", **ANN},
        "externalUserId",
        -7002,
    ),
)


@pytest.mark.parametrize(("collection", "one", "body", "name", "missing"), KEPT)
async def test_recipients_and_customers_are_kept_for_their_merchant(
    partner: Partner, collection: str, one: str, body: Mapping[str, str], name: str, missing: int
) -> None:
    added = await partner.post(collection, body)
    assert isinstance(added, Forwarded)
    assert (added.status, shown(added).items() >= body.items()) == (201, True)
    path = {name: shown(added)[name]}
    changed = shown(await partner.send("PATCH", one, {"name": "Łucja"}, **path))
    assert changed == {**shown(added), "name": "Łucja"} == shown(await partner.get(one, **path))
    other = partner.of("merchant-2")
    assert await other.get(one, **path) == UpstreamError(missing, 404)
    assert await other.send("PATCH", one, ANN, **path) == UpstreamError(missing, 404)
    invalid = await partner.post(collection, {"name": ""})
    assert isinstance(invalid, UpstreamError)
    assert invalid.code == -1007


async def test_recipients_are_listed_for_their_merchant(partner: Partner) -> None:
    added = [shown(await partner.post("/v1/recipients", {"name": name})) for name in ("Ann", "Łucja")]
    listed = await partner.get("/v1/recipients")
    assert isinstance(listed, Forwarded)
    assert json.loads(listed.data) == added
    assert await partner.of("merchant-2").get("/v1/recipients") == Forwarded(200, b"[]")


async def test_a_merchant_sees_itself_alone(partner: Partner) -> None:
    itself = {"id": partner.merchant_id}
    assert shown(await partner.get("/v1/merchants/{id}", **itself)) == itself
    shown(await partner.send("PATCH", "/v1/merchants/{id}", ANN, **itself))
    profile = {"tin": "123456789"}
    shown(await partner.send("PUT", "/v1/merchants/{id}/fiscal-profile", profile, **itself))
    assert shown(await partner.get("/v1/merchants/{id}", **itself)) == {
        **itself,
        **ANN,
        "fiscalProfile": profile,
    }
    other = partner.of("merchant-2")
    for method, template in (("GET", ""), ("PATCH", ""), ("PUT", "/fiscal-profile")):
        reply = await other.send(method, "/v1/merchants/{id}" + template, profile, **itself)
        assert reply == UpstreamError(-5001, 404)


def test_it_has_every_operation_that_is_forwarded() -> None:
    routes = ChargeService(KeptOutbox()).application().router.routes()
    there = {(route.method, route.resource.canonical) for route in routes if route.resource}
    wanted = {(method, template.replace("externalUserId", "id")) for method, template, *_ in ROWS}
    assert {route for route in there if route[0] != "HEAD"} == wanted


async def test_another_merchants_charge_is_not_there(partner: Partner) -> None:
    charge = shown(await partner.charge(await partner.card()))
    other = partner.of("merchant-2")
    assert await other.get("/v1/charges/{id}", id=charge["id"]) == UpstreamError(-3001, 404)
    assert await other.reverse(charge["id"]) == UpstreamError(-3001, 404)


async def test_the_same_key_gets_the_same_answer_and_has_no_second_effect(partner: Partner) -> None:
    card = await partner.card()
    first = await partner.charge(card, key="k")
    assert [await partner.charge(card, key="k") for _ in range(3)] == [first] * 3
    assert partner.outbox.types() == ["charge.created", "charge.succeeded", "charge.split_completed"]
    assert await partner.charge(card, key="k", amount=5) == UpstreamError(-11002, 422)


async def test_a_refusal_is_repeated_too(partner: Partner) -> None:
    card = await partner.card(POOR)
    assert await partner.charge(card, key="k") == await partner.charge(card, key="k")
    assert partner.outbox.types() == ["charge.created", "charge.failed"]


async def test_a_key_is_not_bound_to_fields_that_were_not_valid(partner: Partner) -> None:
    card = await partner.card()
    assert isinstance(await partner.charge(card, key="k", amount=0), UpstreamError)
    shown(await partner.charge(card, key="k"))


async def test_of_equal_requests_at_once_one_acts(partner: Partner) -> None:
    card = await partner.card()
    partner.outbox.may_write.clear()
    asking = [asyncio.ensure_future(partner.charge(card, key="k")) for _ in range(20)]
    running = UpstreamError(-11003, 409)
    await until(lambda: sum(each.done() for each in asking) == 19)
    partner.outbox.may_write.set()
    replies = [await each for each in asking]
    assert Counter(reply == running for reply in replies) == {True: 19, False: 1}
    assert len(partner.outbox.events) == 3
    shown(await partner.charge(card, key="k"))


async def test_of_two_charges_with_one_external_id_at_once_one_is_made(partner: Partner) -> None:
    card = await partner.card()
    partner.outbox.is_slow = True
    replies = await asyncio.gather(*(partner.charge(card) for _ in range(10)))
    assert Counter(type(reply) for reply in replies) == {Forwarded: 1, UpstreamError: 9}
    assert len(partner.outbox.events) == 3


async def test_what_could_not_be_written_has_not_happened(partner: Partner) -> None:
    card = await partner.card()
    partner.outbox.is_broken = True
    assert isinstance(await partner.charge(card, key="k"), UpstreamBroken)
    partner.outbox.is_broken = False
    shown(await partner.charge(card, key="k"))
    assert len(partner.outbox.events) == 3


BECOMES: dict[str, Reply] = {
    "503": UpstreamAway("it answered with status 503", may_have_acted=True),
    "503-with-code": UpstreamAway("it answered with status 503", may_have_acted=True),
    "break-off": UpstreamAway("it broke off its answer", may_have_acted=True),
    "die": UpstreamAway("ServerDisconnectedError", may_have_acted=True),
    "hang": UpstreamTooSlow("it gave no complete answer in time"),
    "table-code-with-500": UpstreamError(-9002, 422),
    "too-many": UpstreamError(-11005, 429, retry_after=17),
    "unlisted-code": UpstreamError(-8007, 410),
}
"""What each misbehaviour is to the client; all others are its being broken."""


@pytest.mark.parametrize("how", sorted(NAMES))
@pytest.mark.parametrize("acts", [False, True], ids=["at once", "after acting"])
async def test_whatever_it_does_the_repeat_has_one_effect(partner: Partner, how: str, acts: bool) -> None:
    card = await partner.card()
    partner.misbehaviour.ask(how + AFTER_ACTING * acts)
    expected = BECOMES.get(how)
    if isinstance(expected, UpstreamTooSlow):
        async with impatient(partner) as asking:
            reply = await asking.charge(card, key="k")
    else:
        reply = await partner.charge(card, key="k")
    if expected is not None:
        # A kept connection may tell of its end by either name.
        assert reply == expected or (how == "die" and isinstance(reply, UpstreamAway))
    else:
        assert isinstance(reply, UpstreamBroken), reply
    assert len(partner.outbox.events) == (3 if acts else 0)
    again = await partner.charge(card, key="k")
    assert shown(again)["status"] == "SUCCEEDED"
    assert len(partner.outbox.events) == 3


def test_each_misbehaviour_is_described_and_each_that_is_described_is_there() -> None:
    readme = (Path(charge_service.__file__).parent / "README.md").read_text(encoding="utf-8")
    rows = readme.partition("\n| how | ")[2].splitlines()[2:]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])} == NAMES


async def test_misbehaviour_is_asked_for_by_http(partner: Partner) -> None:
    async with ClientSession() as session:
        url = f"{partner.url}/misbehaviour"
        async with session.post(url, json={"how": "401", "times": 2}) as response:
            assert response.status == 204
        async with session.post(url, json={"how": "sulk"}) as response:
            assert response.status == 400
    replies = [await partner.get("/v1/charges/{id}", id="ch_1") for _ in range(3)]
    assert [type(reply) for reply in replies] == [UpstreamBroken, UpstreamBroken, UpstreamError]


async def test_who_names_no_merchant_is_turned_away(partner: Partner) -> None:
    async with ClientSession() as session, session.get(f"{partner.url}/v1/charges/ch_1") as response:
        assert response.status == 401


async def test_a_post_without_a_key_is_refused(partner: Partner) -> None:
    asked = UpstreamRequest("POST", "/v1/cards", "m", "r1", "en", {}, (), b"{}")
    assert await partner.upstream.forward(asked) == UpstreamError(-11001, 400)


async def test_merchants_with_awkward_ids_are_told_apart(partner: Partner) -> None:
    first, second = partner.of("Łucja 1"), partner.of("Łucja 1 ")
    charge = shown(await first.charge(await first.card()))
    assert isinstance(await second.get("/v1/charges/{id}", id=charge["id"]), UpstreamError)
    assert {event.merchant_id for event in partner.outbox.events} == {"Łucja 1"}
