"""What is refused for one row's sake: the row is found, everybody else goes on, and nothing is given up."""

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.unit.builders import LEASE, NOW, make_event
from tests.unit.harnesses.dispatcher import DispatcherHarness
from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT, FORGOTTEN_AFTER, Reason
from webhook_dispatcher.dispatch.unreadable import Run, Unreadable
from webhook_dispatcher.dispatch.worker import RUN
from webhook_dispatcher.domain.claim import ClaimedRetry, RunAsk, SweptLane
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import Event, FailedReason

DAMAGE = StatementRefused("XX001", "missing chunk number 0")


def owe(harness: DispatcherHarness, *merchants: str, each: int = 3) -> dict[str, list[int]]:
    """Let merchants have events, turn about; return the numbers of each."""
    numbers = {
        merchant: [1 + place * len(merchants) + turn for place in range(each)]
        for turn, merchant in enumerate(merchants)
    }
    for merchant, seqs in numbers.items():
        harness.database.insert(*[make_event(seq, merchant) for seq in seqs])
    return numbers


def counted(harness: DispatcherHarness) -> float | None:
    harness.dispatcher.update_gauges()
    return harness.metrics.registry.get_sample_value("webhook_blocked_rows", {"reason": "unreadable"})


async def look_again(harness: DispatcherHarness, group: asyncio.TaskGroup) -> None:
    """Let the wait of every lane be over, and the sweep find what is owed."""
    harness.clock.advance(BLOCKED_WAIT)
    for owed in list(harness.database.owed.values()):
        harness.dispatcher._notice(owed.event.merchant_id, owed.event.seq)
    await harness.rounds(group, count=6)


@pytest.fixture
def harness() -> DispatcherHarness:
    return DispatcherHarness()


@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize(("merchants", "each"), [(7, 5), (4, RUN + 7)])
async def test_a_lane_waits_at_its_damaged_row_and_goes_on_once_that_is_mended(
    harness: DispatcherHarness, place: int, merchants: int, each: int
) -> None:
    names = [f"m{number}" for number in range(merchants)]
    ill = names[-1]
    with capture_logs() as logs:
        async with harness.open(*names) as group:
            numbers = owe(harness, *names, each=each)
            bad = numbers[ill][place]
            harness.database.damaged = {bad}
            await harness.rounds(group, count=20)
            for merchant, seqs in numbers.items():
                wanted = seqs[:place] if merchant == ill else seqs
                assert [seq for seq in harness.sent if seq in seqs] == wanted
            waits_until = harness.database.lanes[ill].wait_until
            assert waits_until is not None
            assert waits_until - harness.clock.now <= timedelta(seconds=BLOCKED_WAIT)
            await look_again(harness, group)
            assert (harness.database.finished.keys() & {bad}, counted(harness)) == (set(), 1)
            harness.database.damaged = set()
            for _ in range(3):
                await look_again(harness, group)
            assert [seq for seq in harness.sent if seq in numbers[ill]] == numbers[ill]
            harness.clock.advance(FORGOTTEN_AFTER)
            assert counted(harness) == 0
    [told] = [line for line in logs if line["event"] == "row.unreadable"]
    assert (told["merchant_id"], told["seq"], told["event_id"]) == (ill, bad, str(make_event(bad).id))
    assert "XX001" in told["detail"]


async def test_a_row_of_unreadable_values_ends_unsendable(harness: DispatcherHarness) -> None:
    async with harness.open("m") as group:
        owe(harness, "m", each=5)
        harness.database.unread = {2, 3}
        await harness.rounds(group, count=10)
    assert harness.sent == [1, 4, 5]
    assert {harness.database.finished[seq].reason for seq in (2, 3)} == {FailedReason.UNSENDABLE}


async def test_nothing_is_read_twice_when_nothing_is_refused(harness: DispatcherHarness) -> None:
    async with harness.open("a", "b", "c") as group:
        owe(harness, "a", "b", "c")
        await harness.rounds(group)
    assert len(harness.claims.reads) == 1


