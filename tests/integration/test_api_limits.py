"""Limits of the Partner API hold exactly: in no window are more taken than the limit, whoever asks and when.

What is right is judged by a naive model, which keeps every instant at which something was taken.
"""

import asyncio
import os
import random
import signal
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import asyncpg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.integration.storage_harness import PATIENCE
from tests.servers.database import Connect, Database, own_server
from tests.waiting import until, until_found
from webhook_dispatcher.domain.rate_limit import Limit
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.api.database import ask
from webhook_dispatcher.storage.api.limits import Limits, Subject, Taken
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.session import PLANNED_ONCE
from webhook_dispatcher.storage.statements import load

BEGINNING = datetime(2026, 11, 20, 8, 15, tzinfo=UTC)
TOKEN = sha256(b"token").digest()
ADMIT = replace(
    load("api_tokens")["admit"], text="SELECT retry_after, remaining FROM webhook.admit_token($1, $2, $3, $4)"
)
KEY = """
WITH made AS (SELECT webhook.create_api_key('m', 'c', sha256('secret'), 'a key', 'somebody') AS id)
INSERT INTO webhook.api_token (hash, api_key_id, expires_at)
SELECT $1, made.id, clock_timestamp() + interval '1 hour' FROM made
"""
MILLISECOND, SECOND = timedelta(milliseconds=1), timedelta(seconds=1)
SUBJECTS = (
    Subject("client:a", Limit(3, 5 * SECOND)),
    Subject("ip:a", Limit(5, 7 * SECOND)),
    Subject("card:a", Limit(2, 20 * SECOND), is_durable=True),
    Subject("key:a", Limit(1, SECOND)),
)
Step = tuple[int, list[Subject]]
"""Microseconds since the step before, and who asks then."""
STEPS = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from([0, 1, 999, 1001, 998_999, 999_001, 999_999, 1_000_000, 4_999_001, 5_000_000]),
            st.integers(0, 8_000_000),
        ),
        st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=4, unique=True),
    ),
    min_size=1,
    max_size=25,
)


class OfKey(Limits):
    """Takes of a key's limit as a request does, by its token."""

    async def take(self, subjects: Sequence[Subject], clock: datetime | None = None) -> Taken:
        [subject] = subjects
        [row] = await ask(self._database, ADMIT, TOKEN, subject.limit.most, subject.limit.window, clock)
        return Taken(row["retry_after"], row["remaining"], None, (row["remaining"],))


EVERY_WAY = pytest.mark.parametrize("how", [Limits, OfKey])


class Model:
    """All instants at which something was taken, by subject."""

    def __init__(self) -> None:
        self.taken: dict[Subject, list[datetime]] = defaultdict(list)

    def fits(self, subject: Subject, at: datetime, rounding: timedelta = timedelta(0)) -> bool:
        """Tell whether one more may be taken, if each stands for that much longer than a window."""
        window, taken = subject.limit.window, self.taken[subject]
        return sum(instant + rounding > at - window for instant in taken) < subject.limit.most

    def judge(self, asked: Sequence[Subject], at: datetime, taken: Taken) -> None:
        """Compare an answer with what is right, and keep what was taken."""
        if taken.retry_after is None:
            assert all(self.fits(subject, at) for subject in asked), "no more than the limit"
            for subject in asked:
                self.taken[subject].append(at)
        else:
            assert not all(self.fits(subject, at, MILLISECOND) for subject in asked), "refused for nothing"


async def make_key(database: Database) -> None:
    """Make the first key, whose token is TOKEN."""
    db = await database.connect()
    await db.execute(KEY, TOKEN)
    await db.close()


async def takes_then(limits: Limits, db: asyncpg.Connection, asked: Sequence[Subject], at: datetime) -> bool:
    """Tell what would come of asking then; it changes nothing."""
    transaction = db.transaction()
    await transaction.start()
    taken = await limits.take(asked, at)
    await transaction.rollback()
    return taken.retry_after is None


