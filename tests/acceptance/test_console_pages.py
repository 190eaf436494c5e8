"""What people do with the console, without scripts: forms and links alone."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from tests.acceptance.console_people import Client, Page, RunningConsole, start_console
from tests.acceptance.installation import IN_SCALED_TIME, OLDER, Installation, Sent
from tests.waiting import until_found
from webhook_dispatcher.console.rendering import merchant_path
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.arrivals import Signature
from webhook_dispatcher.local.behaviour import Behaviour

SECRET = re.compile(r'<code id="secret">([^<]+)</code>')


@pytest.fixture
async def console(installation: Installation) -> RunningConsole:
    return await start_console(installation)


@pytest.fixture
async def person(console: RunningConsole) -> AsyncIterator[Client]:
    """Have an operator's browser, who is ada."""
    async with console.person(name="ada") as person:
        yield person


async def followed(client: Client, page: Page, text: str) -> Page:
    """Follow where a form led, and ask again until the page says something."""
    assert page.status == 303, page.text
    path = page.location

    async def says() -> Page | None:
        shown = await client.get(path)
        assert shown.status == 200, shown.text
        return shown if text in shown.text else None

    return await until_found(says)


def hidden(page: Page) -> list[tuple[str, str]]:
    """Return the hidden fields of a preview's form, but for its token."""
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text.split("<form")[-1])
    return [(name, unescape(text)) for name, text in fields if name != "token"]


def secret_in(page: Page) -> str:
    """Return the secret that a page shows."""
    assert page.status == 200, page.text
    [secret] = SECRET.findall(page.text)
    return str(secret)


async def test_a_merchant_is_configured_and_its_secret_is_shown_once(
    installation: Installation, person: Client, console: RunningConsole
) -> None:
    await installation.start()
    url = installation.receiver.url("m 1/é")
    found = await person.get("/open?merchant=m+1%2F%C3%A9")
    path = found.location.removesuffix("?new=yes")
    assert path.startswith("/merchants/~")
    page = await person.post(f"{path}/endpoint", {"url": "http://10.0.0.1/"})
    assert (page.status, "10.0.0.1 is not a public address" in page.text) == (422, True)
    page = await person.post(f"{path}/endpoint", {"url": url})
    secret = secret_in(page)
    assert page.headers["Cache-Control"] == "no-store"
    assert secret not in (await person.get(path)).text
    # The browser sends the form again.
    again = await person.post(f"{path}/endpoint", {"url": url})
    assert again.location.endswith("said=same")
    installation.receiver.accept("m 1/é", Secret(secret))
    await followed(person, await person.post(f"{path}/test"), "Delivered: HTTP 200")
    assert [arrival.signature for arrival in installation.receiver.of("m 1/é")] == [Signature.RIGHT]
    who = "SELECT person FROM webhook.audit WHERE action = 'endpoint set'"
    assert await installation.owner.fetchval(who) == "ada"
    assert secret not in console.daemon.log_file.read_text()


async def test_a_secret_is_rotated_with_an_overlap_and_once_for_each_form(
    installation: Installation, person: Client
) -> None:
    await installation.start()
    await installation.configure("m1")
    page = await person.get("/merchants/m1")
    [created] = re.findall(r'name="created" value="([^"]+)"', page.text)
    form = {"created": created, "overlap": "P1D"}
    secret = secret_in(await person.post("/merchants/m1/secret", form))
    again = await person.post("/merchants/m1/secret", form)
    assert (again.status, "is not shown again. Nothing was changed." in again.text) == (409, True)
    assert "also signs until" in (await person.get("/merchants/m1")).text
    assert secret not in again.text
    removed = await person.post("/merchants/m1/remove")
    assert "The endpoint was removed." in (await person.get(removed.location)).text


async def test_types_are_ticked_and_what_is_not_wanted_says_so(
    installation: Installation, person: Client
) -> None:
    await installation.start()
    await installation.configure("m1")
    assert "Types that are sent: all" in (await person.get("/merchants/m1")).text
    assert (await person.post("/merchants/m1/types")).status == 422
    changed = await person.post("/merchants/m1/types", {"types": "charge.failed"})
    page = (await person.get(changed.location)).text
    assert "The types were changed." in page
    assert re.findall(r'name="types" value="([\w.]+)" checked', page.split('id="endpoint_name"')[0]) == [
        "charge.failed"
    ]
    await installation.until_true("SELECT NOT EXISTS (SELECT FROM webhook.lane WHERE recalled)")
    unwanted = await installation.emit("m1")
    sent = await installation.emit("m1", event_type="charge.failed")
    await installation.settled(sent.id, "delivered", 1)
    for listed in ("/deliveries", "/deliveries?merchant=m1", f"/deliveries?id={unwanted.id}"):
        assert str(unwanted.id) not in re.findall(
            r'name="event" value="([^"]+)"', (await person.get(listed)).text
        )
    told = (await person.get(f"/deliveries/{unwanted.id}")).text
    assert "filter did not want it" in told
    assert ">Not wanted<" in told


