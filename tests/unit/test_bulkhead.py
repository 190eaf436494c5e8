"""Merchants that hang leave places to others: the dispatcher's and the retrier's, with fakes around them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.builders import NOW, make_event
from tests.unit.fakes.database import FakeDatabase
from tests.unit.fakes.storage import FakeClaims
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.harnesses.retrier import RetrierHarness
from tests.unit.loop_turns import quiet
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch import retries
from webhook_dispatcher.dispatch import sweep as sweeping
from webhook_dispatcher.dispatch.health.lanes import SLOW, Health, Slots
from webhook_dispatcher.dispatch.lane_session import MAX_BYTES, LaneSession
from webhook_dispatcher.dispatch.retries import DueLanes, Step
from webhook_dispatcher.domain.claim import START, ClaimedRetry, DueCursor, Lease, SweptLane
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome

MOST = 8
SLOW_ONES = 4
DOUBTFUL = 7


def hang(harness: DispatcherHarness | RetrierHarness, is_slow: Callable[[str], bool]) -> None:
    """Keep requests on the wire to those merchants, and answer others at once."""
    never = asyncio.Event()
    harness.sender.gate = never
    post = harness.sender.post

    async def choose(url: str, headers: object, body: bytes, may_send: object) -> Answer | Failure:
        if is_slow(url.removeprefix("https://").split(".")[0]):
            return await post(url, headers, body)  # type: ignore[arg-type]
        harness.sender.sent.append((url, headers, body))  # type: ignore[arg-type]
        return Answer(200)

    harness.sender.post = choose  # type: ignore[method-assign, assignment]


def is_tarpit(merchant_id: str) -> bool:
    return merchant_id.startswith("tarpit")


TARPITS = [f"tarpit{number}" for number in range(20)]


async def test_known_slow_ones_leave_half_of_the_lanes_to_others() -> None:
    harness = DispatcherHarness(max_lanes=MOST)
    hang(harness, is_tarpit)
    standings = harness.instruments.health
    for name in TARPITS:
        standings.learn(name, Outcome.TIMEOUT, 10.0)
    async with harness.open(*TARPITS, "m") as group:
        harness.database.insert(*[make_event(seq, name) for seq, name in enumerate(TARPITS, 1)])
        await harness.rounds(group, 6)
        assert harness.dispatcher.lanes_leased == SLOW_ONES
        harness.database.insert(make_event(100, "m"))
        await harness.rounds(group, 6)
        assert 100 in harness.sent
        assert not await harness.dispatcher.step(group), "there is nothing to hurry for"
        harness.dispatcher.update_gauges()
        assert harness.metrics.suspect_lanes._value.get() == SLOW_ONES


@pytest.mark.parametrize(("is_known", "places"), [(True, SLOW_ONES), (False, DOUBTFUL)])
async def test_all_that_one_is_sent_at_once_counts_together(is_known: bool, places: int) -> None:
    harness = DispatcherHarness(max_lanes=MOST)
    hang(harness, is_tarpit)
    harness.instruments.health.learn("m", Outcome.DELIVERED, 0.1)
    if is_known:
        harness.instruments.health.learn("tarpit", Outcome.TIMEOUT, 10.0)
    async with harness.open("tarpit", "m") as group:
        endpoints = harness.database.endpoints
        endpoints["tarpit"] = replace(endpoints["tarpit"], at_once=32)
        harness.database.insert(*[make_event(seq, "tarpit") for seq in range(1, 21)])
        await harness.rounds(group, 6)
        assert harness.attempter.in_flight == places
        harness.database.insert(make_event(100, "m"))
        await harness.rounds(group, 6)
        assert 100 in harness.sent


async def test_those_of_one_that_hang_are_slow_though_another_was_answered_quickly() -> None:
    harness = DispatcherHarness(max_lanes=MOST)
    health = harness.instruments.health
    hang(harness, is_tarpit)
    health.learn("tarpit", Outcome.DELIVERED, 0.1)
    async with harness.open("tarpit") as group:
        harness.database.endpoints["tarpit"] = replace(harness.database.endpoints["tarpit"], at_once=6)
        harness.database.insert(*[make_event(seq, "tarpit") for seq in range(1, 21)])
        await harness.rounds(group, 6)
        assert harness.attempter.in_flight == 6
        harness.clock.advance(SLOW)
        assert health.of("tarpit") is Health.SLOW
        health.learn("tarpit", Outcome.DELIVERED, 0.1)
        charges = harness.dispatcher._sessions["tarpit"].charges
        assert charges is not None
        charges.changed.set()
        await harness.rounds(group, 6)
        assert (health.of("tarpit"), harness.attempter.in_flight) == (Health.HEALTHY, 6)
        assert +harness.dispatcher._taken() == {Health.SLOW: 6}, "the first, too"


async def test_one_is_sent_no_more_at_once_than_those_that_wait_for_a_lane_leave() -> None:
    harness = DispatcherHarness(max_lanes=MOST)
    harness.sender.gate = asyncio.Event()
    others = [f"m{number}" for number in range(MOST - 1)]
    async with harness.open("big", *others) as group:
        endpoints = harness.database.endpoints
        endpoints["big"] = replace(endpoints["big"], at_once=32)
        harness.instruments.health.learn("big", Outcome.DELIVERED, 0.1)
        harness.database.insert(*[make_event(seq, "big") for seq in range(1, 21)])
        await harness.rounds(group)
        assert harness.attempter.in_flight == MOST
        harness.database.insert(*[make_event(seq, name) for seq, name in enumerate(others, 100)])
        harness.sender.gate.set()
        await harness.rounds(group, 12)
        assert sorted(harness.sent) == [*range(1, 21), *range(100, 100 + len(others))]


async def test_who_leaves_a_place_wakes_only_those_who_may_have_it() -> None:
    harness = DispatcherHarness(max_lanes=2)
    async with harness.open("good", "slow") as group:
        harness.database.insert(make_event(1, "good"))
        await harness.rounds(group)
        harness.instruments.health.learn("slow", Outcome.TIMEOUT, 10.0)
        harness.dispatcher._ready.add("slow")
        session = LaneSession(Lease("good", 1, 0, None, False, NOW), harness.memory, 0.0, 0.0)
        harness.dispatcher._wake.clear()
        harness.dispatcher.close([session])
        assert not harness.dispatcher._wake.is_set()
        harness.dispatcher._ready.add("new")
        harness.dispatcher.close([session])
        assert not harness.dispatcher._wake.is_set()
        harness.dispatcher._ready.add("good")
        harness.dispatcher.close([session])
        assert harness.dispatcher._wake.is_set()


async def test_bodies_of_those_that_hang_leave_memory_to_others() -> None:
    harness = DispatcherHarness(max_lanes=1000)
    hang(harness, is_tarpit)
    for name in TARPITS:
        harness.instruments.health.learn(name, Outcome.TIMEOUT, 10.0)
    async with harness.open(*TARPITS, "m") as group:
        ballast = make_event(999, object=b"x" * (MAX_BYTES // 2))
        harness.memory.reserve(ballast)
        harness.database.insert(make_event(1, TARPITS[0]), make_event(2, "m"))
        await harness.rounds(group)
        assert harness.sent == [2]
        harness.memory.free(ballast)
        await harness.rounds(group)
        assert harness.sent == [2, 1]


async def test_a_merchant_that_failed_goes_back_behind_the_others() -> None:
    harness = DispatcherHarness(max_lanes=1)
    harness.sender.on_post = lambda: harness.clock.advance(3.0)  # each session ends after one attempt
    harness.sender.answers.extend([Answer(500)] * 6)
    async with harness.open("a", "b", "c") as group:
        harness.database.insert(*[make_event(seq, name) for seq, name in enumerate("aaabc", 1)])
        await harness.rounds(group, 12)
    assert harness.sent == [1, 4, 5, 2, 3]


class Pages(FakeClaims):
    """Two full pages of merchants that are owed something, and one merchant more."""

    def __init__(self, database: FakeDatabase) -> None:
        super().__init__(database)
        self.asked: list[str] = []

    async def sweep(self, after_lane: str, page_size: int) -> list[SweptLane]:
        self.asked.append(after_lane)
        names = [f"m{number:02}" for number in range(2 * page_size + 1)]
        return [SweptLane(name, 1, is_free=True) for name in names if name > after_lane][:page_size]


async def test_the_sweep_hurries_for_news_and_rests_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_PAGE", 3)
    harness = DispatcherHarness()
    pages = Pages(harness.database)
    sweep = sweeping.Sweep(pages, harness.dispatcher)
    assert [await sweep.step() for _ in range(4)] == [True, True, False, False], (
        "it rests at the end of a round, and where a page held nothing new"
    )
    assert (pages.asked, harness.dispatcher._ready._sweep) == (["", "m02", "m05", ""], 2)


async def test_the_sweep_rests_while_no_lanes_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_PAGE", 3)
    harness = DispatcherHarness()
    harness.instruments.pause.set(True)
    pages = Pages(harness.database)
    sweep = sweeping.Sweep(pages, harness.dispatcher)
    assert not await sweep.step()
    assert not await sweep.step()
    assert pages.asked == ["", "m02"]


async def test_hanging_retries_leave_half_of_the_places_to_others() -> None:
    harness = RetrierHarness(most=MOST)
    hang(harness, is_tarpit)
    harness.database.configure(*TARPITS)
    harness.claims.due_since = {"m": "9"}  # due later than all of them
    harness.health.learn("m", Outcome.DELIVERED, SLOW / 10)
    harness.owe_of(TARPITS, 1)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        for _ in range(5):
            await harness.retrier.step(group)
        await quiet()
        harness.clock.advance(SLOW)
        for _ in range(3):
            await harness.retrier.step(group)
        harness.owe_of(["m"], 100)
        before = len(harness.sender.sent)
        await harness.retrier.step(group)
        await quiet()
        assert harness.sender.event_ids[before:] == [100]
        assert DOUBTFUL >= before >= SLOW_ONES
        assert harness.sender.gate is not None
        harness.sender.gate.set()


def owe(harness: RetrierHarness, *merchants: str) -> DueLanes:
    harness.claims.retries = [
        ClaimedRetry(make_event(seq, name, attempts=1), 1, None) for seq, name in enumerate(merchants, 1)
    ]
    return DueLanes(harness.claims, harness.health)


async def test_a_round_over_more_lanes_than_a_look_reads_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "LOOK", 3)
    harness = RetrierHarness()
    lanes = owe(harness, *TARPITS[:7], "well")
    for name in TARPITS:
        harness.health.learn(name, Outcome.TIMEOUT, 10.0)
    full = {Health.SLOW: SLOW_ONES}
    found = []
    for round_goes_on in (True, True, False):
        picked = await lanes.pick(Slots(MOST, full), 1, 10)
        found += picked.lanes
        assert picked.round_goes_on == round_goes_on
    assert (found, harness.claims.looks[0]) == (["well"], START)
    assert (await lanes.pick(Slots(MOST, full), 1, 10)).lanes == []
    assert harness.claims.looks[3] == START


async def test_slow_ones_take_turns_at_the_places_they_have() -> None:
    harness = RetrierHarness()
    names = TARPITS[:5]
    lanes = owe(harness, *names)
    for name in names:
        harness.health.learn(name, Outcome.TIMEOUT, 10.0)
    taken = [await lanes.pick(Slots(MOST, {Health.SLOW: SLOW_ONES - 1}), 2, 10) for _ in range(11)]
    picked = [name for some in taken for name in some.lanes]
    assert (picked[:5], set(picked[5:])) == (names, set(names))


@pytest.mark.parametrize("look", [10, 100])
async def test_a_lane_due_before_the_probed_has_its_turn(look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "LOOK", look)
    harness = RetrierHarness()
    colluders = [f"colluder{number:02}" for number in range(50)]
    held = set(colluders)
    harness.claims.retries = [ClaimedRetry(make_event(1, name, attempts=1), 1, None) for name in colluders]
    harness.claims.due_since = {name: f"{number:04}" for number, name in enumerate(colluders)}
    harness.health._held = held
    lanes = DueLanes(harness.claims, harness.health)
    for number in range(100, 300):
        if number == 200:
            harness.claims.retries.append(ClaimedRetry(make_event(2, "honest", attempts=1), 1, None))
            harness.claims.due_since["honest"] = "0110"
            held.add("honest")
        picked, _ = await lanes.pick(Slots(100, {}, probes=1), 2, 10)
        if picked == ["honest"]:
            return
        for name in picked:
            harness.claims.due_since[name] = f"{number:04}"
    pytest.fail("it is never probed")


async def test_a_lane_is_counted_with_all_the_places_it_may_take() -> None:
    harness = RetrierHarness()
    lanes = owe(harness, "a", "b", "c", "d")
    assert (await lanes.pick(Slots(100, {}), 2, 4)).lanes == ["a", "b"]
    assert harness.claims.looks == [START]
    assert (await lanes.pick(Slots(MOST, {Health.HEALTHY: MOST - 3}), 2, 10)).lanes == ["c", "d"]
    assert harness.claims.looks[1] == DueCursor("0", "b")


async def test_no_more_lanes_of_a_kind_are_named_than_have_places() -> None:
    harness = RetrierHarness()
    lanes = owe(harness, *"abcdef", "good")
    harness.health.learn("good", Outcome.DELIVERED, SLOW / 10)
    assert (await lanes.pick(Slots(MOST, {Health.SLOW: DOUBTFUL - 2}), 1, 10)).lanes == [
        "a",
        "b",
        "good",
    ]


async def test_a_round_is_not_hurried_on_while_nothing_may_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "LOOK", 3)
    harness = RetrierHarness(most=MOST)
    for name in TARPITS[:7]:
        harness.health.learn(name, Outcome.TIMEOUT, 10.0)
    harness.owe_of(TARPITS[:7], 1)
    harness.retrier._in_flight.update({TARPITS[0]: SLOW_ONES})
    async with asyncio.TaskGroup() as group:
        assert await harness.retrier.step(group) == Step(0, round_goes_on=True)
        harness.instruments.pause.set(True)
        assert await harness.retrier.step(group) == Step(0, round_goes_on=False)


async def test_merchants_without_a_retry_in_flight_are_not_kept() -> None:
    harness = RetrierHarness()
    harness.owe(1, 2)
    await harness.round()
    assert not harness.retrier._in_flight
