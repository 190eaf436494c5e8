"""Sessions of routed lanes: they send nothing, and whatever the database says, nothing is passed over."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.unit.builders import NOW, make_event
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.loop_turns import one_turn, quiet, until
from webhook_dispatcher.dispatch import router
from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT
from webhook_dispatcher.dispatch.dispatcher import SESSION_TIME
from webhook_dispatcher.dispatch.router import MAX_ROWS
from webhook_dispatcher.domain.claim import Routed, RouteFate
from webhook_dispatcher.domain.errors import PartitionMissing, StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason
from webhook_dispatcher.domain.lane import lane_named

M1, M2 = lane_named("m", 1), lane_named("m", 2)
DAMAGED = StatementRefused("XX001", "missing chunk number 0")
BREAKS_A_RULE = StatementRefused("23514", "breaks a rule")
HALVES = [MAX_ROWS // 2**n for n in range(9)]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> DispatcherHarness:
    """Have a merchant whose lane is routed, and who owes an event in it."""
    monkeypatch.setattr(router, "sleep", lambda _: one_turn())
    harness = DispatcherHarness()
    harness.database.lanes["m"].is_routed = True
    harness.database.configure(M1, M2)
    return harness


def counted(harness: DispatcherHarness, name: str) -> float | None:
    return harness.metrics.registry.get_sample_value(f"webhook_{name}_total")


async def test_events_are_routed_in_turn_and_copies_noticed_at_once(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1), make_event(2))
        await harness.dispatcher.step(group)
        copy = make_event(3, M2, id=UUID(int=33), copy_of=UUID(int=1))
        harness.database.insert(copy)
        harness.claims.routes.extend(
            [
                Routed(RouteFate.KEPT, 1, reached=1, is_cut=True, heads={M2: 3}),
                Routed(RouteFate.RELEASED, 1, 1, ["charge.created"], 2),
            ]
        )
        polled = len(harness.claims.leases_asked)
        await until(lambda: "m" not in harness.dispatcher._sessions)
        await harness.dispatcher._claim(group)
        assert harness.claims.leases_asked[polled:] == [{M2: 3}], "before any poll"
        await harness.rounds(group)
    assert [(ask.after_seq, ask.stable) for ask in harness.claims.route_asks] == [(0, 2), (1, 2)]
    assert harness.sender.event_ids == [1], "the event's id"
    assert {ask.lane for asks in harness.claims.reads for ask in asks} == {M2}
    assert (counted(harness, "routed_events"), counted(harness, "unwanted_events")) == (2, 1)
    labels = {"state": "failed", "type": "charge.created", "reason": "not_configured"}
    assert harness.metrics.registry.get_sample_value("webhook_deliveries_total", labels) == 1


async def test_what_is_noticed_while_all_is_routed_is_routed_next(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1))
        harness.claims.route_gate = asyncio.Event()
        await harness.dispatcher.step(group)
        await quiet()
        harness.database.insert(make_event(2))
        await harness.dispatcher.step(group)
        harness.claims.route_gate.set()
        await harness.rounds(group, 2)
    assert [ask.after_seq for ask in harness.claims.route_asks] == [0, 0]


@pytest.mark.parametrize("fate", [RouteFate.LOCKED, RouteFate.KEPT])
async def test_a_locked_lane_or_row_is_waited_for(harness: DispatcherHarness, fate: RouteFate) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1))
        harness.claims.routes.extend([Routed(fate, is_cut=fate is RouteFate.KEPT)] * 3)
        await harness.dispatcher.step(group)
        await until(lambda: len(harness.claims.route_asks) == 4)
    assert [ask.after_seq for ask in harness.claims.route_asks] == [0] * 4
    assert len(harness.claims.leases_asked) == 1


async def test_a_recalled_lane_is_released_and_claimed_again(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1))
        harness.claims.routes.append(Routed(RouteFate.RECALLED))
        await harness.rounds(group)
    assert [ask.lease.epoch for ask in harness.claims.route_asks] == [1, 2]


async def test_a_lost_lane_is_said_to_be_lost(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1))
        harness.claims.routes.append(Routed(RouteFate.LOST))
        await harness.dispatcher.step(group)
        harness.database.lanes["m"].epoch += 1
        with capture_logs() as logs:
            await quiet()
            await harness.write()
        assert harness.dispatcher.lanes_leased == 0
    assert [(line["event"], line["merchant_id"]) for line in logs] == [("lane.lost", "m")]
    assert counted(harness, "leases_lost") == 1


async def test_a_session_routes_no_longer_than_its_time(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1))
        harness.claims.routes.extend([Routed(RouteFate.KEPT, 1, reached=1, is_cut=True)] * 2)
        harness.claims.route_gate = asyncio.Event()
        await harness.dispatcher.step(group)
        await quiet()
        harness.clock.advance(SESSION_TIME)
        harness.claims.route_gate.set()
        await harness.rounds(group)
    assert [ask.lease.epoch for ask in harness.claims.route_asks] == [1, 2, 2]


async def test_a_row_that_can_never_be_sent_ends_so_and_holds_nothing_up(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1), make_event(2))
        harness.database.unclaimable.add(1)
        harness.claims.routes.extend([BREAKS_A_RULE] * 9)
        await harness.rounds(group)
    asked = [ask.max_rows for ask in harness.claims.route_asks]
    assert asked == [*HALVES, 1], "and not before it is written"
    assert harness.database.finished[1].reason is FailedReason.UNSENDABLE
    assert not harness.database.lanes["m"].is_leased


@pytest.mark.parametrize("is_events", [True, False])
async def test_a_lane_rests_where_a_row_is_damaged(harness: DispatcherHarness, is_events: bool) -> None:
    with capture_logs() as logs:
        async with harness.open() as group:
            harness.database.insert(make_event(1))
            if is_events:
                harness.database.damaged.add(1)
            harness.claims.routes.extend([DAMAGED] * 9)
            await harness.rounds(group)
    assert [line["event"] for line in logs] == ["row.unreadable" if is_events else "lane.unreadable"]
    assert (1 in harness.database.owed, len(harness.claims.leases_asked)) == (True, 1)
    wait_until = harness.database.lanes["m"].wait_until
    assert wait_until is not None
    assert abs(wait_until - NOW - timedelta(seconds=BLOCKED_WAIT)) < timedelta(seconds=1)


async def test_a_few_rows_that_are_refused_together_are_routed_apart(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1))
        harness.claims.routes.extend([BREAKS_A_RULE, BREAKS_A_RULE, Routed(RouteFate.KEPT, 1, is_cut=True)])
        await harness.rounds(group)
    assert [ask.max_rows for ask in harness.claims.route_asks] == [*HALVES[:3], HALVES[1]]


@pytest.mark.parametrize(
    ("error", "needs_upkeep"),
    [(StorageUnavailable("down"), False), (PartitionMissing("23514", "no partition"), True)],
)
async def test_a_failed_route_gives_the_lane_back(
    harness: DispatcherHarness, error: StorageUnavailable | PartitionMissing, needs_upkeep: bool
) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1))
        harness.database.faults["route"].append(error)
        await harness.dispatcher.step(group)
        await harness.rounds(group)
    assert harness.recorder.needs_upkeep.is_set() is needs_upkeep
    assert [(ask.lease.epoch, ask.max_rows) for ask in harness.claims.route_asks] == [
        (1, MAX_ROWS),
        (2, MAX_ROWS // 2),
    ]


@pytest.mark.parametrize("is_ready", [True, False])
async def test_a_lane_whose_first_endpoint_is_alone_is_its_own_once_that_is_ready(
    harness: DispatcherHarness, is_ready: bool
) -> None:
    harness.database.configure("m")
    async with harness.open() as group:
        harness.database.insert(make_event(1))
        harness.claims.routes.append(Routed(RouteFate.ALONE))
        harness.claims.alone = ["m"] * is_ready
        await harness.rounds(group)
    assert (harness.sent, len(harness.claims.leases_asked)) == (([1], 2) if is_ready else ([], 1))


async def test_nothing_is_routed_while_everything_is_paused(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        harness.database.insert(make_event(1))
        harness.claims.route_gate = asyncio.Event()
        harness.claims.routes.append(Routed(RouteFate.KEPT, 1, reached=1, is_cut=True))
        await harness.dispatcher.step(group)
        await quiet()
        harness.instruments.pause.set(True)
        harness.claims.route_gate.set()
        await harness.rounds(group)
        assert (len(harness.claims.route_asks), harness.dispatcher.lanes_leased) == (1, 0)
        harness.instruments.pause.set(False)
        await harness.rounds(group)
    assert len(harness.claims.route_asks) == 2


async def test_an_endpoint_that_is_gone_fails_what_waits_for_it_even_if_dated_ahead(
    harness: DispatcherHarness,
) -> None:
    del harness.database.endpoints[M2], harness.database.endpoints[M1]
    async with harness.open() as group:
        ahead = NOW + timedelta(days=1)
        harness.database.insert(make_event(1, M2, created_at=ahead), make_event(2, M1, created_at=ahead))
        await harness.rounds(group)
    assert harness.database.finished[1].reason is FailedReason.NOT_CONFIGURED
    assert 2 in harness.database.owed, "it may be set anew"


async def test_a_merchants_further_lanes_take_no_slot_that_somebody_else_waits_for() -> None:
    harness = DispatcherHarness(max_lanes=8)
    harness.sender.gate = asyncio.Event()
    lanes = [lane_named("m", number) for number in range(1, 10)]
    others = ["a", "b", "c"]
    async with harness.open(*lanes, *others) as group:
        events = [make_event(seq, lane) for seq, lane in enumerate([*lanes, *others], 1)]
        harness.database.insert(*events)
        for _ in range(3):
            await harness.dispatcher.step(group)
            await quiet()
        held = set(harness.dispatcher._sessions)
        assert held >= set(others)
        assert held & set(lanes), "it has those that are left"
        harness.sender.gate.set()
        harness.sender.gate = None
        await harness.rounds(group, 8)
    assert sorted(harness.sent) == [event.seq for event in events]