async def test_the_order_is_changed_and_shown(installation: Installation, person: Client) -> None:
    await installation.configure("m1")
    assert "one event after the other" in (await person.get("/merchants/m1")).text
    assert (await person.post("/merchants/m1/order", {"at_once": "33"})).status == 422
    for at_once, said in (("8", "was changed"), ("8", "is the order already"), ("1", "was changed")):
        changed = await person.post("/merchants/m1/order", {"at_once": at_once})
        page = (await person.get(changed.location)).text
        assert said in page
        assert ("by charge, 8 at once" in page) is (at_once == "8")
    assert (await person.post("/merchants/nobody/order", {"at_once": "8"})).status == 409
    await installation.owner.execute(OLDER)
    refused = await person.post("/merchants/m1/order", {"at_once": "8"})
    assert (refused.status, "know no order by charge" in refused.text) == (409, True)


async def test_a_second_endpoint_is_added_for_refunds_and_paused(
    installation: Installation, person: Client
) -> None:
    await installation.start()
    await installation.configure("m1")
    await installation.until_true("SELECT EXISTS (SELECT FROM webhook.current_sealing_key)")
    form = {
        "known": "1",
        "url": installation.receiver.url("m1.2"),
        "name": "refunds",
        "types": "charge.reversed",
    }
    secret = secret_in(await person.post("/merchants/m1/endpoints", form))
    installation.receiver.accept("m1.2", Secret(secret))
    again = await person.post("/merchants/m1/endpoints", form)
    assert (again.status, "added or removed meanwhile" in again.text) == (409, True)
    page = (await person.get("/merchants/m1")).text
    assert re.findall(r'<h2 id="endpoint_\d">([^<]+)</h2>', page) == ["Endpoint 1", "Endpoint 2: refunds"]
    assert "Types that are sent: charge.reversed" in page
    await installation.emit("m1")
    refund = await installation.emit("m1", event_type="charge.reversed")
    assert [arrival.signature for arrival in await installation.arrived(1, "m1.2")] == [Signature.RIGHT]
    await installation.arrived(2, "m1")
    listed = (await person.get(f"/deliveries?id={refund.id}")).text
    assert sorted(re.findall(r">Endpoint (\d)<", listed)) == ["1", "2"]
    await followed(person, await person.post("/merchants/m1/pause", {"endpoint": "2"}), "Paused")
    paused = "SELECT array_agg(number) FROM webhook.endpoints WHERE paused"
    assert await installation.owner.fetchval(paused) == [2]
    assert "/merchants/m1" in (await person.get("/merchants?order=paused")).text
    for path in ("/merchants/m1", "/deliveries?merchant=m1", "/commands?view=changes", "/health", "/"):
        assert "\x1f" not in (await person.get(path)).text
    for act in ("retry_all", "recover_all", "skip_all"):
        of_one = f"/deliveries/act?act={act}&only_merchant=m1&only_endpoint=2"
        await person.post("/deliveries/act", hidden(await person.get(of_one)))
    asked = "SELECT array_agg(command) FROM webhook.control WHERE args ->> 'endpoint' = '2'"
    assert set(await installation.owner.fetchval(asked)) == {"pause", "retry_failed", "recover", "skip"}
    await person.post("/merchants/m1/remove", {"endpoint": "1"})
    page = (await person.get("/merchants/m1")).text
    cards = re.findall(r'<section [^>]*aria-labelledby="([a-z_0-9]+)"', page)
    assert cards[:4] == ["endpoints", "endpoint_1", "endpoint_2", "adding"]
    assert "Nothing is sent to endpoint 1: it was removed." in page
    anew = {"endpoint": "1", "url": installation.receiver.url("m1")}
    installation.receiver.accept("m1", Secret(secret_in(await person.post("/merchants/m1/endpoint", anew))))
    # The other one is paused, and so is this.
    await person.post("/merchants/m1/resume", {"endpoint": "1"})
    await installation.emit("m1")
    assert (await installation.arrived(3, "m1"))[-1].signature is Signature.RIGHT
    await person.post("/merchants/m1/remove", {"endpoint": "2"})
    assert "Endpoint 2" not in (await person.get("/merchants/m1")).text.split('id="latest"')[0]


async def test_a_test_event_that_is_refused_says_so(installation: Installation, person: Client) -> None:
    await installation.start()
    await installation.configure("m1")
    installation.receiver.behave("m1", Behaviour(503))
    page = await followed(
        person, await person.post("/merchants/m1/test"), "HTTP 503: 503 Service Unavailable"
    )
    [event] = re.findall(r'href="/deliveries/([0-9a-f-]{36})">Show the test event', page.text)
    assert "webhook.test" in (await person.get(f"/deliveries/{event}")).text


async def test_an_api_key_is_created_once_and_revoked(person: Client) -> None:
    page = await person.get("/merchants/m1")
    [client_id] = re.findall(r'name="client" value="([^"]+)"', page.text)
    form = {"client": client_id, "name": "online shop"}
    secret = secret_in(await person.post("/merchants/m1/keys", form))
    again = await person.post("/merchants/m1/keys", form)
    assert (again.status, secret in again.text) == (409, False)
    shown = (await person.get("/merchants/m1")).text
    assert client_id in shown
    assert secret not in shown
    assert "Revoked" not in (listed := (await person.get("/merchants?view=keys")).text)
    assert re.search(rf'href="/merchants/m1#keys">{client_id}<', listed)
    revoked = await person.post("/merchants/m1/keys/revoke", {"client": client_id})
    assert "The key was revoked." in (await person.get(revoked.location)).text
    assert "Revoked" in (await person.get("/merchants?view=keys")).text
    assert (await person.get("/merchants?view=keys&after=x")).status == 422
    assert (await person.post("/merchants/m2/keys/revoke", {"client": client_id})).status == 404


