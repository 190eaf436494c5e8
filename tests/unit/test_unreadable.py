"""What is refused for one row's sake: the row is found, everybody else goes on, and nothing is given up."""

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.unit.dispatching import Office
from tests.unit.fakes import LEASE, make_event
from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT, FORGOTTEN_AFTER, Reason
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.dispatch.worker import RUN
from webhook_dispatcher.domain.claim import ClaimedRetry, SweptLane
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason

DAMAGE = StatementRefused("XX001", "missing chunk number 0")


def owe(office: Office, *merchants: str, each: int = 3) -> dict[str, list[int]]:
    """Let merchants have events, turn about; return the numbers of each."""
    numbers = {
        merchant: [1 + place * len(merchants) + turn for place in range(each)]
        for turn, merchant in enumerate(merchants)
    }
    for merchant, seqs in numbers.items():
        office.database.insert(*[make_event(seq, merchant) for seq in seqs])
    return numbers


def counted(office: Office) -> float | None:
    office.dispatcher.show()
    return office.metrics.registry.get_sample_value("webhook_blocked_rows", {"reason": "unreadable"})


async def look_again(office: Office, group: asyncio.TaskGroup) -> None:
    """Let the wait of every lane be over, and the sweep find what is owed."""
    office.clock.advance(BLOCKED_WAIT)
    for owed in list(office.database.owed.values()):
        office.dispatcher._notice(owed.event.merchant_id, owed.event.seq)
    await office.rounds(group, count=6)


@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize(("merchants", "each"), [(7, 5), (4, RUN + 7)])
async def test_a_lane_waits_at_its_damaged_row_and_goes_on_once_that_is_mended(
    place: int, merchants: int, each: int
) -> None:
    office = Office()
    names = [f"m{number}" for number in range(merchants)]
    ill = names[-1]
    with capture_logs() as logs:
        async with office.open(*names) as group:
            numbers = owe(office, *names, each=each)
            bad = numbers[ill][place]
            office.database.damaged = {bad}
            await office.rounds(group, count=20)
            for merchant, seqs in numbers.items():
                wanted = seqs[:place] if merchant == ill else seqs
                assert [seq for seq in office.sent if seq in seqs] == wanted
            waits_until = office.database.lanes[ill].wait_until
            assert waits_until is not None
            assert waits_until - office.clock.now <= timedelta(seconds=BLOCKED_WAIT)
            await look_again(office, group)
            assert (office.database.finished.keys() & {bad}, counted(office)) == (set(), 1)
            office.database.damaged = set()
            for _ in range(3):
                await look_again(office, group)
            assert [seq for seq in office.sent if seq in numbers[ill]] == numbers[ill]
            office.clock.advance(FORGOTTEN_AFTER)
            assert counted(office) == 0
    [told] = [line for line in logs if line["event"] == "row.unreadable"]
    assert (told["merchant_id"], told["seq"], told["event_id"]) == (ill, bad, str(make_event(bad).id))
    assert "XX001" in told["detail"]


async def test_a_row_of_values_that_cannot_be_read_ends_unsendable_in_its_turn() -> None:
    office = Office()
    async with office.open("m") as group:
        owe(office, "m", each=5)
        office.database.unread = {2, 3}
        await office.rounds(group, count=10)
    assert office.sent == [1, 4, 5]
    assert {office.database.finished[seq].reason for seq in (2, 3)} == {FailedReason.UNSENDABLE}


async def test_nothing_is_read_twice_when_nothing_is_refused() -> None:
    office = Office()
    async with office.open("a", "b", "c") as group:
        owe(office, "a", "b", "c")
        await office.rounds(group)
    assert len(office.claims.reads) == 1


@pytest.mark.parametrize(
    "errors",
    [
        [StatementRefused("42501", "permission denied")],
        [DAMAGE, StatementRefused("42501", "permission denied")],
        [DAMAGE, StorageUnavailable("down")],
    ],
)
async def test_what_no_row_is_to_blame_for_blocks_none(errors: list[StatementRefused]) -> None:
    office = Office()
    async with office.open("a", "b") as group:
        owe(office, "a", "b")
        office.database.faults["read_runs"].extend(errors)
        with pytest.raises(type(errors[-1])):
            await office.dispatcher.step(group)
        await office.write()
        assert (office.sent, counted(office)) == ([], 0)
        await office.rounds(group)
    assert sorted(office.sent) == [1, 2, 3, 4, 5, 6]


async def test_a_lane_whose_next_row_cannot_even_be_named_waits_and_the_others_go_on() -> None:
    office = Office()
    async with office.open("ill", "well") as group:
        owe(office, "ill", "well")
        office.database.damaged = {1}
        office.database.faults["read_next"].append(DAMAGE)
        await office.rounds(group, count=2)
        assert office.sent == [2, 4, 6]
        assert office.database.lanes["ill"].wait_until is not None
        assert counted(office) == 1


async def test_a_row_that_can_be_read_after_all_is_sent() -> None:
    office = Office()
    async with office.open("m") as group:
        owe(office, "m")
        office.database.faults["read_runs"].extend([DAMAGE])
        await office.rounds(group, count=8)
    assert office.sent == [1, 2, 3]


def retrying(**rows: str) -> tuple[Office, Unreadable]:
    """Let rows be due, each named by the merchant it is of: `_1="m"`."""
    office = Office()
    for name, merchant in rows.items():
        event = make_event(int(name[1:]), merchant, attempts=1)
        office.claims.retries.append(ClaimedRetry(event, 100 + event.seq, None))
    return office, Unreadable(office.claims, office.instruments)


