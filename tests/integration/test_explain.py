"""What `explain` says of each case that an operator meets, of facts that the real statements made.

Instants and spans differ from run to run: they are read as AT and SPAN.
"""

import asyncio
import json
import re
import shlex
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.integration.storage_harness import (
    LEASE,
    Daemon,
    StorageHarness,
    answered,
    exhausted,
    find_delivery,
    unsent,
)
from tests.unit.builders import KEYRING
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.event import Event, FailedReason
from webhook_dispatcher.domain.ports import Heartbeat
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.storage.delivery import MAX_ATTEMPTS
from webhook_dispatcher.storage.heartbeats import PostgresHeartbeats
from webhook_dispatcher.storage.insight import MAX_EVENTS, insight
from webhook_dispatcher.storage.statements import COMMAND_LINE, load

Explain = Callable[..., Awaitable[tuple[int, str, str]]]
CHARGE = '{"id": "ch_1"}'
ENDPOINT = (
    "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) "
    "VALUES ($1, 'https://m.example/', $2, $3)"
)


@pytest.fixture
async def here(storage: StorageHarness) -> Daemon:
    return await storage.daemon("host-7/4711/a1b2")


@pytest.fixture
async def explain(storage: StorageHarness, capsys: pytest.CaptureFixture[str]) -> Explain:
    settings = storage.database.settings("webhook_admin")
    environ = {f"WEBHOOK_{name}": text for name, text in settings.items()}

    async def explain(*arguments: str, command: str = "explain") -> tuple[int, str, str]:
        """Run it as webhook_admin; return its exit code, what it printed, and what it complained of."""
        code = await asyncio.to_thread(main, [command, *arguments], CliContext(environ))
        out, err = capsys.readouterr()
        return code, out, err

    return explain