async def test_a_delivery_is_cancelled(installation: Installation, person: Client) -> None:
    await installation.start()
    sent = await installation.emit("m1")
    await followed(person, await person.post(f"/deliveries/{sent.id}/cancel"), "Cancelled")
    assert (await installation.delivery(sent.id))["failed_reason"] == "cancelled"


async def test_filters_stand_in_the_url_and_pages_go_on_by_cursor(
    installation: Installation, person: Client
) -> None:
    sent = [await installation.emit("m1", json.dumps({"id": f"ch_{number}"})) for number in range(60)]
    await installation.emit("m2", event_type="charge.failed")
    first = (await person.get("/deliveries?merchant=m1")).text
    [onwards] = re.findall(r'rel="next" href="([^"]+)"', first)
    second = (await person.get(onwards)).text
    shown = [UUID(text) for text in re.findall(r'name="event" value="([0-9a-f-]{36})"', first + second)]
    assert shown == [event.id for event in reversed(sent)]
    assert 'rel="next"' not in second
    only = (await person.get("/deliveries?type=charge.failed&state=pending")).text
    assert only.count('name="event"') == 1
    assert "None matches this filter" in (await person.get("/deliveries?state=failed")).text
    for query, said in (
        ("since=nonsense", "must be a time"),
        ("id=nonsense", "must be an id"),
        ("status=abc", "is none of those"),
        ("after=nonsense", "is no place in this list"),
        ("state=nonsense", "is none of those"),
        ("since=2026-01-02T00:00Z&until=2026-01-01T00:00Z", "must be later"),
    ):
        page = await person.get(f"/deliveries?{query}")
        assert (page.status, said in page.text) == (422, True), query


async def test_the_log_shows_of_an_answer_what_the_state_does_not_say(
    installation: Installation, person: Client
) -> None:
    await installation.start(RETRY_SCHEDULE="PT1H")
    for merchant_id, status, state in (("good", 204, "delivered"), ("bad", 503, "pending_retry")):
        await installation.configure(merchant_id)
        installation.receiver.behave(merchant_id, Behaviour(status))
        await installation.settled((await installation.emit(merchant_id)).id, state, 1)
    await installation.emit("unconfigured")
    shown = (await person.get("/deliveries")).body.decode()
    cells = re.findall(r'<td data-label="Last answer">(.*?)</td>', shown)
    assert [re.sub("<[^>]*>", "", cell).strip() for cell in cells] == ["–", "HTTP 503", "HTTP 204"]


async def test_ticked_deliveries_are_retried_together(installation: Installation, person: Client) -> None:
    await installation.start(RETRY_SCHEDULE="PT1H")
    await installation.configure("m1")
    installation.receiver.behave("m1", *[Behaviour(500)] * 3, Behaviour(200))
    sent = [await installation.emit("m1") for _ in range(3)]
    for event in sent:
        await installation.settled(event.id, "pending_retry", 1)
    ticked = "&".join(f"event={event.id}" for event in sent[:2])
    page = await person.get(f"/deliveries/act?act=retry&{ticked}")
    assert "Retry 2 deliveries" in page.text
    given = await person.post(
        "/deliveries/act", [("act", "retry"), *(("event", str(event.id)) for event in sent[:2])]
    )
    assert given.location == "/commands?given=2"
    assert "2 commands were given." in (await person.get(given.location)).text
    assert (await person.get("/deliveries/act?act=retry")).status == 422
    for event in sent[:2]:
        await installation.settled(event.id, "delivered", 2)
    assert (await installation.delivery(sent[2].id))["state"] == "pending_retry"


async def test_all_of_tonight_is_sent_again_in_three_clicks(
    installation: Installation, person: Client
) -> None:
    await installation.start()
    await installation.configure("m1", "m2")
    await installation.emit_each(["m1", "m2"], 2)
    await installation.all_delivered(4)
    assert (
        '<button class="button tiny" name="act" value="recover_all">'
        in (await person.get("/deliveries")).text
    )
    page = await person.get("/deliveries/act?act=recover_all&states=delivered")
    assert re.search(r"<dt>Delivered</dt><dd><strong>4</strong>", page.text)
    assert re.search(r'<a href="/merchants/m1">m1</a></dt><dd>2</dd>', page.text)
    shorter = {unescape(path) for path in re.findall(r'href="(/deliveries/act[^"]+)">Last hour<', page.text)}
    [hour] = {(await person.get(path)).status for path in shorter}
    assert hour == 200
    given = await person.post("/deliveries/act", [*hidden(page), ("everybody", "yes")])
    await followed(person, given, "Matched: 4, done: 4")
    args = json.loads(await installation.admin.fetchval("SELECT args FROM webhook.control"))
    since, until = (datetime.fromisoformat(args[name]) for name in ("since", "until"))
    assert until - since == timedelta(hours=6)
    assert args.keys() - {"since", "until"} == {"states", "leave_out", "counted"}


async def give_up(installation: Installation, event: Sent) -> None:
    """Have the last attempt of a waiting delivery be made, which fails."""
    await installation.settled(event.id, "pending_retry", 1)
    made_due = "UPDATE webhook.outbox SET attempts = 7, due_at = clock_timestamp() WHERE id = $1"
    await installation.owner.execute(made_due, event.id)
    await installation.owner.execute("UPDATE webhook.lane SET retry_at = '-infinity'")
    await installation.settled(event.id, "failed", 8)