async def follow(database: Database, steps: Sequence[Step], how: type[Limits] = Limits) -> None:
    """Take a number of steps in a database that forgets them, and judge each."""
    db = await database.connect("webhook_api")
    try:
        await judge_steps(how(db), db, steps)
    finally:
        # Also where a step was wrong: its transaction would keep the next example waiting.
        await db.close()


async def judge_steps(limits: Limits, db: asyncpg.Connection, steps: Sequence[Step]) -> None:
    """Take the steps within a transaction that is not committed."""
    model, at = Model(), BEGINNING
    await db.transaction().start()
    for microseconds, asked in steps:
        at += timedelta(microseconds=microseconds)
        taken = await limits.take(asked, at)
        model.judge(asked, at, taken)
        if taken.retry_after is not None:
            assert taken.retry_after >= SECOND
            assert taken.retry_after.microseconds == 0
            assert await takes_then(limits, db, asked, at + taken.retry_after), "then one passes"
            assert not await takes_then(limits, db, asked, at + taken.retry_after - SECOND), "not before"


def test_windows_hold_whoever_asks_and_when(database: Database) -> None:
    with asyncio.Runner() as runner:

        @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
        @given(STEPS)
        @example([(999, [SUBJECTS[3]]), (999_001, [SUBJECTS[3]]), (998, [SUBJECTS[3]]), (1, [SUBJECTS[3]])])
        @example([(0, [SUBJECTS[3]]), (1001, [SUBJECTS[3]]), (998_999, [SUBJECTS[3]]), (1, [SUBJECTS[3]])])
        def holds(steps: list[Step]) -> None:
            runner.run(follow(database, steps))

        holds()


def test_a_keys_window_holds_by_the_same_rule(database: Database) -> None:
    """What lets requests in takes by statements of its own."""
    subject = Subject("key:1", Limit(3, 5 * SECOND))
    with asyncio.Runner() as runner:
        runner.run(make_key(database))

        @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
        @given(STEPS)
        def holds(steps: list[Step]) -> None:
            runner.run(follow(database, [(microseconds, [subject]) for microseconds, _ in steps], OfKey))

        holds()


async def test_a_refused_request_takes_nothing_and_leaves_no_row(connect: Connect) -> None:
    db = await connect()
    limits, (client, ip, *_) = Limits(db), SUBJECTS
    for _ in range(3):
        await limits.take([client], BEGINNING)
    taken = await limits.take([ip, client], BEGINNING)
    assert (taken.retry_after, taken.at, taken.left) == (5 * SECOND, None, (5, 0))
    assert await db.fetchval("SELECT array_agg(subject) FROM webhook.api_usage") == ["client:a"]
    assert (await limits.take([ip], BEGINNING)).left == (4,)


async def test_retry_after_is_the_longest_of_those_that_refuse(connect: Connect) -> None:
    db = await connect("webhook_api")
    limits, (client, _, card, _) = Limits(db), SUBJECTS
    for subject in [client] * 3 + [card] * 2:
        await limits.take([subject], BEGINNING)
    assert (await limits.take([card, client], BEGINNING + SECOND)).retry_after == 19 * SECOND


async def test_a_limit_of_nothing_is_none(connect: Connect) -> None:
    db = await connect()
    off, on = Subject("off", Limit(0, SECOND)), Subject("on", Limit(9, SECOND))
    assert (await Limits(db).take([off], BEGINNING)).retry_after is None
    assert (await Limits(db).take([off, on], BEGINNING)).left == (None, 8)
    assert await db.fetchval("SELECT array_agg(subject) FROM webhook.api_usage") == ["on"]


