"""Following a session whose order is kept by charge: several at once, each charge in order."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.unit.builders import NOW, SECRET, make_endpoint, make_event
from tests.unit.loop_turns import quiet, until
from tests.unit.test_charges import of_charge
from tests.unit.test_worker import ENDS, EVERYTHING, WorkerHarness, _Attempter, open_circuit
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch import worker as worker_module
from webhook_dispatcher.dispatch.health.lanes import SLOW
from webhook_dispatcher.dispatch.lane_session import EXTENSION, SessionState
from webhook_dispatcher.dispatch.worker import RUN
from webhook_dispatcher.domain.claim import RunAsk
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.signing import Secret


class _Answers(_Attempter):
    """Attempts that end when their event's answer comes; None: it does not count."""

    harness: "Harness"

    async def attempt(
        self,
        event: Event,
        fence: int,
        is_retry: bool,
        endpoint: Endpoint,
        secrets: tuple[Secret, ...],
        may_send: Callable[[], bool],
    ) -> Record | None:
        assert may_send()
        self.harness.started.append(event.seq)
        if not await self.harness.answers[event.seq]:
            return None
        return Record(event, fence, is_retry, None, State.DELIVERED, None, None, NOW)


class Harness(WorkerHarness):
    """A worker, and a session with a run of events, each with its charge."""

    def __init__(self, charges: str, at_once: int = 3) -> None:
        super().__init__()
        self.at_once = at_once
        self.answers: defaultdict[int, asyncio.Future[bool]] = defaultdict(asyncio.Future)
        attempter = self.worker._attempter
        attempter.__class__ = _Answers
        self.take_in(charges)

    def take_in(self, charges: str, first: int = 1) -> None:
        events = [of_charge(seq, charge) for seq, charge in enumerate(charges, start=first)]
        self.session.take_in(events, EVERYTHING, stable=1000)

    def read_on_by_charge(self, charges: str, first: int, is_cut: bool = False) -> None:
        """Answer what was asked for."""
        assert self.session.fetch is not None
        self.session.ask(1000, 10**6)
        events = [of_charge(seq, charge) for seq, charge in enumerate(charges, start=first)]
        ask = RunAsk("m", 0, len(events) if is_cut else 1000, 10**6, NOW)
        self.session.take_in(events, ask, stable=10_000)
        self.session.fetched()

    def reply(self, *seqs: int, counts: bool = True) -> None:
        for seq in seqs:
            self.answers[seq].set_result(counts)

    async def now_started(self) -> list[int]:
        await quiet()
        return self.started

    async def follow(self) -> None:
        endpoint = replace(make_endpoint(), types=self.types, at_once=self.at_once)
        await self.worker.work_through(self.session, endpoint, (SECRET,))

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work meanwhile; at the end whatever is started is answered."""
        async with self.following() as task:
            yield
            while not task.done():
                for seq in set(self.started):
                    if not self.answers[seq].done():
                        self.reply(seq)
                await quiet()
        assert self.session.state is SessionState.OVER
        assert not self.worker.extra

    @property
    def recorded(self) -> list[int]:
        return [record.event.seq for record in self.records]


async def test_the_first_of_each_charge_starts_and_its_next_when_it_has_been_handed_over() -> None:
    harness = Harness("aabbc", at_once=2)
    async with harness.working():
        assert await harness.now_started() == [1, 3]
        assert harness.worker.extra == {"m": 1}
        harness.reply(3)
        assert await harness.now_started() == [1, 3, 4]
        assert harness.recorded == [3]
        harness.reply(4)
        assert await harness.now_started() == [1, 3, 4, 5]
        harness.reply(1)
        assert await harness.now_started() == [1, 3, 4, 5, 2]
    assert sorted(harness.recorded) == [1, 2, 3, 4, 5]
    assert {record.fence for record in harness.records} == {3}


async def test_from_seq_stays_below_the_lowest_that_is_not_written_whoever_ends_first() -> None:
    harness = Harness("abc")
    async with harness.working():
        await harness.now_started()
        harness.reply(2, 3)
        await quiet()
        assert harness.session.turn([2, 3]).reach == 0
        assert not harness.session.turn([2, 3]).is_over
        harness.reply(1)
        await quiet()
        assert harness.session.turn([1]).reach == 1
        assert harness.session.turn([1, 2, 3]).reach == 1000


@pytest.mark.parametrize("end", [end for name, end in ENDS.items() if name != "time out"])
async def test_nothing_starts_after_the_end_which_waits_for_all_that_are_under_way(
    end: Callable[[WorkerHarness], object],
) -> None:
    harness = Harness("abab", at_once=2)
    async with harness.following() as task:
        assert await harness.now_started() == [1, 2]
        end(harness)
        harness.reply(1)
        await quiet()
        assert (harness.started, task.done(), harness.session.state < SessionState.OVER) == (
            [1, 2],
            False,
            True,
        )
        harness.reply(2)
    assert (harness.started, harness.recorded, harness.session.has_more) == ([1, 2], [1, 2], True)
    assert harness.session.turn([1, 2]).reach == 2


async def test_one_whose_attempt_did_not_count_ends_the_session_and_is_owed_before_its_charges_others() -> (
    None
):
    harness = Harness("aba", at_once=2)
    async with harness.working():
        await harness.now_started()
        harness.reply(1, counts=False)
        await quiet()
        assert (harness.started, harness.session.state) == ([1, 2], SessionState.ENDING)
    assert (harness.recorded, harness.session.turn([2]).reach) == ([2], 0)


async def test_past_its_end_it_goes_on_while_an_attempt_is_slow_and_ends_in_time() -> None:
    harness = Harness("abcabcbcbb", at_once=3)
    session, clock = harness.session, harness.clock
    async with harness.working():
        assert await harness.now_started() == [1, 2, 3]
        clock.advance(session.expires_at - clock.elapsed() - SLOW / 2)
        harness.reply(2)
        assert await harness.now_started() == [1, 2, 3, 5]
        clock.advance(SLOW)
        harness.reply(3)
        assert await harness.now_started() == [1, 2, 3, 5, 6], "the first is slow by now"
        session.renew(clock.elapsed() + 2 * EXTENSION)
        clock.advance(EXTENSION)
        harness.reply(5, 6)
        assert await harness.now_started() == [1, 2, 3, 5, 6]
    assert harness.session.has_more


async def test_past_its_end_it_waits_for_quick_attempts_alone_and_looks_when_one_becomes_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float | None] = []
    woken = asyncio.Event()

    async def sleep(seconds: float | None, wake: asyncio.Event) -> None:
        waits.append(seconds)
        waiting = [asyncio.ensure_future(each.wait()) for each in (wake, woken)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
        woken.clear()

    monkeypatch.setattr(worker_module, "sleep", sleep)
    harness = Harness("ab", at_once=2)
    session, clock = harness.session, harness.clock
    async with harness.working():
        clock.advance(session.expires_at - clock.elapsed() - 0.25)
        assert await harness.now_started() == [1, 2]
        clock.advance(0.25)
        session.take_in([of_charge(3, "c")], EVERYTHING, stable=1000)
        harness.reply(2)
        assert await harness.now_started() == [1, 2]
        assert waits == [SLOW, SLOW - 0.25]
        clock.advance(SLOW)
        woken.set()
        assert await harness.now_started() == [1, 2, 3]


async def test_one_that_is_slow_takes_no_place() -> None:
    harness = Harness("abcd", at_once=2)
    async with harness.working():
        assert await harness.now_started() == [1, 2]
        harness.clock.advance(SLOW)
        assert harness.session.charges is not None
        harness.session.charges.changed.set()
        assert await harness.now_started() == [1, 2, 3]


async def test_what_is_noticed_while_another_charge_hangs_is_read_and_started() -> None:
    harness = Harness("a")
    async with harness.working():
        assert await harness.now_started() == [1]
        harness.session.notice(2000)
        await until(lambda: harness.asked)
        harness.read_on_by_charge("b", first=2000)
        assert await harness.now_started() == [1, 2000]


async def test_it_reads_on_while_all_that_was_read_is_of_a_charge_that_hangs_within_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webhook_dispatcher.dispatch.lane_session.MAX_EVENTS", 3 * RUN)
    harness = Harness("a" * RUN)
    harness.session.has_more = True
    async with harness.working():
        for more in range(1, 4):
            await until(lambda: harness.session.fetch)
            harness.read_on_by_charge("a" * RUN, first=more * RUN + 1, is_cut=True)
        await quiet()
        assert (harness.asked, harness.started) == (3, [1]), "there are enough in memory"
        harness.session.recall()


def miss(harness: Harness) -> None:
    harness.session.missed_read()
    harness.session.fetched()


def reach_a_damaged_row(harness: Harness) -> None:
    """Bring nothing but what is under way, and more is owed."""
    harness.read_on_by_charge("a", first=1, is_cut=True)


@pytest.mark.parametrize("read_in_vain", [miss, reach_a_damaged_row])
async def test_a_read_in_vain_is_tried_again_when_something_has_ended_or_after_a_while(
    monkeypatch: pytest.MonkeyPatch, read_in_vain: Callable[[Harness], None]
) -> None:
    monkeypatch.setattr(worker_module, "READ_AGAIN", 1000.0)
    harness = Harness("ab")
    harness.session.has_more = True
    async with harness.working():
        await until(lambda: harness.asked == 1)
        read_in_vain(harness)
        await quiet()
        assert harness.asked == 1
        monkeypatch.setattr(worker_module, "READ_AGAIN", 0.0)
        harness.reply(2)
        await until(lambda: harness.asked == 2)
        read_in_vain(harness)
        await until(lambda: harness.asked == 3)
        harness.read_on_by_charge("", first=9)


async def test_a_probe_and_a_trial_of_a_suspended_merchant_are_one_attempt() -> None:
    probe = Harness("ab")
    probe.session.is_probe = True
    open_circuit(probe)
    trial = Harness("ab")
    trial.session.lease = replace(trial.session.lease, is_suspended=True)
    for harness in (probe, trial):
        async with harness.working():
            assert await harness.now_started() == [1]
        assert (harness.started, harness.session.has_more) == ([1], True)
    assert trial.session.wait_until is not None


async def test_what_is_not_wanted_is_passed_over_in_its_turn_and_written_before_anything_starts() -> None:
    harness = Harness("")
    harness.types = frozenset({"charge.created"})
    kinds = {1: "charge.created", 2: "charge.failed", 3: "charge.failed", 4: "charge.created"}
    events = [
        of_charge(seq, "ab"[seq % 2])._replace(type=kinds.get(seq, "charge.created")) for seq in range(1, 6)
    ]
    harness.session.take_in(events, EVERYTHING, stable=1000)
    async with harness.working():
        assert await harness.now_started() == [1]
        assert harness.recorded == [2], "of the other charge; the third waits for the first"
        harness.session.settle_outcome(events[1])
        assert await harness.now_started() == [1, 4]
        harness.reply(1)
        assert await harness.now_started() == [1, 4]
        assert harness.recorded == [2, 1, 3]
        for event in (events[0], events[2]):
            harness.session.settle_outcome(event)
        assert await harness.now_started() == [1, 4, 5]


async def test_more_than_one_are_under_way_only_while_there_are_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_module, "PLACE_AGAIN", 0.0)
    harness = Harness("abc")
    free = False
    harness.worker._may_add = lambda lane: free
    async with harness.working():
        assert await harness.now_started() == [1]
        harness.reply(1)
        assert await harness.now_started() == [1, 2]
        free = True
        await until(lambda: harness.started == [1, 2, 3])


async def test_a_locked_outcome_keeps_all_charges_waiting_until_it_is_written() -> None:
    harness = Harness("abc", at_once=2)
    async with harness.working():
        await harness.now_started()
        harness.reply(1)
        harness.session.block()
        await quiet()
        assert harness.started == [1, 2]
        harness.session.settle_outcome(make_event(1))
        assert await harness.now_started() == [1, 2, 3]


async def test_whoever_is_cut_short_leaves_its_event_owed() -> None:
    harness = Harness("ab")
    task = asyncio.create_task(harness.follow())
    await harness.now_started()
    harness.reply(2)
    await quiet()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(MAX_WAIT):
            await task
    harness.session.end()
    assert harness.session.turn([2]).reach == 0
    assert not harness.worker.extra
