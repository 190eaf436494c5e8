"""Merchants that hang leave places to others: the dispatcher's and the retrier's, with fakes around them."""

import asyncio
from collections.abc import Callable

import pytest

from tests.unit import dispatching, test_retries
from tests.unit.fake_storage import FakeClaims
from tests.unit.fakes import FakeDatabase, make_event, quiet, until
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch import finding, retries
from webhook_dispatcher.dispatch import sweep as sweeping
from webhook_dispatcher.dispatch.health.merchants import SLOW, Health, Slots
from webhook_dispatcher.dispatch.lane_session import MAX_BYTES, LaneSession
from webhook_dispatcher.dispatch.retries import DueLanes
from webhook_dispatcher.domain.claim import START, ClaimedRetry, DueCursor, Lease, SweptLane
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome

MOST = 8
SUSPECTS = 4
DOUBTFUL = 7


def hang(office: dispatching.Office | test_retries.Office, is_slow: Callable[[str], bool]) -> None:
    """Keep requests on the wire to those merchants, and answer others at once."""
    never = asyncio.Event()
    office.sender.gate = never
    post = office.sender.post

    async def choose(url: str, headers: object, body: bytes) -> Answer | Failure:
        if is_slow(url.removeprefix("https://").split(".")[0]):
            return await post(url, headers, body)  # type: ignore[arg-type]
        office.sender.sent.append((url, headers, body))  # type: ignore[arg-type]
        return Answer(200)

    office.sender.post = choose  # type: ignore[method-assign]


def is_tarpit(merchant_id: str) -> bool:
    return merchant_id.startswith("tarpit")


TARPITS = [f"tarpit{number}" for number in range(20)]


async def test_known_suspects_leave_half_of_the_lanes_to_others() -> None:
    office = dispatching.Office(max_lanes=MOST)
    hang(office, is_tarpit)
    standings = office.instruments.merchants
    for name in TARPITS:
        standings.learn(name, Outcome.TIMEOUT, 10.0)
    async with office.open(*TARPITS, "m") as group:
        office.database.insert(*[make_event(seq, name) for seq, name in enumerate(TARPITS, 1)])
        await office.rounds(group, 6)
        assert office.dispatcher.lanes_leased == SUSPECTS
        office.database.insert(make_event(100, "m"))
        await office.rounds(group, 6)
        assert 100 in office.sent
        assert not await office.dispatcher.step(group), "there is nothing to hurry for"
        office.dispatcher.show()
        assert office.metrics.suspect_lanes._value.get() == SUSPECTS


async def test_who_leaves_a_place_wakes_only_those_who_may_have_it() -> None:
    office = dispatching.Office(max_lanes=2)
    async with office.open("good", "slow") as group:
        office.database.insert(make_event(1, "good"))
        await office.rounds(group)
        office.instruments.merchants.learn("slow", Outcome.TIMEOUT, 10.0)
        office.dispatcher._ready.add("slow")
        visit = LaneSession(Lease("good", 1, 0, None), office.memory, 0.0, 0.0)
        office.dispatcher._wake.clear()
        office.dispatcher.close([visit])
        assert not office.dispatcher._wake.is_set()
        office.dispatcher._ready.add("new")
        office.dispatcher.close([visit])
        assert not office.dispatcher._wake.is_set()
        office.dispatcher._ready.add("good")
        office.dispatcher.close([visit])
        assert office.dispatcher._wake.is_set()


async def test_those_who_hang_for_the_first_time_leave_a_place_to_who_is_known_to_be_good() -> None:
    office = dispatching.Office(max_lanes=MOST)
    hang(office, is_tarpit)
    async with office.open(*TARPITS, "good", "new") as group:
        office.database.insert(make_event(1, "good"))
        await office.rounds(group)
        office.database.insert(*[make_event(seq, name) for seq, name in enumerate(TARPITS, 2)])
        await office.rounds(group, 6)
        assert office.dispatcher.lanes_leased == DOUBTFUL
        office.clock.advance(SLOW * 2)
        office.database.insert(make_event(100, "good"), make_event(101, "new"))
        await office.rounds(group, 6)
        assert 100 in office.sent
        assert 101 not in office.sent, "nothing tells it from those that hang"
        assert office.dispatcher.lanes_leased == DOUBTFUL