async def test_what_makes_no_sense_is_refused(connect: Connect) -> None:
    for most, window in ((-1, SECOND), (1501, SECOND), (1, MILLISECOND), (1, timedelta(days=2))):
        with pytest.raises(ValueError, match="a limit is"):
            Limit(most, window)
    db = await connect("webhook_api")
    take = "SELECT FROM webhook.take_limits($1::text[], $2, $3, array_fill(false, ARRAY[9]))"
    for subjects, limits, windows in (
        (["a"], [1501], [SECOND]),
        (["a"], [1], [timedelta(days=2)]),
        (["a"], [None], [SECOND]),
        (["a", "b"], [1], [SECOND]),
        (["a", "a"], [1, 1], [SECOND, SECOND]),
    ):
        with pytest.raises(asyncpg.InvalidParameterValueError):
            await db.fetch(take, subjects, limits, windows)


@EVERY_WAY
async def test_the_clock_is_set_back_and_forth(
    database: Database, connect: Connect, how: type[Limits]
) -> None:
    await make_key(database)
    db = await connect("webhook_api")
    subject = Subject("key:1", Limit(3, 10 * SECOND))
    limits = how(db)

    async def take(seconds: float) -> int | None:
        waits = (await limits.take([subject], BEGINNING + timedelta(seconds=seconds))).retry_after
        return None if waits is None else int(waits.total_seconds())

    assert [await take(seconds) for seconds in (100, 95, 101)] == [None, None, None]
    assert await take(95) == 15, "set back within a window, all count"
    assert await take(109.9) == 1, "the second was taken at 95, and counts as if at 100"
    assert [await take(seconds) for seconds in (110, 110)] == [None, None], "and forth again"
    assert await take(110) == 1
    assert await take(99) is None, "set back by more than a window, counting starts anew"


@EVERY_WAY
async def test_a_subject_in_use_for_weeks_counts_as_at_first(
    database: Database, connect: Connect, how: type[Limits]
) -> None:
    await make_key(database)
    db = await connect("webhook_api")
    subject = Subject("key:1", Limit(2, timedelta(days=1)))
    limits = how(db)
    for half_days in range(60):
        at = BEGINNING + timedelta(hours=12 * half_days)
        assert (await limits.take([subject], at)).retry_after is None
        refused = (await limits.take([subject], at)).retry_after
        assert refused == (None if half_days == 0 else timedelta(hours=12))
        if half_days == 0:
            await limits.release(subject, BEGINNING)


@EVERY_WAY
@pytest.mark.parametrize(
    ("used", "left"),
    [([], 7), ([BEGINNING], 7), ([None], 6)],
    ids=["made by who locks it", "of a window that is over", "in use"],
)
async def test_the_clock_is_read_after_the_lock_was_had(
    database: Database, how: type[Limits], used: list[datetime | None], left: int
) -> None:
    """Who waited for a row counts from when it had it, not from when it was asked: each way to a row."""
    await make_key(database)
    db, holder, waiter = [await database.connect(role) for role in ("postgres", "webhook_api", "webhook_api")]
    subject = Subject("key:1", Limit(9, timedelta(hours=1)))
    for at in used:
        await how(holder).take([subject], at)

    async def now() -> datetime:
        instant: datetime = await db.fetchval("SELECT clock_timestamp()")
        return instant

    async def is_waiting() -> bool:
        return bool(await db.fetchval("SELECT pg_blocking_pids($1) <> '{}'", waiter.get_server_pid()))

    async with asyncio.TaskGroup() as group, holder.transaction():
        assert (await how(holder).take([subject])).remaining == left + 1
        waiting = group.create_task(how(waiter).take([subject]))
        await until_found(is_waiting)
        asked_before, released_after = await now(), await now()
        # Instants are rounded up to milliseconds.
        while released_after - asked_before < 2 * MILLISECOND:
            released_after = await now()
    assert waiting.result().remaining == left
    latest = "SELECT webhook.instant(since + taken[cardinality(taken)]) FROM webhook.api_usage"
    assert await db.fetchval(latest) >= released_after
    for connection in (db, holder, waiter):
        await connection.close()


