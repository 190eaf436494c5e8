"""Unreadable rows: found by halving, finished in order, and no burden to anybody else."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.unit.dispatching import Office
from tests.unit.fakes import LEASE, make_event, quiet
from webhook_dispatcher.dispatch.losses import BLOCKED_WAIT, MOST_LOST, PERIOD
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.dispatch.worker import RUN
from webhook_dispatcher.domain.claim import ClaimedRetry, Leased, RunAsk
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason, State

DAMAGE = StatementRefused("XX001", "missing chunk number 0")


def owe(office: Office, *merchants: str, each: int = 3) -> dict[str, list[int]]:
    """Let merchants have events, turn about; return the numbers of each."""
    numbers: dict[str, list[int]] = {merchant: [] for merchant in merchants}
    for place in range(each):
        for turn, merchant in enumerate(merchants):
            numbers[merchant].append(1 + place * len(merchants) + turn)
    for merchant, seqs in numbers.items():
        office.database.insert(*[make_event(seq, merchant) for seq in seqs])
    return numbers


def ask(merchant: str, after: int = 0, most: int = 20) -> RunAsk:
    return RunAsk(merchant, after, most, 10**6)


async def until_nothing_is_owed(office: Office, group: asyncio.TaskGroup) -> None:
    while office.database.owed:
        await office.rounds(group, count=1)


def in_order(sent: Iterable[int], seqs: Iterable[int]) -> list[int]:
    return [seq for seq in sent if seq in set(seqs)]


@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize(("merchants", "each"), [(7, 5), (4, RUN + 2)])
async def test_everything_but_the_damaged_row_is_delivered_in_order(
    place: int, merchants: int, each: int
) -> None:
    office = Office()
    names = [f"m{number}" for number in range(merchants)]
    with capture_logs() as logs:
        async with office.open(*names) as group:
            numbers = owe(office, *names, each=each)
            bad = numbers[names[-1]][place]
            office.database.damaged = {bad}
            await until_nothing_is_owed(office, group)
    for seqs in numbers.values():
        good = [seq for seq in seqs if seq != bad]
        assert in_order(office.sent, good) == good
    assert len(office.sent) == merchants * each - 1
    assert office.database.owed == {}
    record = office.database.finished[bad]
    assert (record.state, record.reason, record.attempt) == (State.FAILED, FailedReason.UNSENDABLE, None)
    [told] = [line for line in logs if line["event"] == "row.unreadable"]
    assert (told["merchant_id"], told["seq"]) == (names[-1], bad)
    assert "XX001" in told["error"]


async def test_all_rows_damaged_are_finished_one_after_the_other() -> None:
    office = Office()
    async with office.open("m") as group:
        numbers = owe(office, "m", each=6)["m"]
        office.database.damaged = set(numbers)
        await until_nothing_is_owed(office, group)
    assert office.sent == []
    assert set(office.database.finished) == set(numbers)


async def test_nothing_is_read_twice_when_nothing_is_refused() -> None:
    office = Office()
    async with office.open("a", "b", "c") as group:
        owe(office, "a", "b", "c")
        await office.rounds(group)
    assert len(office.claims.reads) == 1


async def test_what_the_row_is_not_to_blame_for_finishes_nothing() -> None:
    office = Office()
    async with office.open("m") as group:
        owe(office, "m")
        office.database.faults["read_runs"].extend([StatementRefused("42501", "permission denied")] * 2)
        for _ in range(2):
            with pytest.raises(StatementRefused):
                await office.dispatcher.step(group)
            await office.write()
        assert (office.database.finished, office.sent) == ({}, [])
        await office.rounds(group)
    assert office.sent == [1, 2, 3]


async def test_a_database_that_goes_away_in_the_midst_finishes_nothing() -> None:
    office = Office()
    async with office.open("a", "b") as group:
        owe(office, "a", "b")
        office.database.faults["read_runs"].extend([DAMAGE, StorageUnavailable("down")])
        with pytest.raises(StorageUnavailable):
            await office.dispatcher.step(group)
        await office.write()
        await office.rounds(group)
    assert sorted(office.sent) == [1, 2, 3, 4, 5, 6]


async def test_a_lane_whose_next_row_cannot_even_be_named_waits_and_the_others_go_on() -> None:
    office = Office()
    async with office.open("ill", "well") as group:
        owe(office, "ill", "well")
        office.database.damaged = {1}
        office.database.faults["read_suspect"].append(DAMAGE)
        await office.dispatcher.step(group)
        await quiet()
        await office.write()
        assert office.sent == [2, 4, 6]
        waits_until = office.database.lanes["ill"].wait_until
        assert waits_until is not None
        assert abs(waits_until - office.clock.now - BLOCKED_WAIT) < timedelta(milliseconds=1)


async def test_a_row_that_can_be_read_after_all_is_sent() -> None:
    office = Office()
    async with office.open("m") as group:
        owe(office, "m")
        office.database.faults["read_runs"].extend([DAMAGE] * 5)
        await office.rounds(group, count=8)
    assert office.sent == [1, 2, 3]


async def test_an_unreadable_row_is_passed_over_by_the_visit_that_has_met_it() -> None:
    office = Office()
    owe(office, "m")
    office.database.damaged = office.database.stuck = {2}
    search = Unreadable(office.claims, office.instruments)
    (asked, run) = (await search.read_runs([ask("m")], ())).runs["m"]
    assert ([event.seq for event in run], asked.most_events) == ([1, 2], 2)
    (asked, run) = (await search.read_runs([ask("m")], {1, 2})).runs["m"]
    assert [event.seq for event in run] == [1, 3], "the visit that has met it goes on behind it"
    (asked, run) = (await search.read_runs([ask("m")], {1})).runs["m"]
    assert [event.seq for event in run] == [1, 2], "a visit that has not must not overtake it"


async def test_much_unreadable_at_once_is_left_alone_for_a_while() -> None:
    office = Office()
    names = [f"m{number:03}" for number in range(MOST_LOST + 10)]
    owe(office, *names, each=1)
    office.database.damaged = set(office.database.owed)
    search = Unreadable(office.claims, office.instruments)
    found = await search.read_runs([ask(name) for name in names], ())
    assert (len(found.runs), len(found.blocked)) == (MOST_LOST, 10)
    office.clock.advance(PERIOD)
    found = await search.read_runs([ask(name) for name in found.blocked], ())
    assert (len(found.runs), len(found.blocked)) == (10, 0)


async def test_retries_are_claimed_past_a_damaged_one_which_is_counted_and_told_once() -> None:
    office = Office()
    office.claims.retries = [ClaimedRetry(make_event(seq, attempts=1), 100 + seq, None) for seq in (1, 2, 3)]
    office.database.damaged = {2}
    search = Unreadable(office.claims, office.instruments)
    with capture_logs() as logs:
        claimed = await search.claim_retries(200, 2, 200, LEASE)
        await search.claim_retries(200, 2, 200, LEASE)
    assert [retry.event.seq for retry in claimed] == [1, 3]
    [told] = [line for line in logs if line["event"] == "row.unreadable"]
    assert (told["seq"], told["is_closed"]) == (2, True)
    count = office.metrics.registry.get_sample_value(
        "webhook_deliveries_total", {"state": "failed", "type": "charge.created"}
    )
    assert count == 1


async def test_an_endpoint_that_cannot_be_read_lets_its_lane_wait_and_the_others_go_on() -> None:
    office = Office()
    async with office.open("a", "b", "ill", "z") as group:
        owe(office, "a", "b", "ill", "z")
        office.database.unreadable_endpoints = {"ill"}
        await office.rounds(group)
        assert office.database.lanes["ill"].wait_until is not None
    assert len(office.sent) == 9
    assert in_order(office.sent, [3, 7, 11]) == []
    assert office.database.finished.keys() & {3, 7, 11} == set()


async def test_a_lane_that_cannot_be_leased_waits_alone_and_is_tried_again() -> None:
    office = Office()
    names = [f"m{number}" for number in range(7)]
    heads = dict.fromkeys(names, 1)
    async with office.open(*names):
        office.database.unchangeable_lanes = {"m3"}
        search = Unreadable(office.claims, office.instruments)
        with capture_logs() as logs:
            leased = await search.lease(heads, LEASE, "us")
        assert sorted(lease.merchant_id for lease in leased.leases) == [n for n in names if n != "m3"]
        assert [line["merchant_id"] for line in logs] == ["m3"]
        asked = len(office.claims.leases_asked)
        assert await search.lease({"m3": 1}, LEASE, "us") == Leased((), (), ())
        assert len(office.claims.leases_asked) == asked, "it is left alone for a while"
        office.database.unchangeable_lanes = set()
        office.clock.advance(BLOCKED_WAIT.total_seconds())
        assert [lease.merchant_id for lease in (await search.lease({"m3": 1}, LEASE, "us")).leases] == ["m3"]


async def test_who_may_not_lease_at_all_is_not_taken_for_a_bad_lane() -> None:
    office = Office()
    async with office.open("m"):
        office.database.faults["lease"].append(StatementRefused("42501", "permission denied"))
        search = Unreadable(office.claims, office.instruments)
        with pytest.raises(StatementRefused):
            await search.lease({"m": 1}, LEASE, "us")
        assert (await search.lease({"m": 1}, LEASE, "us")).leases