async def test_bodies_of_those_that_hang_leave_memory_to_others() -> None:
    office = dispatching.Office(max_lanes=1000)
    hang(office, is_tarpit)
    for name in TARPITS:
        office.instruments.merchants.learn(name, Outcome.TIMEOUT, 10.0)
    async with office.open(*TARPITS, "m") as group:
        ballast = make_event(999, object=b"x" * (MAX_BYTES // 2))
        office.memory.reserve(ballast)
        office.database.insert(make_event(1, TARPITS[0]), make_event(2, "m"))
        await office.rounds(group)
        assert office.sent == [2]
        office.memory.free(ballast)
        await office.rounds(group)
        assert office.sent == [2, 1]


async def test_a_merchant_that_failed_goes_back_behind_the_others() -> None:
    office = dispatching.Office(max_lanes=1)
    office.sender.on_post = lambda: office.clock.advance(3.0)  # each visit ends after one attempt
    office.sender.answers.extend([Answer(500)] * 6)
    async with office.open("a", "b", "c") as group:
        office.database.insert(*[make_event(seq, name) for seq, name in enumerate("aaabc", 1)])
        await office.rounds(group, 12)
    assert office.sent == [1, 4, 5, 2, 3]


async def test_the_sweep_goes_on_at_once_only_for_news() -> None:
    office = dispatching.Office(max_lanes=MOST)
    async with office.open("a"):
        probe = SweptLane("a", 1, is_free=True)
        assert office.dispatcher.notice_swept(probe)
        assert not office.dispatcher.notice_swept(probe)
        assert not office.dispatcher.notice_swept(SweptLane("b", 2, is_free=False))


class Pages(FakeClaims):
    """Two full pages of merchants that are owed something, and one merchant more."""

    def __init__(self, database: FakeDatabase) -> None:
        super().__init__(database)
        self.asked: list[str] = []

    async def sweep(self, after_merchant: str, page_size: int) -> list[SweptLane]:
        self.asked.append(after_merchant)
        names = [f"m{number:02}" for number in range(2 * page_size + 1)]
        return [SweptLane(name, 1, is_free=True) for name in names if name > after_merchant][:page_size]


async def test_the_sweep_hurries_for_news_and_rests_where_all_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_PAGE", 3)
    office = dispatching.Office()
    pages = Pages(office.database)
    sweep = sweeping.Sweep(pages, office.dispatcher)
    assert [await sweep.step() for _ in range(4)] == [True, True, False, False], (
        "it rests at the end of a round, and where a page held nothing new"
    )
    assert pages.asked == ["", "m02", "m05", ""]
    assert office.dispatcher._ready._sweep == 2


async def test_the_sweep_rests_while_no_lanes_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_PAGE", 3)
    office = dispatching.Office()
    office.instruments.pause.set(True)
    pages = Pages(office.database)
    sweep = sweeping.Sweep(pages, office.dispatcher)
    assert not await sweep.step()
    assert not await sweep.step()
    assert pages.asked == ["", "m02"]


async def test_hanging_retries_leave_half_of_the_places_to_others() -> None:
    office = test_retries.Office(most=MOST)
    hang(office, is_tarpit)
    office.database.configure(*TARPITS)
    office.claims.due_since = {"m": "9"}  # due later than all of them
    office.merchants.learn("m", Outcome.DELIVERED, SLOW / 10)
    office.owe_of(TARPITS, 1)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        for _ in range(5):
            await office.retrier.step(group)
        await quiet()
        office.clock.advance(SLOW)
        for _ in range(3):
            await office.retrier.step(group)
        office.owe_of(["m"], 100)
        before = len(office.sender.sent)
        await office.retrier.step(group)
        await quiet()
        assert office.sender.event_ids[before:] == [100]
        assert DOUBTFUL >= before >= SUSPECTS
        assert office.sender.gate is not None
        office.sender.gate.set()


async def test_known_suspects_take_half_of_the_places_for_retries() -> None:
    office = test_retries.Office(most=MOST)
    hang(office, is_tarpit)
    office.database.configure(*TARPITS)
    for name in TARPITS:
        office.merchants.learn(name, Outcome.TIMEOUT, 10.0)
    office.owe_of(TARPITS, 1)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        for _ in range(5):
            await office.retrier.step(group)
        await until(lambda: len(office.sender.sent) == SUSPECTS)
        assert await office.retrier.step(group) == 0
        assert office.sender.gate is not None
        office.sender.gate.set()


def owe(office: test_retries.Office, *merchants: str) -> DueLanes:
    office.claims.retries = [
        ClaimedRetry(make_event(seq, name, attempts=1), 1, None) for seq, name in enumerate(merchants, 1)
    ]
    return DueLanes(office.claims, office.merchants)


async def test_a_round_over_more_lanes_than_a_look_reads_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "LOOK", 3)
    office = test_retries.Office()
    lanes = owe(office, *TARPITS[:7], "well")
    for name in TARPITS:
        office.merchants.learn(name, Outcome.TIMEOUT, 10.0)
    full = {Health.SUSPECT: SUSPECTS}
    found = []
    for is_under_way in (True, True, False):
        found += await lanes.pick(Slots(MOST, full), 1, 10)
        assert lanes.is_under_way == is_under_way
    assert found == ["well"]
    assert office.claims.looks[0] == START
    assert await lanes.pick(Slots(MOST, full), 1, 10) == []
    assert office.claims.looks[3] == START


async def test_suspects_take_turns_at_the_places_they_have() -> None:
    office = test_retries.Office()
    names = TARPITS[:5]
    lanes = owe(office, *names)
    for name in names:
        office.merchants.learn(name, Outcome.TIMEOUT, 10.0)
    taken = [await lanes.pick(Slots(MOST, {Health.SUSPECT: SUSPECTS - 1}), 2, 10) for _ in range(11)]
    picked = [name for lane in taken for name in lane]
    assert picked[:5] == names
    assert set(picked[5:]) == set(names)


@pytest.mark.parametrize("look", [10, 100])
async def test_a_lane_due_before_those_who_are_probed_again_and_again_has_its_turn(
    look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "LOOK", look)
    office = test_retries.Office()
    colluders = [f"colluder{number:02}" for number in range(50)]
    held = set(colluders)
    office.claims.retries = [ClaimedRetry(make_event(1, name, attempts=1), 1, None) for name in colluders]
    office.claims.due_since = {name: f"{number:04}" for number, name in enumerate(colluders)}
    office.merchants._held = held
    lanes = DueLanes(office.claims, office.merchants)
    for number in range(100, 300):
        if number == 200:
            office.claims.retries.append(ClaimedRetry(make_event(2, "honest", attempts=1), 1, None))
            office.claims.due_since["honest"] = "0110"
            held.add("honest")
        picked = await lanes.pick(Slots(100, {}, probes=1), 2, 10)
        if picked == ["honest"]:
            return
        for name in picked:
            office.claims.due_since[name] = f"{number:04}"
    pytest.fail("it is never probed")


async def test_a_lane_is_counted_with_all_the_places_it_may_take() -> None:
    office = test_retries.Office()
    lanes = owe(office, "a", "b", "c", "d")
    assert await lanes.pick(Slots(100, {}), 2, 4) == ["a", "b"]
    assert office.claims.looks == [START]
    assert await lanes.pick(Slots(MOST, {Health.HEALTHY: MOST - 3}), 2, 10) == ["c", "d"]
    assert office.claims.looks[1] == DueCursor("0", "b")


async def test_no_more_lanes_of_a_kind_are_named_than_have_places() -> None:
    office = test_retries.Office()
    lanes = owe(office, *"abcdef", "good")
    office.merchants.learn("good", Outcome.DELIVERED, SLOW / 10)
    assert await lanes.pick(Slots(MOST, {Health.SUSPECT: DOUBTFUL - 2}), 1, 10) == ["a", "b", "good"]


async def test_a_round_is_not_hurried_on_while_nothing_may_be_sent() -> None:
    office = test_retries.Office()
    office.retrier._due.is_under_way = True
    office.instruments.pause.set(True)
    async with asyncio.TaskGroup() as group:
        assert await office.retrier.step(group) == 0
    assert not office.retrier._due.is_under_way


async def test_merchants_without_a_retry_in_flight_are_not_kept() -> None:
    office = test_retries.Office()
    office.owe(1, 2)
    await office.round()
    assert not office.retrier._in_flight


async def test_those_whom_the_sweep_brings_have_their_turn_in_a_full_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(finding, "MAX_READY", 1)
    office = dispatching.Office(max_lanes=1)
    office.sender.gate = asyncio.Event()
    async with office.open(*"abc") as group:
        office.database.insert(make_event(1, "a"))
        await office.rounds(group)
        office.database.insert(make_event(2, "b"))
        await office.rounds(group)
        assert not office.dispatcher.notice_swept(SweptLane("c", 3, is_free=True))
        monkeypatch.setattr(finding, "MAX_READY", 2)
        office.database.insert(make_event(4, "d"))
        await office.rounds(group)
        office.dispatcher.begin_sweep()
        assert office.dispatcher.notice_swept(SweptLane("c", 3, is_free=True))
        assert list(office.dispatcher._ready.take(9, Slots(9, {}))) == ["b", "c"]
