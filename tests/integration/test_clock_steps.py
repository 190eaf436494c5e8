"""The database's clock was an hour ahead, and is set right: what becomes of each instant that is kept."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import asyncpg
import pytest

from tests.servers.database import Database, own_migrated
from tests.servers.own_clock import HOUR, OwnClock, with_own_clock
from tests.servers.scaled_time import LIBRARY
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.dispatch.health.own_faults import OwnFaults
from webhook_dispatcher.dispatch.sweep import ClockCorrection
from webhook_dispatcher.domain.clock import DatabaseClock
from webhook_dispatcher.domain.ports import LongestWaits
from webhook_dispatcher.domain.schedule import DEFAULT_DELAYS
from webhook_dispatcher.storage.statements import load
from webhook_dispatcher.storage.upkeep import PostgresUpkeep
from webhook_dispatcher.telemetry.metrics import Metrics

pytestmark = pytest.mark.needs(LIBRARY is not None, "libfaketime is missing: apt-get install libfaketime")
PATIENCE = timedelta(seconds=20)
SECONDS = timedelta(seconds=30)
WAITS = LongestWaits(SECONDS, SECONDS, DEFAULT_DELAYS, timedelta(hours=1), SECONDS)

CORRECTED = {
    "lane": "lease_until wait_until last_success_at last_failure_at failing_since suspended_at "
    "reported_failing_since endpoint_removed_at",
    "outbox": "due_at scheduled_at",
    "control": "running_until",
    "unreported_failure": "finished_at",
    "dispatcher": "beat_at",
}
MENDED = {"lane": "retry_at"}
"""Lowered to the first due row by mend_retries, which goes round at all times."""
UNHEEDED = {
    "sign_in_failure": "failed_at expires_at",
    "api_usage": "expires_at",
    "card_attempts": "expires_at",
    "milestone": "at",
}
"""What lies ahead by more than its rule allows counts for nothing."""
LONGER = {
    "api_token": "expires_at",
    "api_request": "asked_until expires_at",
    "api_kept_bytes": "expires_at",
    "console_session": "began_at acted_at expires_at",
    "sign_in_code": "expires_at",
    "endpoint": "previous_until",
    "sealing_key": "confirmed_at",
    "outbox": "created_at",
    "api_key": "last_used_at",
    "seq_by_minute": "minute",
}
"""Holds for an hour more: docs/operate/troubleshooting.md says what that means."""
TOLD = {
    "account": "created_at last_sign_in_at",
    "api_key": "created_at revoked_at",
    "attempt_log": "started_at",
    "attempts_by_minute": "minute",
    "audit": "at",
    "command_chunk": "at",
    "control": "created_at handled_at",
    "delivery_log": "created_at finished_at",
    "dispatcher": "started_at",
    "endpoint": "created_at updated_at secret_created_at",
    "event_type": "created_at retired_at",
    "key_check": "created_at",
    "lane": "leased_at routed_at",
    "lost_event": "sent_at noted_at",
    "sealing_key": "created_at",
    "sign_in_code": "used_at",
    "console_session": "revoked_at",
}
"""Says when something was, and nothing waits for it."""

LANE = "INSERT INTO webhook.lane (merchant_id, {0}) SELECT 'm', {1} FROM clock_timestamp() AS now"
RETRY = (
    "INSERT INTO webhook.lane (merchant_id) VALUES ('m'); "
    "INSERT INTO webhook.outbox (merchant_id, type, object, attempts, due_at, claim) "
    "SELECT 'm', 'charge.created', '{{}}', {0}, now + interval '{1}', {2} FROM clock_timestamp() AS now"
)
NOT_AFTER = "SELECT bool_and({0} <= clock_timestamp() + interval '{1}') FROM webhook.{2}"
LIMIT = "(ARRAY['one'], ARRAY[1], ARRAY[interval '1 minute'], ARRAY[{0}])"
KEPT = {
    "a lease": (
        LANE.format("lease_until", "now + interval '30 s'"),
        NOT_AFTER.format("lease_until", "30 s", "lane"),
    ),
    "a rest": (
        LANE.format("wait_until", "now + interval '5 s'"),
        NOT_AFTER.format("wait_until", "30 s", "lane"),
    ),
    "a suspension": (
        LANE.format("suspended_at, failing_since, wait_until", "now, now, now + interval '1 h'"),
        NOT_AFTER.format("wait_until - interval '1 h'", "0", "lane")
        + " WHERE greatest(suspended_at, failing_since) <= clock_timestamp()",
    ),
    "a success": (
        LANE.format("last_success_at, last_failure_at", "now, now"),
        NOT_AFTER.format("greatest(last_success_at, last_failure_at)", "0", "lane"),
    ),
    "a removal": (
        LANE.format("endpoint_removed_at, reported_failing_since", "now, now"),
        NOT_AFTER.format("greatest(endpoint_removed_at, reported_failing_since)", "0", "lane"),
    ),
    "a first retry": (RETRY.format(1, "1 min", "NULL"), NOT_AFTER.format("due_at", "1 min", "outbox")),
    "a last retry": (RETRY.format(7, "12 h", "NULL"), NOT_AFTER.format("due_at", "12 h", "outbox")),
    "a retry by hand": (RETRY.format(8, "0", "NULL"), NOT_AFTER.format("due_at", "0", "outbox")),
    "a schedule beside which one is asked for": (
        RETRY.format(8, "0", "NULL") + "; UPDATE webhook.outbox SET trigger = 'manual', "
        "attempts_by_hand = 7, scheduled_at = due_at + interval '1 min'",
        NOT_AFTER.format("scheduled_at", "1 min", "outbox"),
    ),
    "a claim": (RETRY.format(1, "30 s", 7), NOT_AFTER.format("due_at", "30 s", "outbox")),
    "a running command": (
        "INSERT INTO webhook.control (command, args, requested_by) "
        "VALUES ('skip', '{\"all\": true}', 'a test'); UPDATE webhook.control "
        "SET status = 'running', running_until = clock_timestamp() + interval '30 s'",
        NOT_AFTER.format("running_until", "30 s", "control"),
    ),
    "a failure that is not told": (
        "INSERT INTO webhook.unreported_failure VALUES "
        "(clock_timestamp(), 1, gen_random_uuid(), 'm', 'exhausted')",
        NOT_AFTER.format("finished_at", "0", "unreported_failure"),
    ),
    "a dead dispatcher's note": (
        load("heartbeat")["note_dispatcher"]
        .text.replace("$10", "NULL")
        .replace("$11", "21")
        .replace("$1", "'o'")
        .replace("$2", "'h'")
        .replace("$3", "'1'")
        .replace("$4", "0")
        .replace("$5", "0")
        .replace("$6", "'{}'")
        .replace("$7", "'{}'")
        .replace("$8", "'{}'")
        .replace("$9", "'{}'"),
        NOT_AFTER.format("beat_at", "0", "dispatcher"),
    ),
    "a locked name": (
        "SELECT webhook.lock_failures(ARRAY['name one']); "
        + "SELECT webhook.count_failure(ARRAY['name one']);" * 10,
        "SELECT webhook.lock_failures(ARRAY['name one']) IS NULL",
    ),
    "a limit": (
        f"SELECT webhook.take_limits{LIMIT.format(False)}",
        f"SELECT retry_after IS NULL FROM webhook.take_limits{LIMIT.format(False)}",
    ),
    "a limit of attempts at cards": (
        f"SELECT webhook.take_limits{LIMIT.format(True)}",
        f"SELECT retry_after IS NULL FROM webhook.take_limits{LIMIT.format(True)}",
    ),
    "a milestone": (
        load("upkeep")["note_milestone"].text,
        "SELECT count(*) > 0 FROM webhook.milestone WHERE at BETWEEN "
        "clock_timestamp() - interval '1 min' AND clock_timestamp()",
    ),
}


@pytest.fixture(scope="module")
def clock() -> Iterator[OwnClock]:
    with with_own_clock() as clock:
        yield clock


@pytest.fixture(scope="module")
def own_database(clock: OwnClock) -> Iterator[Database]:
    with own_migrated({}) as database:
        yield database


@pytest.fixture
async def connection(own_database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Connect as the superuser, where nothing is left of the migration or of another test."""
    connection = await own_database.connect()
    await connection.execute(f"TRUNCATE {', '.join(f'webhook.{table}' for table in CORRECTED | UNHEEDED)}")
    yield connection
    await connection.close()