async def test_what_failed_is_sent_again_and_all_else_is_asked_for_apart(
    installation: Installation, person: Client
) -> None:
    await installation.start()
    await installation.configure("m1", "m2")
    for merchant in ("m1", "m2"):
        installation.receiver.behave(merchant, Behaviour(503))
    failed, waiting, last = await installation.emit_each(["m1"], 3)
    down = await installation.emit("m2")
    await give_up(installation, failed)
    await give_up(installation, down)
    for event in (waiting, last):
        await installation.settled(event.id, "pending_retry", 1)
    await installation.owner.execute("UPDATE webhook.outbox SET attempts = 7 WHERE id = $1", last.id)
    installation.receiver.behave("m1", Behaviour())
    delivered = await installation.emit("m1")
    await installation.settled(delivered.id, "delivered", 1)

    def chosen(page: Page) -> list[str]:
        return re.findall(r'name="new_\w+" value="(\w+)" checked', page.text)

    page = await person.get("/deliveries/act?act=recover_all")
    assert chosen(page) == ["failed"]
    assert "get them a second time" in page.text
    assert "Those of a merchant that fails now as well: 1." in page.text
    assert re.findall(r"<dt>([\w ]+)</dt><dd><strong>(\w+)</strong>", page.text) == [("Failed", "1")]
    form = [*hidden(page), ("everybody", "yes")]
    more = [
        ("new_since", ""),
        ("new_until", ""),
        ("new_states", "failed"),
        ("new_states", "pending_retry"),
    ]
    page = await person.get((await person.post("/deliveries/act", [*form, *more])).location)
    assert chosen(page) == ["failed", "pending_retry"]
    assert "wait for the last attempt of their schedule as well: 1." in page.text
    assert "fails now as well: 1." in page.text, "what waits has not ended in these hours"
    page = await person.get("/deliveries/act?act=recover_all&states=pending_retry&included=last_attempts")
    assert chosen(page) == ["pending_retry", "last_attempts"]
    assert "<strong>2</strong>" in page.text
    await followed(person, await person.post("/deliveries/act", form), "Matched: 1, done: 1")
    await installation.settled(failed.id, "delivered", 9)
    assert "<dd>9 (1 by hand)</dd>" in (await person.get(f"/deliveries/{failed.id}")).text
    args = json.loads(await installation.admin.fetchval("SELECT args FROM webhook.control"))
    assert (args["states"], args["leave_out"]) == (["failed"], ["last_attempts", "failing"])
    for event, attempts in ((delivered, 1), (waiting, 1), (last, 7), (down, 8)):
        assert (await installation.delivery(event.id))["attempts"] == attempts


@pytest.mark.parametrize("merchant", ["m1", ""])
async def test_wrong_events_are_skipped_by_type_charge_and_time(
    installation: Installation, person: Client, merchant: str
) -> None:
    await installation.start()
    await installation.configure("m1", "m2")
    await installation.do("pause")
    charge = '{"id": "ch_1"}'
    early = await installation.emit("m1", charge, "charge.failed")
    since = await installation.owner.fetchval("SELECT clock_timestamp()")
    wrong, right, other = [
        await installation.emit("m1", text, kind)
        for text, kind in ((charge, "charge.failed"), (charge, "charge.created"), ("{}", "charge.failed"))
    ]
    await installation.emit("m2", charge, "charge.failed")
    fields = {"only_type": "charge.failed", "only_charge": "ch_1", "only_since": since.isoformat()}
    query = urlencode({"act": "skip_all", "only_merchant": merchant, **fields})
    page = await person.get(f"/deliveries/act?{query}")
    wanted = 1 if merchant else 2
    assert re.findall(r"<dt>([\w ]+)</dt><dd><strong>(\w+)</strong>", page.text) == [("Waiting", str(wanted))]
    assert re.search(rf'<dt class="mono">charge.failed</dt><dd>{wanted}</dd>', page.text)
    assert "Times are of when events were created." in page.text
    late = await installation.emit("m1", charge, "charge.failed")
    form = [field for field in hidden(page) if not field[0].startswith("shown_")]
    shown = [("new_since", "2026-01-02T03:04:05"), ("shown_since", "2026-01-02T03:04:06")]
    again = await person.post("/deliveries/act", [*form, *shown])
    assert "Nothing was done" in (await person.get(again.location)).text
    if not merchant:
        assert "Tick the box" in (await person.post("/deliveries/act", form)).text
    given = await person.post("/deliveries/act", [*form, ("everybody", "yes")])
    await followed(person, given, f"done: {wanted}")
    args = json.loads(
        await installation.admin.fetchval("SELECT args FROM webhook.control WHERE command = 'skip'")
    )
    assert (args["types"], args["charge"], args["counted"]) == (["charge.failed"], "ch_1", wanted)
    assert datetime.fromisoformat(args["since"]) == since
    assert args.get("all") == (None if merchant else True)
    assert (await installation.delivery(wrong.id))["failed_reason"] == "skipped"
    await installation.do("resume")
    for event in (early, right, other, late):
        await installation.settled(event.id, "delivered", 1)
    of_m1 = [str(event.id) for event in (early, right, other, late)]
    assert [arrival.event_id for arrival in installation.receiver.of("m1")] == of_m1


