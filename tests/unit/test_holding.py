"""Merchants that fail as nearly all do are held back, and probed; nobody else waits. Source: I4, I10."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.unit.builders import make_event
from tests.unit.fakes.clock import FakeClock
from tests.unit.fakes.network import FakeSender
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.harnesses.retrier import RetrierHarness
from tests.unit.loop_turns import quiet
from webhook_dispatcher.dispatch import attempt
from webhook_dispatcher.dispatch.finding import ReadyLanes
from webhook_dispatcher.dispatch.health.lanes import Health, LaneHealth, Slots
from webhook_dispatcher.dispatch.health.own_faults import PROBE_INTERVAL, OwnFaults
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome, may_always

COLLUDERS = [f"colluder{number}" for number in range(6)]
REFUSED = Failure(Outcome.CONNECT, "ECONNREFUSED")


class Network(FakeSender):
    """Merchants that refuse connections while they are down."""

    def __init__(self) -> None:
        super().__init__()
        self.down: set[str] = set()
        self.failure = REFUSED

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, may_send: Callable[[], bool] = may_always
    ) -> Answer | Failure:
        await super().post(url, headers, body, may_send)
        return self.failure if self.host(url) in self.down else Answer(200)

    @staticmethod
    def host(url: str) -> str:
        return url.removeprefix("https://").removesuffix(".example/")

    def to(self, *merchants: str) -> int:
        """Count what was sent to these."""
        return sum(self.host(url) in merchants for url, _, _ in self.sent)


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def harness(network: Network) -> DispatcherHarness:
    harness = DispatcherHarness(max_lanes=20)
    harness.sender = harness.dispatcher._attempter._sender = network
    return harness


async def conspire(harness: DispatcherHarness, network: Network, group: asyncio.TaskGroup) -> None:
    """Have colluders accept something, then fail until they are held back."""
    harness.database.insert(*[make_event(seq, name) for seq, name in enumerate(COLLUDERS, 1)])
    await harness.rounds(group)
    network.down.update(COLLUDERS)
    harness.database.insert(*[make_event(seq, name) for seq, name in enumerate(COLLUDERS * 3, 101)])
    await harness.rounds(group)
    assert harness.own_faults.held & set(COLLUDERS)


async def test_who_is_held_back_is_probed_each_second(harness: DispatcherHarness, network: Network) -> None:
    async with harness.open(*COLLUDERS, "honest") as group:
        await conspire(harness, network, group)
        sent = network.to(*COLLUDERS)
        harness.clock.advance(-0.025)  # no second has passed since it began
        await harness.rounds(group, 2)
        assert network.to(*COLLUDERS) == sent
        harness.clock.advance(PROBE_INTERVAL)
        await harness.rounds(group)
        assert network.to(*COLLUDERS) == sent + 1
        harness.database.insert(make_event(1000, "honest"), make_event(1001, "honest"))
        await harness.rounds(group)
        assert network.to("honest") == 2
        network.down.clear()
        harness.clock.advance(PROBE_INTERVAL)
        for _ in range(5):
            await harness.rounds(group)
        assert not harness.own_faults.held
    assert not [owed.event.seq for owed in harness.database.owed.values() if owed.is_in_order]


async def test_a_session_ends_once_its_merchant_is_held(harness: DispatcherHarness, network: Network) -> None:
    def hold_once() -> None:
        network.on_post = lambda: None
        hold(harness.own_faults, COLLUDERS)

    async with harness.open(*COLLUDERS) as group:
        network.on_post = hold_once
        harness.database.insert(*[make_event(seq, COLLUDERS[0]) for seq in range(1, 4)])
        await harness.rounds(group)
        assert harness.sent == [1]


async def test_retries_of_others_go_on_beside_those_held_back() -> None:
    harness = RetrierHarness(most=40)
    network = harness.retrier._attempter._sender = Network()
    harness.database.configure(*COLLUDERS, "honest")
    network.down.update(COLLUDERS)
    hold(harness.own_faults, COLLUDERS)
    harness.owe_of([*COLLUDERS, "honest"], 1)
    assert await harness.round() == 1
    assert network.to("honest") == 1
    harness.clock.advance(PROBE_INTERVAL)
    assert await harness.round() == 1, "a probe"
    assert network.to(*COLLUDERS) == 1
    assert await harness.round() == 0
    network.down.clear()
    harness.clock.advance(PROBE_INTERVAL)
    assert await harness.round() == 1, "a probe"
    assert await harness.round() == len(COLLUDERS) - 2, "it has been answered"


def hold(faults: OwnFaults, merchants: list[str]) -> None:
    """Have merchants work, then fail alike."""
    for seen in (Answer(200), REFUSED, REFUSED):
        for merchant_id in merchants:
            faults.counts(make_event(1, merchant_id), seen, faults._clock.elapsed())
        faults._clock.advance(0.001)  # type: ignore[attr-defined]
    assert faults.held >= set(merchants)


def test_who_is_let_go_waits_with_the_others_again() -> None:
    held = {"a", "b"}
    lanes = ReadyLanes(LaneHealth(FakeClock(), held))
    for name in "abc":
        lanes.add(name, ord(name))
    room = Slots(10, {})
    assert (lanes.waiting(room), list(lanes.take(9, room))) == (1, ["c"])
    held.remove("a")
    lanes.requeue(["a", "never seen"])
    assert lanes.take(9, room) == {"a": ord("a")}
    assert list(lanes.take(9, Slots(10, {}, probes=1))) == ["b"]


def test_who_is_held_back_while_it_waits_is_not_taken() -> None:
    held: set[str] = set()
    lanes = ReadyLanes(LaneHealth(FakeClock(), held))
    lanes.add("a", 1)
    held.add("a")
    assert (lanes.take(9, Slots(10, {})), lanes.waiting(Slots(10, {}))) == ({}, 0)


def test_every_other_probe_is_of_one_that_worked_lately() -> None:
    held = {f"new{number}" for number in range(6)} | {"good", "better"}
    lanes = ReadyLanes(LaneHealth(FakeClock(), held, {"good", "better"}.__contains__))
    for name in sorted(held, reverse=True):
        lanes.add(name)
    probed = [list(lanes.take(9, Slots(10, {}, probes=1))) for _ in held]
    assert probed[:4] == [["good"], ["new5"], ["better"], ["new4"]]
    assert {name for [name] in probed} == held, "nobody waits for ever"


async def test_every_other_probe_of_a_retry_is_of_one_that_worked_lately() -> None:
    harness = RetrierHarness(most=40)
    network = harness.retrier._attempter._sender = Network()
    strangers = [f"stranger{number}" for number in range(30)]
    merchants = [*strangers, *COLLUDERS]
    harness.database.configure(*merchants)
    network.down.update(merchants)
    hold(harness.own_faults, COLLUDERS)
    for name in strangers:
        harness.own_faults.counts(make_event(1, name), REFUSED, harness.clock.elapsed())
    harness.owe_of(merchants, 1)
    for _ in range(2 * len(COLLUDERS)):
        harness.clock.advance(PROBE_INTERVAL)
        assert await harness.round() == 1, "a probe"
    assert network.to(*COLLUDERS) == network.to(*strangers) == len(COLLUDERS)


def test_probes_come_out_of_what_is_left_for_all() -> None:
    assert Slots(10, {}, probes=1).left(Health.HELD_BACK) == 1
    assert Slots(10, {}).left(Health.HELD_BACK) == 0
    assert Slots(10, {Health.HEALTHY: 10}, probes=1).left(Health.HELD_BACK) == 0
    room = Slots(10, {}, probes=1)
    room.take(Health.HELD_BACK)
    assert room.left(Health.HELD_BACK) == 0


@pytest.mark.parametrize("status", [400, 401, 403])
async def test_a_refused_signature_is_verified(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = DispatcherHarness()
    async with harness.open("a") as group:
        harness.sender.answers.append(Answer(status))
        harness.database.insert(make_event(1, "a"))
        with monkeypatch.context() as broken:
            broken.setattr(attempt, "signature", lambda *_: "t=1,v1=00")
            await harness.rounds(group)
            assert harness.sent == [1]
            assert harness.own_faults.signer_is_broken
            harness.clock.advance(PROBE_INTERVAL)
            await harness.rounds(group)
            assert harness.sent == [1], "nothing is sent that does not verify"
        harness.clock.advance(PROBE_INTERVAL)
        await harness.rounds(group)
        await quiet()
        assert not harness.own_faults.circuit_is_open
    assert harness.sent == [1, 1]
    assert is_untouched(harness)


def is_untouched(harness: DispatcherHarness) -> bool:
    """Tell whether the only event was delivered by its first attempt that counts."""
    [record] = [record for record in harness.records.written if record.attempt is not None]
    assert record.attempt is not None
    return record.attempt.number == 1 and record.attempt.outcome is Outcome.DELIVERED
