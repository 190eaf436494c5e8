"""The loop that suspends and lifts, and how a suspended merchant is tried."""

from datetime import timedelta

import pytest

from tests.unit.builders import INTERVAL, NOW, make_event
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.harnesses.retrier import RetrierHarness
from webhook_dispatcher.dispatch.retries import MAX_TRIALS, TRIAL_WAIT
from webhook_dispatcher.dispatch.suspension import MAX_CHANGED, Suspension
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.ports import Suspended
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.telemetry.metrics import Metrics

AFTER = timedelta(days=5)


def suspension(
    suspensions: "FakeSuspensions", after: timedelta | None = AFTER, metrics: Metrics | None = None
) -> Suspension:
    return Suspension(suspensions, after, INTERVAL, metrics or Metrics("1"))


class FakeSuspensions:
    """What there is to be suspended and lifted, and what was asked."""

    def __init__(self, to_suspend: int = 0, to_lift: int = 0) -> None:
        self.to_suspend, self.to_lift = to_suspend, to_lift
        self.asked: list[object] = []

    async def suspend(self, after: timedelta, interval: timedelta, limit: int) -> list[Suspended]:
        self.asked.append((after, interval))
        return [Suspended(f"m{n}", NOW, is_reported=n > 0) for n in range(min(self.to_suspend, limit))]

    async def lift(self, limit: int) -> list[str]:
        self.asked.append("lift")
        return [f"m{n}" for n in range(min(self.to_lift, limit))]

    async def lift_all(self, limit: int) -> list[str]:
        self.asked.append("lift_all")
        return [f"m{n}" for n in range(min(self.to_lift, limit))]


async def test_a_step_lifts_and_then_suspends() -> None:
    suspensions = FakeSuspensions(2, 1)
    assert not await suspension(suspensions).step()
    assert suspensions.asked == ["lift", (AFTER, INTERVAL)]


async def test_the_notices_that_suspending_writes_are_counted() -> None:
    metrics = Metrics("1")
    await suspension(FakeSuspensions(to_suspend=3), metrics=metrics).step()
    labels = {"type": "endpoint.suspended"}
    assert metrics.registry.get_sample_value("webhook_notices_total", labels) == 2


async def test_without_the_setting_all_are_lifted_and_nobody_is_suspended() -> None:
    suspensions = FakeSuspensions(2, 1)
    assert not await suspension(suspensions, None).step()
    assert suspensions.asked == ["lift_all"]


async def test_what_was_cut_by_the_limit_goes_on_at_once() -> None:
    assert await suspension(FakeSuspensions(MAX_CHANGED + 1, 0)).step()
    assert await suspension(FakeSuspensions(0, MAX_CHANGED)).step()


# First attempts


async def test_a_suspended_lane_has_one_event_tried_and_rests() -> None:
    harness = DispatcherHarness()
    harness.database.lanes["m"].is_suspended = True
    harness.sender.answers += [Answer(500)] * 3
    async with harness.open("m") as group:
        harness.database.insert(*map(make_event, (1, 2, 3)))
        started = harness.database.clock.now
        await harness.rounds(group)
        assert harness.sent == [1]
        assert [ask.max_events for asks in harness.claims.reads for ask in asks] == [1]
        lane = harness.database.lanes["m"]
        assert (lane.is_leased, lane.from_seq) == (False, 1)
        assert lane.wait_until is not None
        assert timedelta() <= lane.wait_until - started - INTERVAL < timedelta(seconds=1)


async def test_a_try_that_does_not_count_is_none_the_less_the_only_one_of_its_interval() -> None:
    harness = DispatcherHarness()
    harness.database.lanes["m"].is_suspended = True
    harness.sender.answers += [Failure(Outcome.CONNECT, "no route", is_ours=True)] * 3
    async with harness.open("m") as group:
        harness.database.insert(make_event(1))
        await harness.rounds(group)
        assert (harness.sent, harness.records.written) == ([1], [])
        assert harness.database.lanes["m"].wait_until is not None


async def test_a_suspended_lane_that_was_not_tried_does_not_rest() -> None:
    harness = DispatcherHarness()
    harness.database.lanes["m"].is_suspended = True
    harness.claims.after_lease = lambda: harness.dispatcher.stop()
    async with harness.open("m") as group:
        harness.database.insert(make_event(1))
        await harness.rounds(group, 1)
    assert (harness.claims.leases_asked, harness.sent) == ([{"m": 1}], [])
    assert harness.database.lanes["m"].wait_until is None


# Retries


async def test_a_suspended_merchants_retry_is_tried_one_at_a_time() -> None:
    harness = RetrierHarness()
    harness.owe(1, 2)
    harness.claims.later = ["m"]  # nothing of it is found to be due
    harness.claims.trials = ["m"]
    assert await harness.round() == 1
    assert harness.sender.event_ids == [1]
    assert await harness.round() == 0


async def test_trials_are_looked_for_once_a_second_and_few_at_a_time() -> None:
    harness = RetrierHarness(most=100)
    harness.claims.trials = [f"m{n}" for n in range(MAX_TRIALS + 1)]
    await harness.round()
    assert (harness.claims.trial_looks, len(harness.claims.trials)) == (1, 1)
    await harness.round()
    assert harness.claims.trial_looks == 1
    harness.clock.advance(TRIAL_WAIT)
    await harness.round()
    assert (harness.claims.trial_looks, harness.claims.trials) == (2, [])


async def test_a_trial_whose_row_is_refused_is_found_out_and_nobody_else_waits() -> None:
    harness = RetrierHarness()
    harness.owe(1, lane="dead")
    harness.claims.later = ["dead"]  # nothing else finds it
    harness.claims.trials = ["dead"]
    harness.database.damaged.add(1)
    assert await harness.round() == 0
    assert list(harness.instruments.blocked.seqs()) == [1]


async def test_a_database_that_is_away_is_told_as_ever() -> None:
    harness = RetrierHarness()
    harness.database.faults["pick_trials"].append(StorageUnavailable("down"))
    with pytest.raises(ExceptionGroup) as told:
        await harness.round()
    assert told.group_contains(StorageUnavailable)