async def test_what_was_not_counted_is_counted_anew_and_not_done(
    installation: Installation, person: Client
) -> None:
    await installation.configure("m1")
    states = "&states=failed&states=pending_retry"
    page = await person.get(f"/deliveries/act?act=recover_all&only_merchant=m1{states}")
    sent = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text)
    sent = [(name, value) for name, value in sent if name != "token"]
    ticked = re.findall(r'name="new_states" value="(\w+)" checked', page.text)
    assert len(ticked) > 1

    async def pressed(states: Sequence[str], since: str = "", *more: tuple[str, str]) -> Page:
        shown = [("new_since", since), ("new_until", ""), *(("new_states", state) for state in states)]
        return await person.post("/deliveries/act", [*sent, *shown, *more])

    for answer in (await pressed(ticked[:1]), await pressed(ticked, "2026-01-02T03:04:05")):
        assert (answer.status, answer.location.split("?")[0]) == (303, "/deliveries/act")
        assert "Nothing was done" in (await person.get(answer.location)).text
    again = await pressed(ticked[:1], "2026-01-02T03:04", ("again", "yes"))
    page = await person.get(again.location)
    assert "Nothing was done" not in page.text
    assert re.findall(r'name="new_states" value="(\w+)" checked', page.text) == ticked[:1]
    assert 'name="new_since" value="2026-01-02T03:04:00"' in page.text
    assert await installation.admin.fetchval("SELECT count(*) FROM webhook.control") == 0
    assert (await pressed(ticked)).location.startswith("/commands/")
    args = await installation.admin.fetchval("SELECT args FROM webhook.control")
    assert json.loads(args)["states"] == ticked


async def test_what_cannot_be_done_to_all_that_match_is_not_offered(
    installation: Installation, person: Client
) -> None:
    await installation.configure("m1")
    page = (await person.get("/deliveries?merchant=m1&outcome=timeout")).text
    assert re.findall(r'value="(\w+_all)" disabled', page) == ["recover_all", "retry_all", "skip_all"]
    assert "Send again, Retry failed, Skip: This cannot be done by Outcome." in page
    page = (await person.get("/deliveries?merchant=m1&type=charge.failed")).text
    assert re.findall(r'value="(\w+_all)" disabled', page) == ["retry_all"]
    page = (await person.get("/deliveries")).text
    assert "recover_all" not in page, "there is nothing at all"


async def test_what_cannot_be_done_to_those_that_are_ticked_is_left_out(
    installation: Installation, person: Client
) -> None:
    await installation.configure("m1")
    waiting, cancelled = await installation.emit("m1"), await installation.emit("m1")
    await installation.start()
    await installation.settled(waiting.id, "delivered", 1)
    await installation.settled(cancelled.id, "delivered", 1)
    await installation.do("pause", "m1")
    waiting = await installation.emit("m1")
    events = f"event={waiting.id}&event={cancelled.id}"
    shown = (await person.get(f"/deliveries/act?act=cancel&{events}")).text
    assert re.findall(r'name="event" value="([^"]+)"', shown) == [str(waiting.id)]
    assert ("Cancel 1 delivery" in shown, "1 more is ticked" in shown, ">Go back</a>" in shown) == (
        True,
        True,
        True,
    )
    page = await person.get(f"/deliveries/act?act=retry&{events}")
    assert (page.status, "cannot be done to any of those" in page.text) == (422, True)


async def test_a_mistyped_merchant_is_no_merchant(
    installation: Installation, console: RunningConsole, person: Client
) -> None:
    await installation.configure("merchant-1")
    typed = "/merchants/merchant-l"
    async with console.person(Role.VIEWER) as viewer:
        for client in (viewer, person):
            page = await client.get(typed)
            assert (page.status, "There is no merchant of this id" in page.text) == (404, True)
            assert (
                "There is no merchant of this id"
                in (await client.get("/deliveries?merchant=merchant-l")).text
            )
            assert "no merchant of this" not in (await client.get("/deliveries?merchant=merchant-1")).text
            assert (await client.get("/merchants/merchant-1")).status == 200
    [path] = re.findall(r'href="(/merchants\?prefix=[^"]+)"', page.text)
    assert "/merchants/merchant-1" in (await person.get(path)).text
    opened = await person.get("/open?merchant=merchant-2")
    assert (await person.get(opened.location)).status == 200


async def test_what_cannot_be_taken_back_says_first_what_it_does(
    installation: Installation, person: Client
) -> None:
    await installation.start()
    await installation.configure("m1")
    sent = await installation.emit("m1")
    await installation.settled(sent.id, "delivered", 1)
    page = (await person.get(f"/deliveries/{sent.id}")).text
    assert "It is sent once more, and stays delivered whatever comes of it." in page
    await followed(
        person, await person.post(f"/deliveries/{sent.id}/retry", {"force": "yes"}), "Send it again"
    )
    await installation.settled(sent.id, "delivered", 2)


async def test_what_no_command_can_do_is_said_before_it_is_done(
    installation: Installation, person: Client
) -> None:
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    for query, said in (
        ("act=recover_all&only_merchant=m1&only_outcome=timeout", "This cannot be done by Outcome."),
        ("act=skip_all&only_merchant=m1&only_state=delivered", "This cannot be done by State."),
        ("act=nonsense", "There is no such action."),
    ):
        page = await person.get(f"/deliveries/act?{query}")
        assert (page.status, said in page.text) == (422, True), query
    page = await person.post("/deliveries/act", {"act": "recover_all", "everybody": "yes"})
    assert (page.status, "Choose a merchant or a beginning in time first" in page.text) == (422, True)
    page = await person.post("/deliveries/act", {"act": "retry_all", "only_since": since})
    assert (page.status, "Tick the box" in page.text) == (422, True)
    assert await installation.admin.fetchval("SELECT count(*) FROM webhook.control") == 0


