"""What the command line reads, and changes, of a merchant with several endpoints, by the real statements.

No lane's name is ever shown: documents for programs would hold one as it is.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from tests.integration.storage_harness import LEASE, StorageHarness
from tests.waiting import until_found
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.session import CliContext

Run = Callable[..., Awaitable[str]]
ROUTE = """
WITH moved AS (DELETE FROM webhook.outbox WHERE seq = $1 RETURNING outbox.*),
logged AS (
    INSERT INTO webhook.delivery_log (
        seq, event_id, merchant_id, type, created_at, object, attempts, finished_at, xid
    )
    SELECT seq, id, merchant_id, type, created_at, object, 0, clock_timestamp(), xid FROM moved
)
INSERT INTO webhook.outbox (id, merchant_id, type, created_at, object, copy_of, xid)
SELECT
    CASE place WHEN 1 THEN id ELSE webhook.delivery_id(id, number) END,
    webhook.lane_named(merchant_id, number), type, created_at, object, id, NULL
FROM moved
CROSS JOIN unnest($2::smallint[]) WITH ORDINALITY AS wanted (number, place)
RETURNING copy_of
"""
FAILED = """
WITH lane AS (
    UPDATE webhook.lane SET failing_since = clock_timestamp() - interval '5 minutes', failures_in_a_row = 9
    WHERE merchant_id = webhook.lane_named('m', 2::smallint)
    RETURNING merchant_id
)
INSERT INTO webhook.attempt_log (
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome
)
SELECT gen_random_uuid(), lane.merchant_id, 1, 'schedule', clock_timestamp(), 5, 500, 'status'
FROM lane
CROSS JOIN generate_series(1, 9)
"""
ADD = "SELECT result FROM webhook.add_endpoint('m', 'https://example.com/2', '\\x00', 'k1', NULL, NULL, NULL)"
FIRST = "SELECT types, secret FROM webhook.endpoint WHERE merchant_id = webhook.lane_of('m', 1::smallint)"
KEY = base64.b64encode(b"k" * 32).decode()
READS = (
    ("endpoint", "list"),
    ("endpoint", "list", "m"),
    ("endpoint", "show", "m", "--endpoint", "2"),
    ("endpoint", "history", "m"),
    ("deliveries", "list"),
    ("deliveries", "list", "--merchant", "m"),
    ("merchants",),
    ("merchants", "--failing"),
    ("merchants", "--behind"),
    ("status",),
    ("check",),
)


@pytest.fixture
async def run(storage: StorageHarness, capsys: pytest.CaptureFixture[str]) -> Run:
    settings = {**storage.database.settings("webhook_admin"), "SECRET_KEYS": f"k1:{KEY}"}
    environ = {f"WEBHOOK_{name}": text for name, text in settings.items()}

    async def run(*arguments: str, code: int | None = 0, told: bool = False) -> str:
        """Run a command as webhook_admin; return what it printed, or complained of. told: both."""
        ended = await asyncio.to_thread(main, [*arguments], CliContext(environ))
        out, err = capsys.readouterr()
        assert code in (None, ended), err
        return out if ended == 0 and not told else out + err

    return run


@pytest.fixture
async def several(storage: StorageHarness, run: Run) -> None:
    """Merchant m has three endpoints, and x has one."""
    await run("endpoint", "set", "m", "https://merchant.example.com/1")
    await run("endpoint", "set", "x", "https://merchant.example.com/x")
    await run(
        "endpoint",
        "add",
        "m",
        "https://merchant.example.com/2",
        "--types",
        "charge.failed",
        "--name",
        "refunds",
    )
    await run("endpoint", "add", "m", "https://merchant.example.com/3", "--order", "charge")


async def routed(storage: StorageHarness, *numbers: int) -> UUID:
    """Write an event of m, and route it by hand; return its id."""
    [seq] = await storage.insert("m", '{"id": "ch_1"}')
    return UUID(str(await storage.db.fetchval(ROUTE, seq, list(numbers))))


@pytest.mark.usefixtures("several")
async def test_an_event_is_told_with_its_delivery_to_each_endpoint(storage: StorageHarness, run: Run) -> None:
    event = await routed(storage, 1, 3)
    await storage.insert("x", "{}")
    told = " ".join((await run("explain", str(event))).split())
    assert "to 2 endpoints: 1 and 3. 1 endpoint did not want it: 2." in told
    assert told.count("merchant m, endpoint 1,") == told.count("merchant m, endpoint 3,") == 1
    shown = json.loads(await run("deliveries", "show", str(event), "--json"))
    both = [shown, *shown["others"]]
    assert [each["delivery"]["endpoint"] for each in both] == [1, 3]
    assert {each["delivery"]["copy_of"] for each in both} == {str(event)}
    other = both[1]["delivery"]["event_id"]
    assert "endpoint 1" not in await run("explain", other), "of one delivery's id nothing but that"
    for options in (["--merchant", "m"], ["--event", str(event)], ["--charge", "ch_1"]):
        listed = json.loads(await run("deliveries", "list", *options, "--json"))
        assert [each["endpoint"] for each in listed] == [3, 1], "the newest first"
    [waiting] = await storage.insert("m")
    await storage.finish(both[1]["delivery"]["seq"])
    first, third = (each["delivery"]["seq"] for each in both)
    for number, found in enumerate(([waiting, first], [], [third]), start=1):
        of_one = "--merchant", "m", "--endpoint", str(number)
        listed = json.loads(await run("deliveries", "list", *of_one, "--json"))
        assert [each["seq"] for each in listed] == found, "what is not routed yet is number 1's"
    await storage.db.execute("DELETE FROM webhook.outbox WHERE seq = $1", waiting)
    assert len(json.loads(await run("deliveries", "list", "--json"))) == 3


@pytest.mark.usefixtures("several")
async def test_an_event_that_went_to_one_endpoint_is_told_once(storage: StorageHarness, run: Run) -> None:
    event = str(await routed(storage, 2))
    told = " ".join((await run("explain", event)).split())
    assert told.count(f"Event {event}") == 1
    assert "to 1 endpoint: 2. 2 endpoints did not want it: 1 and 3. It waits" in told
    [explained] = json.loads(await run("explain", event, "--json"))
    assert explained["delivery"]["endpoint"] == 2


@pytest.mark.usefixtures("several")
async def test_what_is_not_routed_yet_is_said_to_wait_for_that(storage: StorageHarness, run: Run) -> None:
    [seq] = await storage.insert("m", "{}")
    told = await run("explain", str(await storage.id_of(seq)))
    assert "It waits to be routed to its merchant's endpoints." in " ".join(told.split())
    assert "no endpoint" not in told


@pytest.mark.usefixtures("several")
async def test_a_merchant_fares_as_the_worst_of_its_endpoints_which_is_named(
    storage: StorageHarness, run: Run
) -> None:
    await routed(storage, 1, 2)
    await storage.db.execute(FAILED)
    await storage.db.execute("UPDATE webhook.outbox SET created_at = created_at - interval '1 hour'")
    [fares] = json.loads(await run("merchants", "--failing", "--json"))
    assert (fares["merchant_id"], fares["endpoint"], fares["failures_in_a_row"]) == ("m", 2, 9)
    assert (fares["attempts_failed"], fares["failed_outcome"]) == (9, "status")
    assert fares["waiting"] == 2, "that is of all"
    assert [each["endpoint"] for each in fares["endpoints"]] == [1, 2, 3]
    facts = json.loads(await run("status", "--json"))
    assert facts["failing"]["merchants"] == facts["behind"]["merchants"] == 1
    assert "m, endpoint 2" in await run("status")
    assert "m, endpoint 2" in await run("merchants")
    await storage.db.execute("DELETE FROM webhook.endpoint WHERE url LIKE '%/2'")
    assert json.loads(await run("merchants", "--failing", "--json")) == [], "nobody is there to fail"


@pytest.mark.usefixtures("several")
async def test_each_endpoint_is_changed_by_its_number(storage: StorageHarness, run: Run) -> None:
    await run("endpoint", "set", "m", "https://merchant.example.com/new", "--endpoint", "2", "--types", "all")
    await run("endpoint", "rotate-secret", "m", "--endpoint", "3", "--yes")
    assert "no endpoint 9" in await run(
        "endpoint", "set", "m", "https://merchant.example.com/", "--endpoint", "9", code=1
    )
    found = {each["number"]: each for each in json.loads(await run("endpoint", "list", "m", "--json"))}
    assert [found[number]["url"][-4:] for number in (1, 2, 3)] == ["om/1", "/new", "om/3"]
    assert (found[2]["name"], found[2]["types"], found[3]["order"]) == ("refunds", None, "charge")
    rotated = [found[number]["secret_created_at"] != found[number]["created_at"] for number in (1, 2, 3)]
    assert rotated == [False, False, True]
    told = await run("endpoint", "history", "m")
    assert "url changed of endpoint 2" in told
    assert "secret rotated of endpoint 3" in told


@pytest.mark.usefixtures("several")
async def test_check_says_who_has_several_and_what_goes_on_when_they_are_removed(
    storage: StorageHarness, run: Run
) -> None:
    async def several_of() -> list[str]:
        found = json.loads(await run("check", "--json", code=None))
        return [each["note"] for each in found if each["check"] == "endpoints" and each["note"]]

    assert await several_of() == ["ok; several of m; programs for schema 25 are refused"]
    await routed(storage, 1, 3)
    for number in ("2", "3"):
        await run("endpoint", "remove", "m", "--endpoint", number, "--yes")
    alone, owing = await several_of()
    assert alone == "m becomes direct once endpoint 1 owes no first attempt"
    assert owing == "endpoints of m that are removed still owe"


async def test_a_second_endpoint_is_added_when_nothing_is_being_sent(
    storage: StorageHarness, run: Run
) -> None:
    await run("endpoint", "set", "m", "https://merchant.example.com/1")
    await storage.insert("m", "{}")
    here = await storage.daemon("here")
    await here.lease("m", lease=LEASE)
    adding = asyncio.ensure_future(run("endpoint", "add", "m", "https://merchant.example.com/2", "--json"))

    async def is_recalled() -> bool | None:
        return (await storage.lane("m"))["recalled"] or None

    await until_found(is_recalled)
    assert not adding.done()
    await storage.db.execute("UPDATE webhook.lane SET lease_until = '-infinity'")
    assert json.loads(await adding)["number"] == 2


@pytest.mark.usefixtures("several")
async def test_no_document_holds_the_name_of_a_lane(storage: StorageHarness, run: Run) -> None:
    event = await routed(storage, 1, 2, 3)
    await storage.insert("m", "{}")
    await storage.db.execute(FAILED)
    await storage.db.execute(
        "UPDATE webhook.lane SET suspended_at = clock_timestamp() WHERE merchant_id LIKE E'm\\x1f3'"
    )
    await storage.db.execute("UPDATE webhook.outbox SET created_at = created_at - interval '1 hour'")
    commands: list[Any] = [*READS, ("explain", str(event)), ("deliveries", "show", str(event))]
    for command in commands:
        told = await run(*command, "--json", code=None)
        assert "\\u001f" not in told, command
        assert len(told) > 100, command


@pytest.mark.parametrize(
    "given",
    [("endpoint", "set", "m", "--types", "charge.failed"), ("endpoint", "rotate-secret", "m", "--yes")],
)
async def test_what_is_changed_while_a_second_endpoint_is_added_is_changed(
    storage: StorageHarness, run: Run, given: tuple[str, ...]
) -> None:
    await run("endpoint", "set", "m", "https://merchant.example.com/1")
    before = await storage.db.fetchrow(FIRST)
    adding = await storage.session(user="postgres")
    async with adding.transaction():
        assert await adding.fetchval(ADD) == "created"
        changing = asyncio.ensure_future(run(*given))
        await storage.until_waiting("webhook-dispatcher cli", changing)
    await changing
    assert await storage.db.fetchrow(FIRST) != before


async def test_who_makes_an_endpoint_where_all_others_are_paused_is_told_that_it_is_too(
    storage: StorageHarness, run: Run, several: None
) -> None:
    await storage.db.execute("UPDATE webhook.lane SET paused = merchant_id LIKE E'm\\x1f%'")
    told = await run("endpoint", "add", "m", "https://merchant.example.com/4", told=True)
    assert "it is paused: `resume m --endpoint 4` lets it be sent to" in told
    await run("endpoint", "remove", "m", "--endpoint", "1", "--yes")
    told = await run("endpoint", "set", "m", "https://merchant.example.com/1", told=True)
    assert "it is paused: `resume m --endpoint 1` lets it be sent to" in told
    assert "paused" not in await run("endpoint", "set", "y", "https://merchant.example.com/y", told=True)