@pytest.mark.parametrize(
    "errors",
    [
        [StatementRefused("42501", "permission denied")],
        [DAMAGE, StatementRefused("42501", "permission denied")],
        [DAMAGE, StorageUnavailable("down")],
    ],
)
async def test_what_no_row_is_to_blame_for_blocks_none(errors: list[StatementRefused]) -> None:
    harness = DispatcherHarness()
    async with harness.open("a", "b") as group:
        owe(harness, "a", "b")
        harness.database.faults["read_runs"].extend(errors)
        with pytest.raises(type(errors[-1])):
            await harness.dispatcher.step(group)
        await harness.write()
        assert (harness.sent, counted(harness)) == ([], 0)
        await harness.rounds(group)
    assert sorted(harness.sent) == [1, 2, 3, 4, 5, 6]


async def test_a_lane_whose_next_row_cannot_be_named_waits_alone(harness: DispatcherHarness) -> None:
    async with harness.open("ill", "well") as group:
        owe(harness, "ill", "well")
        harness.database.damaged = {1}
        harness.database.faults["read_next"].append(DAMAGE)
        await harness.rounds(group, count=2)
        assert harness.sent == [2, 4, 6]
        assert harness.database.lanes["ill"].wait_until is not None
        assert counted(harness) == 1


async def test_a_row_that_can_be_read_after_all_is_sent(harness: DispatcherHarness) -> None:
    async with harness.open("m") as group:
        owe(harness, "m")
        harness.database.faults["read_runs"].extend([DAMAGE])
        await harness.rounds(group, count=8)
    assert harness.sent == [1, 2, 3]