def flat(text: str) -> str:
    """Join the lines, and replace what differs from run to run."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "AT", text)
    return re.sub(r"(\d+(\.\d)? (s|min|h|d) ?)+\b", "SPAN ", text).replace("SPAN  ", "SPAN ")


async def told(explain: Explain, subject: object, *options: str) -> str:
    code, out, err = await explain(str(subject), *options)
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines() if not line.startswith("    ")) <= 80
    return flat(out)


async def configure(storage: StorageHarness, merchant: str = "m") -> None:
    sealed = KEYRING.seal(merchant, Secret("whsec_" + "s" * 40))
    await storage.db.execute(ENDPOINT, merchant, sealed.sealed, sealed.key_id)


async def identity(storage: StorageHarness, seq: int) -> UUID:
    return UUID(str(await storage.db.fetchval("SELECT event_id FROM webhook.deliveries WHERE seq = $1", seq)))


async def asked(
    storage: StorageHarness, command: str, merchant: str | None, event: UUID | None, by: str
) -> int:
    """Let somebody ask for a command, and say that it is done."""
    return int(
        await storage.db.fetchval(
            "INSERT INTO webhook.control (command, merchant_id, event_id, requested_by, status, handled_at) "
            "VALUES ($1, $2, $3, $4, 'done', clock_timestamp()) RETURNING id",
            command,
            merchant,
            event,
            by,
        )
    )


async def end(here: Daemon, event: Event, epoch: int, status: int | None, storage: StorageHarness) -> None:
    await here.records.write([answered(event, epoch, await storage.now(), status)], [], LEASE)


async def test_pending_behind_a_hanging_merchant(
    storage: StorageHarness, here: Daemon, explain: Explain
) -> None:
    await configure(storage)
    _first, second, _third, last = await storage.insert("m", CHARGE, "{}", "{}", "{}")
    lease, events = await here.claim("m")
    record = answered(events[0], lease.epoch, await storage.now(), None)
    assert record.attempt is not None
    slow = record._replace(attempt=record.attempt._replace(duration_ms=10_000))
    await here.records.write([slow], [], LEASE)
    said = await told(explain, await identity(storage, last))
    assert "2 earlier events of m come before it" in said
    assert f"The first of them is seq {second} (event {events[1].id})" in said
    assert "There dispatcher host-7/4711/a1b2 holds the lane since AT" in said
    assert "the first attempt of that one is in flight since about AT" in said
    assert "The latest 1 attempt at the merchant (1 timeout) took SPAN each on average." in said
    assert "Its turn comes in about SPAN , if that goes on." in said
    assert "deliveries list --merchant m --state pending --oldest-first" in said


async def test_what_cannot_be_read_is_named_and_costs_nothing_else(
    storage: StorageHarness, here: Daemon, explain: Explain
) -> None:
    await configure(storage)
    seq, _ = await storage.insert("m", "{}", "{}")
    lease, events = await here.claim("m")
    await end(here, events[0], lease.epoch, 500, storage)
    await storage.db.execute("REVOKE SELECT ON webhook.attempted FROM webhook_admin")
    said = await told(explain, await identity(storage, seq))
    assert "Attempt 1 failed (status 500); attempt 2 is due" in said
    assert "Could not be read: its attempts (permission denied for view attempted)." in said
    assert "Could not be read: the merchant's latest attempts (permission denied for view attempted)." in said


@pytest.mark.parametrize("merchant", ["m", None])
async def test_paused(storage: StorageHarness, here: Daemon, explain: Explain, merchant: str | None) -> None:
    await configure(storage)
    (seq,) = await storage.insert("m")
    lease = await here.lease("m")
    assert lease
    async with here.pool.acquire() as connection:
        await connection.execute("UPDATE webhook.lane SET lease_until = '-infinity'")
    controls = PostgresControls(here.pool)
    async with controls.transaction() as transaction:
        await transaction.pause(merchant, True)
    command = await asked(storage, "pause", merchant, None, "anna@example.com")
    said = await told(explain, await identity(storage, seq))
    what = "m is paused" if merchant else "Everything is paused"
    assert f"{what} since AT (SPAN ago) by anna@example.com (command {command})" in said
    assert "Next: It goes on, in order, when the pause ends." in said
    assert f"webhook-dispatcher resume {merchant or '--all'}" in said
    assert "no dispatcher holds the lane" not in said


async def test_a_pause_that_was_resumed_is_not_told(
    storage: StorageHarness, here: Daemon, explain: Explain
) -> None:
    await configure(storage)
    (seq,) = await storage.insert("m")
    await asked(storage, "pause", "m", None, "anna")
    await asked(storage, "resume", "m", None, "anna")
    await here.lease("m")
    await storage.db.execute("UPDATE webhook.lane SET paused = true")
    said = await told(explain, await identity(storage, seq))
    assert "m is paused (not by a command): nothing is sent to it." in said


async def test_an_endpoint_that_was_removed(storage: StorageHarness, explain: Explain) -> None:
    await configure(storage)
    (seq,) = await storage.insert("m")
    await storage.db.execute("DELETE FROM webhook.endpoint")
    assert "its endpoint was removed at AT, so it fails" in await told(explain, await identity(storage, seq))


@pytest.mark.parametrize(
    ("change", "fault"),
    [("key_id = 'other'", "'other'"), ("secret = sha512(secret)", "which is damaged unless")],
)
async def test_a_secret_that_our_keys_do_not_open(
    storage: StorageHarness, explain: Explain, capsys: pytest.CaptureFixture[str], change: str, fault: str
) -> None:
    await configure(storage)
    await storage.db.execute(f"UPDATE webhook.endpoint SET {change}")
    (seq,) = await storage.insert("m")
    event = await identity(storage, seq)
    unread = "Whether the secret of m opens is not known here: WEBHOOK_SECRET_KEYS: not set"
    assert unread in await told(explain, event), "without keys nobody knows"
    settings = storage.database.settings("webhook_admin")
    keys = {"SECRET_KEYS": "k1:" + "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="}
    environ = {f"WEBHOOK_{name}": text for name, text in (settings | keys).items()}
    assert await asyncio.to_thread(main, ["explain", str(event)], CliContext(environ)) == 0
    said = flat(capsys.readouterr().out)
    assert "The secret of m cannot be opened with the keys of this environment" in said
    assert fault in said


async def test_in_flight(storage: StorageHarness, here: Daemon, explain: Explain) -> None:
    await configure(storage)
    (seq,) = await storage.insert("m")
    await here.lease("m")
    said = await told(explain, await identity(storage, seq))
    assert "It is the first in line, and dispatcher host-7/4711/a1b2 holds the lane since AT" in said
    assert "its first attempt is in flight since about AT" in said


async def test_a_retry_in_flight(storage: StorageHarness, here: Daemon, explain: Explain) -> None:
    await configure(storage)
    (seq,) = await storage.insert_due("m", 0)
    (claimed,) = await here.claims.claim_longest_due(1, 2, 10, LEASE)
    said = await told(explain, claimed.event.id)
    assert "Attempt 2 is in flight, or about to begin: a dispatcher has claimed it until AT." in said
    assert "deliveries retry" not in said
    await storage.db.execute("UPDATE webhook.outbox SET due_at = clock_timestamp() WHERE seq = $1", seq)
    assert "was claimed by a dispatcher that did not report until AT" in await told(explain, claimed.event.id)


async def test_waiting_for_a_retry(storage: StorageHarness, here: Daemon, explain: Explain) -> None:
    await configure(storage)
    await storage.insert("m", CHARGE)
    lease, (event,) = await here.claim("m")
    await end(here, event, lease.epoch, 503, storage)
    await storage.db.execute(
        "UPDATE webhook.attempt_log SET reason = '503 Service Unavailable', "
        "response_excerpt = E'gone\\x1b[2J fishing'"
    )
    said = await told(explain, "ch_1")
    assert "of charge ch_1, merchant m" in said
    assert "Attempt 1 failed (status 503); attempt 2 is due at AT, in SPAN ." in said
    assert (
        "1. AT, took SPAN : status 503 (503 Service Unavailable); it answered "
        '"gone\N{REPLACEMENT CHARACTER}[2J fishing"'
    ) in said
    assert "If attempt 2 fails, attempt 3 follows SPAN after its end; attempt 8 is the last." in said
    assert f"webhook-dispatcher deliveries retry {event.id}" in said


async def test_failed(storage: StorageHarness, here: Daemon, explain: Explain) -> None:
    await configure(storage)
    await storage.insert("m")
    lease, (event,) = await here.claim("m")
    await here.records.write([exhausted(answered(event, lease.epoch, await storage.now(), 401))], [], LEASE)
    said = await told(explain, event.id)
    assert "It failed at AT: its one attempt failed with status 401." in said
    assert "Next: Nothing by itself" in said
    assert "deliveries retry-failed --merchant m --since" in said
    assert "endpoint rotate-secret m" in said


async def test_cancelled(storage: StorageHarness, here: Daemon, explain: Explain) -> None:
    (seq,) = await storage.insert("m")
    event = await identity(storage, seq)
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.cancel([await find_delivery(transaction, event)])
    command = await asked(storage, "cancel", None, event, "bruno\x1b")
    said = await told(explain, event)
    assert (
        f"it was cancelled by bruno\N{REPLACEMENT CHARACTER} (command {command}), after 0 attempts." in said
    )
    assert "asked for cancel at AT" in said


async def test_delivered_twice(storage: StorageHarness, here: Daemon, explain: Explain) -> None:
    await configure(storage)
    await storage.insert("m")
    lease, (event,) = await here.claim("m")
    await end(here, event, lease.epoch, 200, storage)
    late = answered(event, lease.epoch, await storage.now() + timedelta(seconds=1), 204)
    await here.records.write_late(late)
    said = await told(explain, event.id)
    assert "It was delivered at AT by attempt 1" in said
    assert "2 attempts of it succeeded, so the merchant has it 2 times (because a dispatcher ended" in said
    assert "1. AT, took SPAN : delivered, status 200 1. AT, took SPAN : delivered, status 204" in said
    assert f"deliveries retry {event.id} --force" in said


async def test_a_late_commit(storage: StorageHarness, here: Daemon, explain: Explain) -> None:
    await configure(storage)
    straggler = await storage.database.connect()
    open_transaction = straggler.transaction()
    await open_transaction.start()
    seq = await straggler.fetchval(
        "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m', 'charge.created', '{}') "
        "RETURNING seq"
    )
    (later,) = await storage.insert("m")
    lease, (event,) = await here.claim("m")
    assert event.seq == later
    # Its attempt takes 120 ms, and began just now.
    sent = answered(event, lease.epoch, await storage.now() + timedelta(milliseconds=120), 200)
    await here.records.write([sent], [], LEASE)
    await open_transaction.commit()
    await straggler.close()
    late = await identity(storage, seq)
    said = await told(explain, late)
    assert f"It was committed late: seq {later} of the same merchant (event {event.id}) was attempted" in said
    _, events = await here.claim("m", lease=LEASE)
    await end(here, events[0], lease.epoch + 1, 200, storage)
    assert "It was committed late" not in await told(explain, event.id)


@pytest.mark.parametrize(
    "reason",
    [FailedReason.SKIPPED, FailedReason.CANCELLED, FailedReason.NOT_CONFIGURED, FailedReason.UNSENDABLE],
)
@pytest.mark.parametrize("ends_first", [True, False])
async def test_what_ends_without_an_attempt_is_not_called_late(
    storage: StorageHarness, here: Daemon, explain: Explain, reason: FailedReason, ends_first: bool
) -> None:
    await configure(storage)
    await storage.insert("m", "{}", "{}")
    lease, (never_sent, later) = await here.claim("m")
    ended = unsent(never_sent, lease.epoch, await storage.now(), reason)
    sent = answered(later, lease.epoch, await storage.now() + timedelta(milliseconds=120), 200)
    for record in (ended, sent) if ends_first else (sent, ended):
        await here.records.write([record], [], LEASE)
    said = await told(explain, never_sent.id)
    assert "There is no attempt in the log." in said
    assert "committed late" not in said


async def test_what_was_cancelled_and_is_sent_by_hand_is_not_called_late(
    storage: StorageHarness, here: Daemon, explain: Explain
) -> None:
    await configure(storage)
    await storage.insert("m", "{}", "{}")
    lease, (first, later) = await here.claim("m")
    await here.records.write(
        [unsent(first, lease.epoch, await storage.now(), FailedReason.CANCELLED)], [], LEASE
    )
    await end(here, later, lease.epoch, 200, storage)
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.reopen(await find_delivery(transaction, first.id))
    said = await told(explain, first.id)
    assert "It waits for its first attempt." in said
    assert "committed late" not in said


async def test_merchants_tell_the_latest_failure_and_who_paused(
    storage: StorageHarness, here: Daemon, explain: Explain
) -> None:
    for merchant in ("m", "n"):
        await configure(storage, merchant)
        await storage.insert(merchant, "{}", "{}")
    lease, (first, second) = await here.claim("m")
    await end(here, first, lease.epoch, None, storage)
    await end(here, second, lease.epoch, 503, storage)
    other, (sent, _) = await here.claim("n")
    await end(here, sent, other.epoch, 200, storage)
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.pause("m", True)
    await asked(storage, "pause", "m", None, "anna")
    code, out, _ = await explain("--json", command="merchants")
    m, n = json.loads(out)
    assert (code, m["failed_outcome"], m["failed_status"], m["paused_by"]) == (0, "status", 503, "anna")
    assert [n[name] for name in ("failed_at", "failed_outcome", "paused_by", "paused_at")] == [None] * 4
    await asked(storage, "resume", "m", None, "anna")
    _, out, _ = await explain("--json", command="merchants")
    assert json.loads(out)[0]["paused_at"] is None, "not by a command"


WANTED = "none holds a lane, though {} of m waits since"


@pytest.mark.parametrize(
    ("kept_by", "is_told"),
    [
        ("SELECT", True),
        ("UPDATE webhook.lane SET paused = true", False),
        ("UPDATE webhook.lane SET suspended_at = clock_timestamp()", False),
        ("UPDATE webhook.lane SET wait_until = clock_timestamp() + interval '1 minute'", False),
        ("UPDATE webhook.state SET paused = true", False),
        ("DELETE FROM webhook.endpoint", False),
        ("DELETE FROM webhook.lane", True),
        ("UPDATE webhook.outbox SET created_at = clock_timestamp()", False),
        ("UPDATE webhook.lane SET lease_until = clock_timestamp() + interval '1 minute'", False),
    ],
)
async def test_what_waits_without_a_dispatcher_is_told_unless_it_is_kept(
    storage: StorageHarness, here: Daemon, explain: Explain, kept_by: str, is_told: bool
) -> None:
    await configure(storage)
    (seq,) = await storage.insert("m")
    assert await here.lease("m")
    await storage.db.execute(
        "UPDATE webhook.lane SET lease_until = '-infinity';"
        "UPDATE webhook.outbox SET created_at = clock_timestamp() - interval '10 s'"
    )
    await storage.db.execute(kept_by)
    code, said, _ = await explain(command="status")
    assert code == 0
    assert (WANTED.format(await identity(storage, seq)) in said) is is_told


async def test_status_says_what_dispatchers_noted_of_themselves(
    storage: StorageHarness, here: Daemon, explain: Explain
) -> None:
    async def screen() -> str:
        _, out, _ = await explain(command="status")
        return flat(out)

    nobody = "no dispatcher is alive: nothing is delivered, unless one is just starting"
    assert nobody in await screen()
    idle, unready = (
        PostgresHeartbeats(here.pool, name, "host-7", "1.2.3", 21, {}) for name in ("idle", "unready")
    )
    await idle.note(Heartbeat(0, 0, [], [], {}))
    await unready.note(Heartbeat(2, 0, ["no key", "no schema"], ["clock"], {}))
    said = await screen()
    assert "dispatchers unready is not ready: no key; no schema idle, version 1.2.3, has run for" in said
    _, out, _ = await explain("--json", command="status")
    beats = {beat["owner"]: beat for beat in json.loads(out)["heartbeats"]}
    assert (beats["unready"]["faults"], beats["unready"]["lanes"], beats["unready"]["reasons"]) == (
        ["clock"],
        2,
        ["no key", "no schema"],
    )
    await storage.db.execute("UPDATE webhook.dispatcher SET beat_at = beat_at - interval '1 minute'")
    assert nobody in await screen()
    assert "idle was last heard of SPAN ago" in await screen()
    await storage.db.execute("UPDATE webhook.dispatcher SET beat_at = beat_at - interval '28 minutes'")
    assert "idle was last heard of SPAN ago" in await screen(), "nobody else works"
    await unready.note(Heartbeat(2, 0, [], [], {}))
    said = await screen()
    assert "unready, version 1.2.3, has run for" in said
    assert "idle" not in said


async def test_an_unknown_id(storage: StorageHarness, explain: Explain) -> None:
    await storage.insert("m")
    for subject in ("ch_none", str(uuid4())):
        code, out, err = await explain(subject)
        assert (code, out) == (1, "")
        assert f"no event and no charge '{subject}' is known here" in err
        assert "finished deliveries are kept since 20" in err
        assert "was here once" not in err


async def test_dropped_by_retention(storage: StorageHarness, here: Daemon, explain: Explain) -> None:
    (seq,) = await storage.insert("m")
    event = await identity(storage, seq)
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.cancel([await find_delivery(transaction, event)])
    command = await asked(storage, "cancel", None, event, "anna")
    day = await storage.db.fetchval("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', '_YYYYMMDD')")
    await storage.db.execute(f"DROP TABLE webhook.delivery_log{day}")
    code, _, err = await explain(str(event))
    assert code == 1
    assert f"it was here once: command {command} (cancel), given by anna at" in err
    assert "has been dropped by retention" in err


async def test_attempts_whose_day_was_dropped_are_said_to_be_gone(
    storage: StorageHarness, here: Daemon, explain: Explain
) -> None:
    await storage.insert("m")
    lease, (event,) = await here.claim("m")
    await end(here, event, lease.epoch, 500, storage)
    await storage.db.execute("DELETE FROM webhook.attempt_log")
    said = await told(explain, event.id)
    assert "1 attempt of it is no longer in the log." in said
    assert "There is no attempt in the log." in said


async def test_of_more_attempts_than_are_read_the_first_ones_are(storage: StorageHarness) -> None:
    # The last ones lie in front, and no index leads past them.
    await storage.db.execute(
        "INSERT INTO webhook.attempt_log "
        "(event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome) "
        "SELECT $1, 'm', n, 'manual', date_trunc('day', clock_timestamp(), 'UTC') + n * interval '1 ms', 1, "
        "'timeout' FROM generate_series(200, 1, -1) AS n",
        event := uuid4(),
    )
    statement = load("attempts", COMMAND_LINE)["read_attempts"].text
    async with administration(storage.database.dsn("webhook_admin")) as admin:
        await admin.connection.execute("SET enable_indexscan = off")
        found = await admin.connection.fetch(statement, None, event, MAX_ATTEMPTS)
    assert [row["attempt"] for row in found] == list(range(1, MAX_ATTEMPTS + 1))


async def test_a_charge_that_another_merchant_has_many_events_of_is_found_and_its_first_events_are(
    storage: StorageHarness,
) -> None:
    insert = (
        "INSERT INTO webhook.outbox (merchant_id, type, object) "
        """SELECT $1, 'charge.created', '{"id":"ch_1"}' FROM generate_series(1, $2::integer)"""
    )
    await storage.db.execute(insert, "b", MAX_EVENTS)
    await storage.db.execute(insert, "a", 2)
    await storage.db.execute(
        "UPDATE webhook.outbox SET due_at = due_at WHERE seq <= 5"
    )  # moved behind the others
    async with (
        administration(storage.database.dsn("webhook_admin")) as admin,
        insight(admin.connection) as asked,
    ):
        ours = await asked.find_charge("ch_1", "a")
        assert [found.merchant_id for found in ours] == ["a", "a"]
        found = await asked.find_charge("ch_1", None)
        assert [delivery.seq for delivery in found] == list(range(1, MAX_EVENTS + 1))


async def test_of_an_id_that_was_used_again_each_delivery_of_the_charge_is_found_and_no_other(
    storage: StorageHarness,
) -> None:
    await storage.insert("m", CHARGE)
    await storage.db.execute(
        "INSERT INTO webhook.delivery_log (seq, event_id, merchant_id, type, created_at, object, state, "
        "failed_reason, attempts, finished_at) SELECT seq + 1, id, merchant_id, type, created_at, object, "
        "'failed', 'cancelled', 0, clock_timestamp() FROM webhook.outbox"
    )
    await storage.db.execute(
        "INSERT INTO webhook.delivery_log (seq, event_id, merchant_id, type, created_at, object, state, "
        'attempts, finished_at) SELECT seq + 2, id, merchant_id, type, created_at, \'{"id":"ch_2"}\', '
        "'delivered', 1, clock_timestamp() FROM webhook.outbox"
    )
    async with insight(storage.db) as asked:
        found = await asked.find_charge("ch_1", "m")
    assert [(delivery.seq, delivery.state) for delivery in found] == [(1, "pending"), (2, "failed")]


async def test_a_charge_is_told_event_by_event_in_order_and_briefly_where_it_has_many(
    storage: StorageHarness, explain: Explain
) -> None:
    await storage.insert("m", CHARGE, "{}", CHARGE)
    await storage.insert("n", CHARGE)
    _, out, _ = await explain("ch_1")
    numbers = [int(number) for number in re.findall(r"seq (\d+)\n", out)]
    assert numbers == sorted(numbers)
    assert len(numbers) == 3
    assert (await told(explain, "ch_1", "--merchant", "n")).count("Event ") == 1
    await storage.insert("m", *[CHARGE] * 4)
    code, out, _ = await explain("ch_1")
    assert code == 0
    assert len(out.splitlines()) >= 15
    assert out.splitlines()[-1] == "7 events; explain each by its id."


async def test_programs_are_told_as_json_without_secrets(
    storage: StorageHarness, here: Daemon, explain: Explain
) -> None:
    await configure(storage)
    (seq,) = await storage.insert("m")
    code, out, _ = await explain(str(await identity(storage, seq)), "--json")
    document: list[dict[str, Any]] = json.loads(out)
    assert code == 0
    assert document[0]["delivery"]["seq"] == seq
    assert document[0]["explanation"]["why"]
    assert "secret" not in document[0]["delivery"]


async def test_an_unknown_merchant_is_refused_in_words(storage: StorageHarness, explain: Explain) -> None:
    code, _, err = await explain("ch_1", "--merchant", "nobody")
    assert (code, "merchant 'nobody' is not known here" in err) == (1, True)
    code, _, err = await explain("list", "--merchant", "nobody", command="deliveries")
    assert (code, "merchant 'nobody' is not known here" in err) == (1, True)


async def test_what_is_to_be_typed_is_quoted(storage: StorageHarness, explain: Explain) -> None:
    (seq,) = await storage.insert("m'; rm -rf /")
    code, out, _ = await explain(str(await identity(storage, seq)))
    command = next(line for line in out.splitlines() if "endpoint set" in line)
    assert code == 0
    assert shlex.split(command)[3] == "m'; rm -rf /"
