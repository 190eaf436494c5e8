"""The database's absence: nobody claims until everybody has had the time to write."""

import asyncio

import pytest

from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.dispatch.health.outage import HEAD_START, SHORT_OUTAGE, Outage
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable

AWAY = StorageUnavailable("connection refused")


class Database:
    """Says whether it can write."""

    def __init__(self) -> None:
        self.is_away = False
        self.asked = 0

    async def probe(self) -> None:
        self.asked += 1
        if self.is_away:
            raise AWAY


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def absence(clock: FakeClock) -> Outage:
    return Outage(clock)


async def test_who_answers_is_not_probed(absence: Outage, clock: FakeClock, database: Database) -> None:
    assert await absence.may_claim(database.probe)
    assert (database.asked, absence.trouble) == (0, "")


async def test_nobody_claims_directly_after(absence: Outage, clock: FakeClock, database: Database) -> None:
    absence.failed(clock.elapsed(), AWAY)
    assert absence.trouble == "the database does not answer: connection refused"
    clock.advance(SHORT_OUTAGE + 0.1)
    assert not await absence.may_claim(database.probe)
    assert absence.trouble == ""
    clock.advance(HEAD_START)
    assert await absence.may_claim(database.probe)
    assert database.asked == 1


async def test_it_is_away_until_it_can_write(absence: Outage, clock: FakeClock, database: Database) -> None:
    absence.failed(clock.elapsed(), AWAY)
    database.is_away = True
    clock.advance(40)
    with pytest.raises(StorageUnavailable):
        await absence.may_claim(database.probe)
    database.is_away = False
    assert not await absence.may_claim(database.probe)


async def test_time_of_a_hung_statement_counts(absence: Outage, clock: FakeClock, database: Database) -> None:
    asked = clock.elapsed()
    clock.advance(10)  # until its time-out
    absence.failed(asked, AWAY)
    assert not await absence.may_claim(database.probe)


async def test_a_moment_costs_no_head_start(absence: Outage, clock: FakeClock, database: Database) -> None:
    absence.failed(clock.elapsed(), AWAY)
    clock.advance(SHORT_OUTAGE / 2)
    assert await absence.may_claim(database.probe)
    assert database.asked == 1


async def test_a_refusal_is_no_absence(absence: Outage, clock: FakeClock, database: Database) -> None:
    absence.failed(clock.elapsed(), StatementRefused("42501", "permission denied"))
    assert absence.trouble == "the database refuses claims: 42501: permission denied"
    clock.advance(60)
    assert await absence.may_claim(database.probe)


async def test_two_loops_may_find_out_at_once(absence: Outage, clock: FakeClock, database: Database) -> None:
    absence.failed(clock.elapsed(), AWAY)
    clock.advance(SHORT_OUTAGE + 0.1)
    gate = asyncio.Event()

    async def probe() -> None:
        await gate.wait()

    loops = [asyncio.create_task(absence.may_claim(probe)) for _ in range(2)]
    await asyncio.sleep(0)  # noqa: TID251
    gate.set()
    assert await asyncio.gather(*loops) == [False, False]