async def claim(unreadable: Unreadable) -> list[int]:
    return [retry.event.seq for retry in await unreadable.claim_longest_due(200, 2, 200, LEASE)]


async def test_retries_are_claimed_past_a_damaged_one_which_is_tried_again_later() -> None:
    office, unreadable = retrying(_1="m", _2="m", _3="n", _4="o")
    office.database.damaged = {1}
    with capture_logs() as logs:
        assert await claim(unreadable) == []
        assert await claim(unreadable) == [2, 3, 4]
        assert await claim(unreadable) == []
        office.clock.advance(BLOCKED_WAIT)
        assert await claim(unreadable) == []
    assert [line["seq"] for line in logs if line["event"] == "row.unreadable"] == [1], "told once"
    assert counted(office) == 1
    office.clock.advance(BLOCKED_WAIT)
    office.database.damaged = set()
    assert await claim(unreadable) == [1]
    office.clock.advance(FORGOTTEN_AFTER)
    assert counted(office) == 0


async def test_a_claim_of_some_merchants_finds_the_damaged_row_among_theirs_alone() -> None:
    office, unreadable = retrying(_1="m", _2="n", _3="other")
    office.database.damaged = {1, 3}
    assert not await unreadable.claim_due_of(["m", "n"], 2, 200, LEASE)
    assert office.instruments.blocked.seqs() == [1]
    claimed = await unreadable.claim_due_of(["m", "n"], 2, 200, LEASE)
    assert [retry.event.seq for retry in claimed] == [2]


async def test_a_due_row_that_can_be_read_and_not_be_changed_is_closed_and_counted() -> None:
    office, unreadable = retrying(_1="m", _2="n")
    office.database.unclaimable = {1}
    assert await claim(unreadable) == []
    assert (office.claims.closed, await claim(unreadable), counted(office)) == ([1], [2], 0)
    labels = {"state": "failed", "type": "charge.created"}
    assert office.metrics.registry.get_sample_value("webhook_deliveries_total", labels) == 1


async def test_a_lane_whose_due_rows_cannot_even_be_named_is_looked_at_later() -> None:
    office, unreadable = retrying(_1="ill", _2="well")
    office.database.damaged, office.database.unnamed = {1}, {"ill"}
    assert await claim(unreadable) == []
    assert (office.claims.later, counted(office)) == (["ill"], 1)


@pytest.mark.parametrize(
    "faults",
    [
        {"claim_longest_due": StatementRefused("42501", "permission denied")},
        {"claim_longest_due": DAMAGE},
        {"claim_longest_due": DAMAGE, "try_rows": StorageUnavailable("down")},
    ],
)
async def test_a_claim_that_no_row_is_to_blame_for_stays_refused(
    faults: dict[str, StatementRefused],
) -> None:
    office, unreadable = retrying(_1="m", _2="n")
    for method, fault in faults.items():
        office.database.faults[method].append(fault)
    with pytest.raises(type([*faults.values()][-1])):
        await claim(unreadable)
    assert (office.claims.closed, counted(office)) == ([], 0)
    assert await claim(unreadable) == [1, 2]


async def test_an_endpoint_that_cannot_be_read_lets_its_lane_wait_and_the_others_go_on() -> None:
    office = Office()
    async with office.open("a", "b", "ill", "z") as group:
        numbers = owe(office, "a", "b", "ill", "z")
        office.database.unreadable_endpoints = {"ill"}
        await office.rounds(group)
        assert office.database.lanes["ill"].wait_until is not None
    assert len(office.sent) == 9
    assert not set(numbers["ill"]) & ({*office.sent} | office.database.finished.keys())


async def test_a_lane_that_cannot_be_leased_waits_alone_and_is_tried_again() -> None:
    office = Office()
    names = [f"m{number}" for number in range(7)]
    async with office.open(*names) as group:
        office.database.unchangeable_lanes = {"m3"}
        office.database.insert(*(make_event(seq, name) for seq, name in enumerate(names, 1)))
        with capture_logs() as logs:
            await office.rounds(group)
        assert [line["merchant_id"] for line in logs if line["event"] == "lane.unreadable"] == ["m3"]
        assert sorted(office.sent) == [1, 2, 3, 5, 6, 7]
        asked = len(office.claims.leases_asked)
        assert not office.dispatcher.notice_swept(SweptLane("m3", 4, is_free=True))
        office.dispatcher._ready.add("m3", 4)
        await office.rounds(group)
        assert len(office.claims.leases_asked) == asked, "it is left alone for a while"
        office.database.unchangeable_lanes = set()
        office.clock.advance(BLOCKED_WAIT)
        assert office.dispatcher.notice_swept(SweptLane("m3", 4, is_free=True))
        await office.rounds(group)
    assert office.sent[-1] == 4


async def test_who_may_not_lease_at_all_is_not_taken_for_a_bad_lane() -> None:
    office = Office()
    async with office.open("m"):
        office.database.faults["lease"].append(StatementRefused("42501", "permission denied"))
        unreadable = Unreadable(office.claims, office.instruments)
        with pytest.raises(StatementRefused):
            await unreadable.lease({"m": 1}, LEASE, "us")
        assert (await unreadable.lease({"m": 1}, LEASE, "us")).leases


def test_what_is_not_found_again_is_forgotten_and_found_anew_is_told_anew() -> None:
    office = Office()
    blocked = office.instruments.blocked
    with capture_logs() as logs:
        for _ in range(2):
            blocked.find(Reason.UNREADABLE, "m", 7, None, "XX001")
            blocked.find(Reason.UNREADABLE, "m", None, None, "XX001")
            office.clock.advance(FORGOTTEN_AFTER)
            assert blocked.seqs() == []
            blocked.show()
    assert len(logs) == 4
