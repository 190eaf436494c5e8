"""What is done to the database itself: ended, restarted, filled up, locked, and changed under the daemons."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

from lab.chaos.clock import HOUR
from lab.chaos.evidence import Repeats
from lab.chaos.faults.hold import hold_over_all
from lab.chaos.hit import Hit
from lab.chaos.kinds import NotHitError, Track, fault
from lab.chaos.server import PASSING
from lab.chaos.testbed import Testbed
from tests.acceptance.processes import environment

PATIENCE = 20.0
LONGEST_LOCK_WAIT = 0.3
"""Seconds for which a change of a table may hold everybody up."""
SETTLED = 3.0
"""Seconds beyond a lease after which nothing is held that was leased before."""
LONGEST_MIGRATION = 5.0
"""Seconds after which a migration that has nothing to do is killed."""
SESSIONS = "FROM pg_stat_activity WHERE usename = 'webhook_dispatcher' AND pid <> pg_backend_pid()"
TERMINATE = f"SELECT pg_terminate_backend(pid) {SESSIONS} AND random() < $1"
CANCEL = f"SELECT pg_cancel_backend(pid) {SESSIONS} AND state = 'active'"
ERRORS = {"serialization failures": "40001", "deadlock errors": "40P01"}
MAKE_RETRIES = """
INSERT INTO webhook.control (command, args, requested_by)
VALUES (
    'recover',
    jsonb_build_object('since', clock_timestamp() - interval '2 hours', 'states', '["pending_retry"]'::jsonb),
    'operator'
)
RETURNING id
"""
STRUCK_TABLES = ("lane", "outbox", "attempt_log")
STRIKE = """
CREATE OR REPLACE FUNCTION public.strike() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') LIKE 'webhook-dispatcher%' AND random() < 0.3 THEN
        RAISE EXCEPTION 'struck' USING ERRCODE = TG_ARGV[0];
    END IF;
    RETURN NULL;
END
$$
"""


@fault("pg_terminate_backend", Track.SURROUNDINGS, Repeats.EXPOSED)
async def terminate(testbed: Testbed, hit: Hit) -> None:
    """End about half of the daemons' sessions every 200 ms."""
    ended = 0
    async with testbed.server.connect(patience=PATIENCE) as operator:
        for _ in range(10):
            ended += len(await operator.fetch(TERMINATE, 0.5))
            await hold_over_all(testbed, hit, 0.2)
    hit.note = f"{ended} sessions"


@fault("statements cancelled", Track.SURROUNDINGS, Repeats.EXPOSED)
async def cancel(testbed: Testbed, hit: Hit) -> None:
    """Cancel whatever the daemons' sessions run: for them as if it had taken too long."""
    cancelled = 0
    async with testbed.server.connect(patience=PATIENCE) as operator:
        ends = time.monotonic() + 2
        while time.monotonic() < ends and not testbed.stopped.is_set():
            hit.strikes(*testbed.fleet.living())
            cancelled += len(await operator.fetch(CANCEL))
            await testbed.wait(0.01)
    hit.note = f"{cancelled} statements"
    if not cancelled:
        raise NotHitError("no statement was running")


@fault("Postgres restarted fast", Track.SURROUNDINGS, Repeats.EXPOSED)
async def restart(testbed: Testbed, hit: Hit) -> None:
    """End every session, stop in good order, and start again after a moment."""
    await _down(testbed, hit, testbed.server.stop_fast, testbed.random.uniform(0, 1))


@fault("Postgres crashed", Track.SURROUNDINGS, Repeats.EXPOSED)
async def crash(testbed: Testbed, hit: Hit) -> None:
    """End it at once; it recovers from its WAL when it is started again."""
    await _down(testbed, hit, testbed.server.crash, testbed.random.uniform(0.5, 3))


async def _down(testbed: Testbed, hit: Hit, stop: Callable[[], Awaitable[None]], seconds: float) -> None:
    hit.stops_all = True
    hit.strikes(*testbed.fleet.living())
    hit.note = f"for {seconds:.1f} s"
    try:
        await stop()
        await hold_over_all(testbed, hit, seconds)
    finally:
        await testbed.server.start()


@fault("database read-only", Track.SURROUNDINGS, Repeats.EXPOSED)
async def read_only(testbed: Testbed, hit: Hit) -> None:
    """Accept no writes, as after a failover to a replica."""
    hit.stops_all = True
    hit.strikes(*testbed.fleet.living())
    try:
        await _default_to_read_only(testbed, "ALTER SYSTEM SET default_transaction_read_only = on", "on")
        await testbed.server.fetch(TERMINATE, 1.0)
        await hold_over_all(testbed, hit, testbed.random.uniform(1, 3))
    finally:
        await _default_to_read_only(testbed, "ALTER SYSTEM RESET default_transaction_read_only", "off")