async def test_a_link_means_the_same_time_to_a_reader_in_another_zone(
    installation: Installation, person: Client
) -> None:
    sent = await installation.emit("nobody")
    await person.post("/account/preferences", {"zone": "Asia/Tashkent"})
    asked = await person.get("/deliveries?merchant=nobody&since=2026-01-01T05:00:00&until=2099-01-01T05:00")
    assert asked.status == 303
    assert "since=2026-01-01T05%3A00%3A00%2B05%3A00&until=2099-01-01T05%3A00%3A00%2B05%3A00" in asked.location
    page = await person.get(asked.location)
    assert (page.status, str(sent.id) in page.text) == (200, True)
    assert 'aria-sort="descending">Created</th>' in page.text
    await person.post("/account/preferences", {"zone": "UTC"})
    page = await person.get(asked.location)
    assert (page.status, 'value="2026-01-01T00:00:00"' in page.text) == (200, True)
    page = await person.get(asked.location + "&time=ended")
    assert (str(sent.id) in page.text, '<option value="ended" selected>' in page.text) == (False, True)
    await person.post(f"/deliveries/{sent.id}/cancel")
    await installation.start()
    await installation.settled(sent.id, "failed", 0)
    page = await person.get("/deliveries?state=failed")
    assert (str(sent.id) in page.text, 'aria-sort="descending">Ended</th>' in page.text) == (True, True)


async def test_attempts_at_a_merchant_name_their_event_and_charge(
    installation: Installation, person: Client
) -> None:
    await installation.start(RETRY_SCHEDULE="PT1H")
    await installation.configure("m1")
    installation.receiver.behave("m1", Behaviour(503), Behaviour(200))
    refused, sent = [await installation.emit("m1", f'{{"id": "ch_{number}"}}') for number in (1, 2)]
    await installation.settled(refused.id, "pending_retry", 1)
    await installation.settled(sent.id, "delivered", 1)
    page = (await person.get("/merchants/m1")).text
    for event, charge in ((refused, "ch_1"), (sent, "ch_2")):
        assert re.search(rf'href="/deliveries/{event.id}">charge\.\w+</a><div[^>]+>{charge}</div>', page), (
            charge
        )


async def test_a_key_is_found_by_its_client_id(installation: Installation, person: Client) -> None:
    await installation.configure("m1")
    await installation.admin.execute(
        "SELECT webhook.create_api_key('m1', 'wdc_known', sha256('secret'), 'shop', 'a test')"
    )
    assert (await person.get("/search?q=wdc_known")).location == "/merchants/m1#keys"
    assert "wdc_known" in (await person.get("/merchants/m1")).text
    assert (await person.get("/search?q=wdc_unknown")).status == 200


async def test_pages_and_the_sign_in_name_the_installation(installation: Installation) -> None:
    await installation.owner.execute("UPDATE webhook.state SET installation = 'prod-eu1'")
    console = await start_console(installation, INSTALLATION="prod-eu1")
    async with console.person() as person, console.stranger() as stranger:
        for page in (await person.get("/deliveries"), await stranger.get("/sign-in")):
            assert "prod-eu1 · webhook-dispatcher</title>" in page.text
            assert 'webhook-dispatcher <span class="muted small">prod-eu1</span>' in page.text


async def test_pages_show_requests_by_the_names_of_the_installation(installation: Installation) -> None:
    await installation.configure("m1")
    sent = await installation.emit("m1")
    assert installation.command("names", "set", "--header-prefix", "Acme-").returncode == 0
    console = await start_console(installation)
    async with console.person() as person:
        for page, header in (
            ("/merchants/m1", "Acme-Signature"),
            (f"/deliveries/{sent.id}", "Acme-Event-Id"),
        ):
            shown = (await person.get(page)).text
            assert (header in shown, "Service-" in shown) == (True, False), page


async def test_a_command_is_withdrawn_and_a_mass_command_stopped(
    installation: Installation, person: Client
) -> None:
    await installation.configure("m1")
    command = await installation.ask("pause", "m1")
    skip = await installation.ask("skip", "m1", before="2026-01-01T00:00:00Z")
    withdrawn = await person.post(f"/commands/{command}/withdraw")
    assert "The command was withdrawn." in (await person.get(withdrawn.location)).text
    stopped = await person.post(f"/commands/{skip}/stop")
    assert stopped.location.startswith(f"/commands/{skip}?said=")
    assert (await person.get("/commands/999999")).status == 404


async def test_a_viewer_sees_no_payload_and_no_changes(
    installation: Installation, console: RunningConsole
) -> None:
    await installation.start()
    await installation.configure("m1")
    sent = await installation.emit("m1", '{"id": "ch_1", "holder": "SECRET NAME"}')
    await installation.settled(sent.id, "delivered", 1)
    async with console.person(Role.VIEWER) as viewer, console.person() as operator:
        delivery = f"/deliveries/{sent.id}"
        assert "SECRET NAME" in (await operator.get(delivery)).text
        page = await viewer.get(delivery)
        assert "SECRET NAME" not in page.text
        assert "shown to operators alone" in page.text
        for path in ("/", "/deliveries", delivery, "/merchants", "/merchants/m1", "/commands", "/health"):
            page = await viewer.get(path)
            assert page.status == 200
            forms = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]+)"', page.text)
            assert forms == ["/sign-out"], path
        assert (await viewer.get(f"/deliveries/act?act=retry&event={sent.id}")).status == 403
        assert "Signed in" in (await operator.get("/commands?view=changes")).text
        assert "Signed in" not in (await viewer.get("/commands?view=changes")).text