def _columns(*kinds: dict[str, str]) -> list[str]:
    return sorted(
        f"{table}.{name}" for kind in kinds for table, names in kind.items() for name in names.split()
    )


async def test_of_each_instant_that_is_kept_it_is_known_what_a_step_does(
    connection: asyncpg.Connection,
) -> None:
    kept = await connection.fetch(
        "SELECT relname || '.' || attname AS name FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
        "WHERE relnamespace = 'webhook'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition "
        "AND atttypid IN ('timestamptz'::regtype, 'timestamptz[]'::regtype) AND attnum > 0"
    )
    assert _columns(CORRECTED, MENDED, UNHEEDED, LONGER, TOLD) == sorted(row["name"] for row in kept)


@pytest.mark.parametrize("what", KEPT)
async def test_nothing_waits_for_the_hour_that_the_clock_was_ahead(
    own_database: Database, clock: OwnClock, connection: asyncpg.Connection, what: str
) -> None:
    written, is_right = KEPT[what]
    machine = SystemClock()
    database_clock = DatabaseClock(machine)

    async def set_clock(seconds: int) -> None:
        clock.set(seconds)
        while abs(database_clock.ahead_by() - seconds) > 10 or not database_clock.is_known:
            asked = machine.elapsed()
            # Of a slow answer the time is not believed.
            database_clock.synchronise(await connection.fetchval("SELECT clock_timestamp()"), asked)

    async with own_database.pool("upkeep", 1, PATIENCE) as pool:
        upkeep, faults = PostgresUpkeep(pool), OwnFaults(machine, database_clock, Metrics("test"))
        correction = ClockCorrection(upkeep, database_clock, faults, WAITS)
        await set_clock(0)
        await set_clock(HOUR)
        await connection.execute(written)
        assert not await correction.step()  # the clocks are apart: this one may be wrong
        await set_clock(0)
        for _ in range(2):
            assert not await correction.step()
        await upkeep.note_milestone()
    assert await connection.fetchval(is_right)