async def _default_to_read_only(testbed: Testbed, statement: str, wanted: str) -> None:
    await testbed.server.execute(statement, patience=PATIENCE)
    await testbed.server.execute("SELECT pg_reload_conf()", patience=PATIENCE)
    async with asyncio.timeout(PATIENCE):
        while await _seen_by_others(testbed) != wanted:
            await asyncio.sleep(0.02)


async def _seen_by_others(testbed: Testbed) -> str:
    connection = await asyncpg.connect(testbed.server.dsn())
    try:
        return str(await connection.fetchval("SHOW default_transaction_read_only"))
    finally:
        connection.terminate()


def _raising(sqlstate: str) -> Callable[[Testbed, Hit], Awaitable[None]]:
    async def strike(testbed: Testbed, hit: Hit) -> None:
        await testbed.server.execute(STRIKE, patience=PATIENCE)
        hit.begins()
        hit.strikes(*testbed.fleet.living())
        try:
            for table in STRUCK_TABLES:
                await change(
                    testbed,
                    f"CREATE OR REPLACE TRIGGER strike BEFORE INSERT OR UPDATE OR DELETE ON webhook.{table} "
                    f"FOR EACH STATEMENT EXECUTE FUNCTION public.strike('{sqlstate}')",
                )
            await hold_over_all(testbed, hit, 2)
        finally:
            for table in STRUCK_TABLES:
                await change(testbed, f"DROP TRIGGER IF EXISTS strike ON webhook.{table}")

    return strike


async def change(testbed: Testbed, statement: str) -> None:
    """Change a table that is at work, whatever cuts that short: what may be given twice.

    Who waits for its lock holds up all behind him: briefly.
    """
    patience, ends = 0.03, time.monotonic() + 3 * PATIENCE
    while True:
        briefly = f"SET lock_timeout = '{patience * 1000:.0f}ms'; {statement}"
        try:
            async with testbed.server.connect(patience=PATIENCE) as operator:
                await operator.execute(briefly)
                return
        except PASSING:
            if time.monotonic() >= ends:
                raise
        await asyncio.sleep(patience)
        patience = min(patience * 1.5, LONGEST_LOCK_WAIT)


for _name, _sqlstate in ERRORS.items():
    fault(_name, Track.SURROUNDINGS, Repeats.EXPOSED)(_raising(_sqlstate))


@fault("table locked", Track.SURROUNDINGS, Repeats.EXPOSED)
async def lock_table(testbed: Testbed, hit: Hit) -> None:
    """Hold the outbox as an operator's ALTER TABLE would, for longer than statements wait."""
    seconds = testbed.random.uniform(1, 3)
    hit.note = f"for {seconds:.1f} s"
    async with _locked_table(testbed):
        hit.begins()
        hit.stops_all = True
        await hold_over_all(testbed, hit, seconds)


@asynccontextmanager
async def _locked_table(testbed: Testbed) -> AsyncIterator[None]:
    async with testbed.server.connect(patience=PATIENCE) as operator:
        await operator.execute("SET lock_timeout = '100ms'")
        for _ in range(30):
            transaction = operator.transaction()
            await transaction.start()
            try:
                await operator.execute("LOCK TABLE webhook.outbox IN ACCESS EXCLUSIVE MODE")
                break
            except asyncpg.LockNotAvailableError:
                await transaction.rollback()
                await asyncio.sleep(0.1)
        else:
            raise NotHitError("somebody else held it")
        try:
            yield
        finally:
            await transaction.rollback()


@fault("disk full", Track.SURROUNDINGS, Repeats.EXPOSED, needs="mount")
async def fill_disk(testbed: Testbed, hit: Hit) -> None:
    """Leave no page to the database's tables and indexes; the WAL has room."""
    hit.stops_all = True
    hit.strikes(*testbed.fleet.living())
    try:
        await testbed.server.fill_disk()
        try:
            await testbed.server.execute(
                "CREATE TEMPORARY TABLE large AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)"
            )
        except asyncpg.DiskFullError:
            pass
        else:
            raise NotHitError("there is room left")
        await hold_over_all(testbed, hit, testbed.random.uniform(1.5, 3))
    finally:
        testbed.server.free_disk()