async def test_what_was_taken_is_released_once_by_its_instant(connect: Connect) -> None:
    db = await connect("webhook_api")
    limits, (client, _, card, _) = Limits(db), SUBJECTS
    for subject in (card, client):
        instants = [BEGINNING + timedelta(microseconds=1500 * step) for step in range(subject.limit.most)]
        taken = [await limits.take([subject], at) for at in instants]
        assert (await limits.take([subject], instants[-1])).retry_after is not None
        first = taken[0].at
        assert first is not None
        assert not await limits.release(subject, first + SECOND), "nothing was taken then"
        assert [await limits.release(subject, first) for _ in range(2)] == [True, False]
        assert (await limits.take([subject], instants[-1])).retry_after is None
        assert (await limits.take([subject], instants[-1])).retry_after is not None


def excess(instants: Sequence[datetime], limit: Limit) -> list[datetime]:
    """Return the instants that stand less than a window after the one that makes them too many."""
    ordered = sorted(instants)
    pairs = zip(ordered, ordered[limit.most :], strict=False)
    return [later for earlier, later in pairs if later < earlier + limit.window]


async def test_many_connections_at_once_take_no_more_than_the_limit(database: Database) -> None:
    """Sets overlap and name their subjects in any order, while what expired is cleared away: no deadlock."""
    limit = Limit(12, SECOND)
    subjects = [Subject(f"subject:{n}", limit, is_durable=n == 0) for n in range(4)]
    taken: dict[Subject, list[datetime]] = defaultdict(list)
    choose = random.Random(7)
    refused = 0
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(
            create_pool(
                database.dsn("webhook_api"),
                application_name="api",
                command_timeout=PATIENCE,
                size=16,
                planning=PLANNED_ONCE,
            )
        )
        db = await database.connect()
        stack.push_async_callback(db.close)
        limits = Limits(pool)
        is_over = asyncio.Event()

        async def ask() -> None:
            nonlocal refused
            while not is_over.is_set():
                asked = choose.sample(subjects, choose.randint(1, 4))
                answer = await limits.take(asked)
                for subject in asked if answer.at is not None else ():
                    assert answer.at is not None
                    taken[subject].append(answer.at)
                refused += answer.at is None

        async def clear() -> None:
            while not is_over.is_set():
                for table in ("api_usage", "card_attempts"):
                    await db.execute(
                        f"DELETE FROM webhook.{table} WHERE subject = ANY(ARRAY(SELECT subject FROM "
                        f"webhook.{table} WHERE expires_at < clock_timestamp() FOR UPDATE SKIP LOCKED))"
                    )

        async def end() -> None:
            await until(
                lambda: min((len(taken[subject]) for subject in subjects), default=0) > 2 * limit.most
            )
            is_over.set()

        async with asyncio.TaskGroup() as group:
            for work in (*[ask] * 16, clear, end):
                group.create_task(work())
    assert {subject.name: excess(taken[subject], limit) for subject in subjects} == {
        subject.name: [] for subject in subjects
    }
    assert refused > 0


async def counts(server: EmbeddedPostgres) -> list[int]:
    db = await asyncpg.connect(server.dsn())
    tables = ("api_usage", "card_attempts")
    found = [await db.fetchval(f"SELECT count(*) FROM webhook.{table}") for table in tables]
    await db.close()
    return found


def test_a_crash_of_the_database_frees_no_attempt_at_a_card() -> None:
    with own_server({"synchronous_commit": "on"}) as server, asyncio.Runner() as runner:
        runner.run(schema.migrate(server.dsn()))

        async def take() -> Taken:
            db = await asyncpg.connect(server.dsn("webhook_api"))
            taken = await Limits(db).take(SUBJECTS)
            await db.close()
            return taken

        assert runner.run(take()).retry_after is None
        assert runner.run(counts(server)) == [3, 1]
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        server.stop()
        server.start()
        assert runner.run(counts(server)) == [0, 1]
        assert runner.run(take()).left == (2, 4, 0, 0)
        assert runner.run(take()).retry_after is not None, "the card's"