async def test_preferences_and_the_password_are_a_persons_own(console: RunningConsole) -> None:
    async with console.person(Role.VIEWER, "ada") as person, console.stranger() as other:
        await other.sign_in("ada")
        page = await person.post(
            "/account/preferences", {"language": "uz", "zone": "Asia/Tashkent", "theme": "dark"}
        )
        shown = (await person.get(page.location)).text
        assert '<html lang="uz" data-theme="dark">' in shown
        assert "Saqlandi." in shown
        refused = await person.post("/account/preferences", {"zone": "../../etc/passwd"})
        assert refused.status == 422
        new = "another password that is long"
        wrong = await person.post("/account/password", {"old": "no", "new": new})
        assert wrong.status == 403
        assert (await person.post("/account/password", {"old": "no", "new": "short"})).status == 422
        changed = await person.post("/account/password", {"old": "correct horse battery staple", "new": new})
        assert changed.location == "/account?said=password"
        assert (await other.get("/")).status == 303, "other sessions have ended"
        assert (await other.sign_in("ada", new)).status == 303
        ended = await person.post("/account/sessions")
        assert ended.location == "/account?ended=1"


async def test_every_page_says_that_no_dispatcher_is_alive_and_as_of_when_it_is(
    installation: Installation, person: Client
) -> None:
    await installation.configure("m1")
    sent = await installation.emit("m1")
    await person.post("/account/preferences", {"zone": "Asia/Tashkent"})
    paths = ["/", "/deliveries", f"/deliveries/{sent.id}", "/merchants", "/merchants/m1", "/commands"]
    paths += ["/health", "/account", "/search?q=no", "/deliveries?status=abc", "/deliveries/act?act=none"]
    answered = re.compile(r'id="answered">[^<]+<time datetime="[^"]+" title="[^"]+ UTC">[^<]+</time> Asia/T')
    for language, said in (("en", "nothing is delivered"), ("ru", "ничего не"), ("uz", "hech narsa")):
        for path in paths:
            page = (await person.get(path, **{"Accept-Language": language})).text
            [notices] = re.findall(r'(?s)id="notices">(.*?)</div></div>', page)
            assert said in notices, (language, path)
            assert answered.search(page), path
    await installation.start()

    async def alive() -> bool:
        return "nothing is delivered" not in (await person.get("/")).text

    await until_found(alive)
    for path in paths:
        assert 'id="notices"></div>' in (await person.get(path)).text, path


@pytest.mark.scaled_time
async def test_the_overview_counts_and_leads_to_the_lists(installation: Installation, person: Client) -> None:
    await installation.start(**IN_SCALED_TIME)
    await installation.configure("m1")
    await installation.emit("m1")
    await installation.emit("nobody")
    await installation.all_delivered(1)

    async def noted() -> Page | None:
        page = await person.get("/")
        return page if "Delivered 1" in page.text else None

    page = await until_found(noted)
    figures = re.findall(r'<a class="whole" href="([^"]+)"><div class="name">([^<]+)<', page.text)
    path_of = {name: path for path, name in figures}
    assert len(path_of) == 8
    for path in path_of.values():
        assert (await person.get(path)).status == 200, path
    in_an_hour = await person.get(path_of["Delivered, last hour"])
    assert re.search(r"[?&]since=\d[^&]+%2B00%3A00&time=ended", path_of["Delivered, last hour"])
    assert "/merchants/m1" in in_an_hour.text
    waiting = await person.get(path_of["Waiting"])
    assert ("/merchants/nobody" in waiting.text, "/merchants/m1" in waiting.text) == (True, False)
    assert path_of["Failed attempts, last hour"] == "#attempts_hour"
    [by_outcome] = re.findall(r'<dt>Delivered</dt><dd><a href="([^"]+)">1</a>', page.text)[:1]
    assert "/merchants/m1" in (await person.get(by_outcome)).text
    await installation.do("pause", "m1")
    [paused] = re.findall(r'<a href="([^"]+)">paused: 1</a>', (await person.get("/")).text)
    assert "/merchants/m1" in (await person.get(paused)).text
    await installation.do("pause")
    assert "Everything is paused by a test" in (await person.get("/")).text
    health = (await person.get("/health")).text
    assert "everything is paused (since " in health
    assert "webhook-dispatcher resume --all" in health


async def test_a_paused_or_suspended_merchant_can_be_resumed(
    installation: Installation, person: Client
) -> None:
    async def offered(is_paused: bool, is_suspended: bool) -> list[str]:
        await installation.owner.execute(
            "UPDATE webhook.lane SET paused = $1, suspended_at = CASE WHEN $2 THEN clock_timestamp() END",
            is_paused,
            is_suspended,
        )
        return await shown()

    async def shown() -> list[str]:
        page = (await person.get("/merchants/m1")).text
        return re.findall(r'action="/merchants/m1/(pause|resume)"', page)

    await installation.configure("m1")
    assert await offered(False, False) == ["pause"]
    assert await offered(True, False) == ["resume"]
    assert await offered(False, True) == ["resume", "pause"]
    assert await offered(True, True) == ["resume"]
    await installation.start()
    await followed(person, await person.post("/merchants/m1/resume"), ">Done<")
    assert await shown() == ["pause"]