@fault("connection limit reached", Track.SURROUNDINGS, Repeats.EXPOSED)
async def limit_connections(testbed: Testbed, hit: Hit) -> None:
    """Let the daemons have only a few sessions between them."""
    limit = testbed.random.randint(1, 6)
    hit.note = f"{limit} for all"
    await _without_room(
        testbed,
        hit,
        f"ALTER ROLE webhook_dispatcher CONNECTION LIMIT {limit}",
        "ALTER ROLE webhook_dispatcher CONNECTION LIMIT -1",
    )


@fault("role locked out", Track.SURROUNDINGS, Repeats.EXPOSED)
async def lock_out(testbed: Testbed, hit: Hit) -> None:
    """Let the daemons' role connect no more."""
    await _without_room(
        testbed, hit, "ALTER ROLE webhook_dispatcher NOLOGIN", "ALTER ROLE webhook_dispatcher LOGIN"
    )


async def _without_room(testbed: Testbed, hit: Hit, shut: str, open_again: str) -> None:
    hit.stops_all = True
    hit.strikes(*testbed.fleet.living())
    try:
        await testbed.server.execute(shut, patience=PATIENCE)
        await testbed.server.fetch(TERMINATE, 1.0, patience=PATIENCE)
        await hold_over_all(testbed, hit, testbed.random.uniform(1, 3))
    finally:
        await testbed.server.execute(open_again, patience=PATIENCE)


@fault("migration while running", Track.SURROUNDINGS, Repeats.EXPOSED)
async def migrate(testbed: Testbed, hit: Hit) -> None:
    """Migrate as an operator does, and change tables under prepared statements."""
    hit.strikes(*testbed.fleet.living())
    tables = ("lane", "outbox")
    try:
        for table in tables:
            await change(testbed, f"ALTER TABLE webhook.{table} ADD COLUMN IF NOT EXISTS chaos integer")
        hit.note = await _migrate(testbed)
        hit.strikes(*testbed.fleet.living())
    finally:
        for table in tables:
            await change(testbed, f"ALTER TABLE webhook.{table} DROP COLUMN IF EXISTS chaos")


async def _migrate(testbed: Testbed) -> str:
    """Run the command, in a process of its own: the links run in this one; tell how it ended."""
    migration = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "webhook_dispatcher", "migrate"),
        env=environment({"DATABASE_URL": testbed.server.dsn()}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LONGEST_MIGRATION):
            _, said = await migration.communicate()
    except TimeoutError:
        return "killed: it took too long"
    finally:
        if migration.returncode is None:
            migration.kill()
            await migration.wait()
    if migration.returncode != 0:
        testbed.complain(f"`migrate` ended with {migration.returncode}: {said.decode()[-500:]}")
    return f"exit {migration.returncode}"


@fault("long transaction open", Track.SURROUNDINGS, Repeats.NONE)
async def long_transaction(testbed: Testbed, hit: Hit) -> None:
    """Keep a snapshot, and half of the time a transaction number too, while things go on."""
    has_number = testbed.random.random() < 0.5
    hit.note = "with a number" if has_number else "reading"
    async with testbed.server.connect(patience=PATIENCE) as operator:
        await operator.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await operator.fetch("SELECT count(*) FROM webhook.outbox")
        if has_number:
            await operator.execute("SELECT pg_current_xact_id()")
        await testbed.wait(4)


@fault("database's clock an hour off", Track.SURROUNDINGS, Repeats.EXPOSED, needs="clock")
async def set_clock(testbed: Testbed, hit: Hit) -> None:
    """Set the server's clock an hour forward or back, and right again.

    Nothing else is done meanwhile: what a daemon leases then and leaves, dying, is held for an hour. So long
    wait retries, too, that came due meanwhile: an operator has them made at once.
    """
    seconds = testbed.random.choice((-HOUR, HOUR))
    async with testbed.quiet.alone():
        await testbed.wait(testbed.lease + SETTLED)
        hit.begins()
        hit.stops_all = True
        hit.note = f"{seconds:+} s"
        try:
            testbed.server.set_clock(seconds)
            await hold_over_all(testbed, hit, testbed.random.uniform(1, 3))
        finally:
            testbed.server.set_clock(0)
        if seconds > 0:
            await testbed.server.fetch(MAKE_RETRIES, patience=PATIENCE)
        hit.strikes(*testbed.fleet.living())
        hit.ends()
        await testbed.wait(testbed.lease + SETTLED)