async def test_a_row_that_is_finished_while_it_is_read_is_not_named_in_place_of_the_next(
    harness: DispatcherHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.database.insert(make_event(1, "m"), make_event(2, "m"))
    harness.database.damaged = {2}
    read_next = harness.claims.read_next

    async def read_next_and_finish(merchant_id: str, after_seq: int) -> Event | None:
        following = await read_next(merchant_id, after_seq)
        harness.database.owed.pop(1, None)
        return following

    monkeypatch.setattr(harness.claims, "read_next", read_next_and_finish)
    with capture_logs() as logs:
        runs = await Unreadable(harness.claims, harness.instruments).read_runs(
            [RunAsk("m", 0, 10, 1000, NOW)]
        )
    assert runs == {"m": Run([], is_cut=True)}
    assert [line["seq"] for line in logs if line["event"] == "row.unreadable"] == [2]


def retrying(**rows: str) -> tuple[DispatcherHarness, Unreadable]:
    """Let rows be due, each named by the merchant it is of: `_1="m"`."""
    harness = DispatcherHarness()
    for name, merchant in rows.items():
        event = make_event(int(name[1:]), merchant, attempts=1)
        harness.claims.retries.append(ClaimedRetry(event, 100 + event.seq, None))
    return harness, Unreadable(harness.claims, harness.instruments)


async def claim(unreadable: Unreadable) -> list[int]:
    return [retry.event.seq for retry in await unreadable.claim_longest_due(200, 2, 200, LEASE)]


async def test_retries_are_claimed_past_a_damaged_one_which_is_tried_again_later() -> None:
    harness, unreadable = retrying(_1="m", _2="m", _3="n", _4="o")
    harness.database.damaged = {1}
    with capture_logs() as logs:
        assert await claim(unreadable) == []
        assert await claim(unreadable) == [2, 3, 4]
        assert await claim(unreadable) == []
        harness.clock.advance(BLOCKED_WAIT)
        assert await claim(unreadable) == []
    assert [line["seq"] for line in logs if line["event"] == "row.unreadable"] == [1], "told once"
    assert counted(harness) == 1
    harness.clock.advance(BLOCKED_WAIT)
    harness.database.damaged = set()
    assert await claim(unreadable) == [1]
    harness.clock.advance(FORGOTTEN_AFTER)
    assert counted(harness) == 0


async def test_a_claim_of_some_merchants_finds_the_damaged_row_among_theirs_alone() -> None:
    harness, unreadable = retrying(_1="m", _2="n", _3="other")
    harness.database.damaged = {1, 3}
    assert not await unreadable.claim_due_of(["m", "n"], 2, 200, LEASE)
    assert harness.instruments.blocked.seqs() == [1]
    claimed = await unreadable.claim_due_of(["m", "n"], 2, 200, LEASE)
    assert [retry.event.seq for retry in claimed] == [2]


async def test_a_due_row_that_can_be_read_and_not_be_changed_is_closed_and_counted() -> None:
    harness, unreadable = retrying(_1="m", _2="n")
    harness.database.unclaimable = {1}
    assert await claim(unreadable) == []
    assert (harness.claims.closed, await claim(unreadable), counted(harness)) == ([1], [2], 0)
    labels = {"state": "failed", "type": "charge.created", "reason": "unsendable"}
    assert harness.metrics.registry.get_sample_value("webhook_deliveries_total", labels) == 1


async def test_a_due_row_that_cannot_even_be_closed_is_left_out() -> None:
    harness, unreadable = retrying(_1="m", _2="m", _3="n")
    harness.database.unclaimable = {1}
    harness.database.faults["close_row"].append(
        StatementRefused("23514", "no partition of delivery_log found")
    )
    with capture_logs() as logs:
        assert await claim(unreadable) == []
        assert await claim(unreadable) == [2, 3]
    [told] = [line for line in logs if line["event"] == "row.unreadable"]
    assert (told["seq"], told["detail"]) == (1, "23514: no partition of delivery_log found")
    harness.clock.advance(BLOCKED_WAIT)
    assert (await claim(unreadable), harness.claims.closed) == ([], [1]), "tried again later"


async def test_a_closing_that_no_row_is_to_blame_for_stays_refused() -> None:
    harness, unreadable = retrying(_1="m")
    harness.database.unclaimable = {1}
    harness.database.faults["close_row"].append(StatementRefused("42501", "permission denied"))
    with pytest.raises(StatementRefused):
        await claim(unreadable)
    assert counted(harness) == 0


async def test_a_lane_whose_due_rows_cannot_even_be_named_is_looked_at_later() -> None:
    harness, unreadable = retrying(_1="ill", _2="well")
    harness.database.damaged, harness.database.unnamed = {1}, {"ill"}
    assert await claim(unreadable) == []
    assert (harness.claims.later, counted(harness)) == (["ill"], 1)


async def test_a_lane_whose_due_rows_can_be_read_and_not_be_claimed_is_looked_at_later() -> None:
    harness, unreadable = retrying(_1="ill", _2="well", _3="other")
    harness.database.unchangeable = {1}
    with capture_logs() as logs:
        assert await claim(unreadable) == [2, 3], "the others do not wait for it"
        assert await claim(unreadable) == []
    assert (harness.claims.later, counted(harness)) == (["ill"], 1)
    [told] = [line for line in logs if line["event"] == "row.unreadable"]
    assert (told["merchant_id"], told["seq"]) == ("ill", None)
    harness.database.unchangeable = set()
    harness.claims.later.clear()
    assert await claim(unreadable) == [1]


async def test_the_only_lane_whose_due_rows_cannot_be_claimed_stops_nobody() -> None:
    harness, unreadable = retrying(_1="ill")
    harness.database.unchangeable = {1}
    assert not await unreadable.claim_due_of(["ill"], 2, 200, LEASE)
    assert (harness.claims.later, counted(harness)) == (["ill"], 1)


async def test_a_claim_that_is_refused_once_is_made_at_once_and_blocks_no_lane() -> None:
    harness, unreadable = retrying(_1="m", _2="n")
    harness.database.faults["claim_longest_due"].append(DAMAGE)
    assert await claim(unreadable) == [1, 2]
    assert (harness.claims.later, counted(harness)) == ([], 0)


async def test_claims_by_halves_take_no_more_than_one_claim_would() -> None:
    harness, unreadable = retrying(_1="a", _2="b", _3="c", _4="ill")
    harness.database.unchangeable = {4}
    assert len(await unreadable.claim_due_of(["ill", "a", "b", "c"], 2, 4, LEASE)) == 3
    harness, unreadable = retrying(_1="ill", _2="b", _3="c", _4="d")
    harness.database.unchangeable = {1}
    assert len(await unreadable.claim_longest_due(4, 2, 2, LEASE)) == 2


async def test_what_was_claimed_before_the_database_went_away_is_not_left_to_lapse() -> None:
    harness, unreadable = retrying(_1="m", _2="n")
    harness.database.faults["claim_longest_due"].append(DAMAGE)
    harness.database.faults["claim_due_of"].extend([DAMAGE, None, StorageUnavailable("down")])
    assert await claim(unreadable) == [1]
    assert await claim(unreadable) == [2]


@pytest.mark.parametrize(
    "faults",
    [
        {"claim_longest_due": StatementRefused("42501", "permission denied")},
        {"claim_longest_due": DAMAGE, "try_rows": StorageUnavailable("down")},
        {"claim_longest_due": DAMAGE, "claim_due_of": StorageUnavailable("down")},
        {"claim_longest_due": DAMAGE, "claim_due_of": StatementRefused("42501", "permission denied")},
    ],
)
async def test_a_claim_that_no_row_is_to_blame_for_stays_refused(faults: dict[str, StatementRefused]) -> None:
    harness, unreadable = retrying(_1="m", _2="n")
    for method, fault in faults.items():
        harness.database.faults[method].append(fault)
    with pytest.raises(type([*faults.values()][-1])):
        await claim(unreadable)
    assert (harness.claims.closed, counted(harness)) == ([], 0)
    assert await claim(unreadable) == [1, 2]


async def test_a_lane_whose_endpoint_cannot_be_read_waits_alone(harness: DispatcherHarness) -> None:
    async with harness.open("a", "b", "ill", "z") as group:
        numbers = owe(harness, "a", "b", "ill", "z")
        harness.database.unreadable_endpoints = {"ill"}
        await harness.rounds(group)
        assert harness.database.lanes["ill"].wait_until is not None
    assert len(harness.sent) == 9
    assert not set(numbers["ill"]) & ({*harness.sent} | harness.database.finished.keys())


async def test_a_lane_that_cannot_be_leased_waits_alone(harness: DispatcherHarness) -> None:
    names = [f"m{number}" for number in range(7)]
    async with harness.open(*names) as group:
        harness.database.unchangeable_lanes = {"m3"}
        harness.database.insert(*(make_event(seq, name) for seq, name in enumerate(names, 1)))
        with capture_logs() as logs:
            await harness.rounds(group)
        assert [line["merchant_id"] for line in logs if line["event"] == "lane.unreadable"] == ["m3"]
        assert sorted(harness.sent) == [1, 2, 3, 5, 6, 7]
        asked = len(harness.claims.leases_asked)
        assert not harness.dispatcher.notice_swept(SweptLane("m3", 4, is_free=True))
        harness.dispatcher._ready.add("m3", 4)
        await harness.rounds(group)
        assert len(harness.claims.leases_asked) == asked, "it is left alone for a while"
        harness.database.unchangeable_lanes = set()
        harness.clock.advance(BLOCKED_WAIT)
        assert harness.dispatcher.notice_swept(SweptLane("m3", 4, is_free=True))
        await harness.rounds(group)
    assert harness.sent[-1] == 4


async def test_who_may_not_lease_at_all_is_not_taken_for_a_bad_lane(harness: DispatcherHarness) -> None:
    async with harness.open("m"):
        harness.database.faults["lease"].append(StatementRefused("42501", "permission denied"))
        unreadable = Unreadable(harness.claims, harness.instruments)
        with pytest.raises(StatementRefused):
            await unreadable.lease({"m": 1}, LEASE)
        assert (await unreadable.lease({"m": 1}, LEASE)).leases


def test_what_is_not_found_again_is_forgotten_and_found_anew_is_told_anew(harness: DispatcherHarness) -> None:
    blocked = harness.instruments.blocked
    with capture_logs() as logs:
        for _ in range(2):
            blocked.find(Reason.UNREADABLE, "m", 7, None, "XX001")
            blocked.find(Reason.UNREADABLE, "m", None, None, "XX001")
            harness.clock.advance(FORGOTTEN_AFTER)
            assert blocked.seqs() == []
            blocked.update_gauge()
    assert len(logs) == 4