async def test_health_says_what_check_says_in_the_readers_words(
    installation: Installation, console: RunningConsole
) -> None:
    await installation.configure("m1", url="https://shop.internal/hook")
    await installation.owner.execute(
        "UPDATE webhook.lane SET suspended_at = clock_timestamp(), wait_until = clock_timestamp()"
    )
    async with console.person(Role.VIEWER) as person:
        page = (await person.get("/health", **{"Accept-Language": "ru"})).text
        assert '<a href="/merchants/m1">m1</a>: имена в .internal не публичны' in page
        assert re.search(r'<a href="/merchants/m1">m1</a> с \d{4}-', page), "suspended"
        assert "ни один диспетчер не работает" in page
        assert "Остальное скажет webhook-dispatcher check там, где лежат ключи" in page
        await installation.start()

        async def works() -> bool:
            return ", version " in (await person.get("/health")).text

        await until_found(works)
        page = (await person.get("/health")).text
        assert "names under .internal are not public" in page
        assert "nothing is delivered" not in page


async def test_health_says_what_dispatchers_run_with_and_where_they_differ(
    installation: Installation, person: Client
) -> None:
    assert "No dispatcher that is alive says" in (await person.get("/health")).text
    await installation.start(RETRY_SCHEDULE="PT1H", LEASE="PT20S")
    await installation.start(RETRY_SCHEDULE="PT2H", LEASE="PT20S")

    async def both() -> str | None:
        said = (await person.get("/health")).text.partition('id="chosen"')[2].partition('id="settings"')[0]
        return said if said.count("PT1H") + said.count("PT2H") == 2 else None

    said = await until_found(both)
    differing = dict(re.findall(r'id">WEBHOOK_(\w+)</span></td><td class="wrap">(.*?)</td>', said))
    assert "they differ" in differing["RETRY_SCHEDULE"]
    assert differing["LEASE"] == '<span class="mono">PT20S</span>'
    assert not {"DATABASE_URL", "SECRET_KEYS"} & set(differing)


async def test_commands_and_changes_are_filtered_in_the_url(
    installation: Installation, person: Client
) -> None:
    await installation.configure("m1", "m/2")
    pause = await installation.ask("pause", "m1")
    skip = await installation.ask("skip", "m/2", before="2026-01-01T00:00:00Z")
    for query, found in (
        ("", {pause, skip}),
        ("command=pause", {pause}),
        ("status=pending", {pause, skip}),
        ("status=done", set()),
        ("merchant=m%2F2&by=a+test", {skip}),
        ("by=somebody+else", set()),
    ):
        page = await person.get(f"/commands?{query}")
        assert set(map(int, re.findall(r'href="/commands/(\d+)"', page.text))) == found, query
    assert (await person.get("/commands?status=nonsense")).status == 422
    of_merchant = (await person.get(merchant_path("m/2"))).text
    [path] = re.findall(r'href="(/commands\?merchant=[^"]+)"', of_merchant)
    page = await person.get(path)
    assert f"/commands/{skip}" in page.text
    [changes] = re.findall(r'href="(/commands\?view=changes&merchant=[^"]+)"', page.text)
    page = await person.get(changes)
    assert (merchant_path("m/2") in page.text, "/merchants/m1" in page.text) == (True, False)
    assert ("Endpoint set" in page.text, "URL: http" in page.text) == (True, True)
    assert "Arguments: Created before 2026-01-01 00:00:00" in page.text


async def test_a_command_is_said_in_words_and_the_rest_is_folded(
    installation: Installation, person: Client
) -> None:
    await installation.start()
    await installation.configure("m1")
    args: dict[str, Any] = {"since": "2026-01-01T00:00:00Z", "states": ["failed", "skipped"], "colour": "red"}
    command = await installation.ask("recover", "m1", **args)
    refused = await installation.ask("retry_failed", None)
    await installation.handled(command)
    await installation.handled(refused)
    page = (await person.get(f"/commands/{command}")).text
    assert "<dt>From</dt><dd>2026-01-01 00:00:00</dd>" in page
    assert "<dt>States</dt><dd>Failed, Skipped</dd>" in page
    assert '<pre class="code wrapped" tabindex="0">{"colour": "red"}</pre>' in page
    page = (await person.get(f"/commands/{refused}", **{"Accept-Language": "uz"})).text
    assert "retry_failed buyrug‘iga merchant_id yoki args.since kerak" in page
    assert (await person.get("/commands", **{"Accept-Language": "ru"})).text.count("нужен merchant_id") == 1


async def test_a_person_ends_one_of_their_sessions(console: RunningConsole) -> None:
    async with console.person(Role.VIEWER, "ada") as person, console.stranger() as other:
        await other.sign_in("ada")
        page = await person.get("/account")
        [mark] = re.findall(r'name="session" value="([0-9a-f]{64})"', page.text)
        assert page.text.count("This one") == 1
        ended = await person.post("/account/session", {"session": mark})
        assert "The session was ended." in (await person.get(ended.location)).text
        assert (await other.get("/")).status == 303
        assert (await person.get("/")).status == 200
        for marked in (mark, "nonsense", ""):
            again = await person.post("/account/session", {"session": marked})
            assert "That session was over already." in (await person.get(again.location)).text
