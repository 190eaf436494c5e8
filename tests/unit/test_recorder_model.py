"""Whatever fails, is locked, damaged, refused or robbed: each outcome is written once, or settled as late."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fakes.database import seqs_of
from tests.unit.harnesses.recorder import RecorderHarness
from webhook_dispatcher.dispatch.lane_session import LaneSession, SessionState
from webhook_dispatcher.dispatch.recorder import DAMAGE_WAIT
from webhook_dispatcher.domain.errors import StorageError, StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.record import Record

MERCHANTS = ("a", "b", "c")
DOWN = StorageUnavailable("down")

ACTIONS = st.one_of(
    st.tuples(st.just("session"), st.sampled_from(MERCHANTS), st.integers(1, 5)),
    st.tuples(st.just("attempt"), st.sampled_from(MERCHANTS), st.sampled_from([1, 1, 1, 0])),
    st.tuples(st.just("attempt"), st.sampled_from(MERCHANTS), st.sampled_from([1, 1, 1, 0])),
    st.tuples(st.just("end"), st.sampled_from(MERCHANTS), st.just(0)),
    st.tuples(st.just("rob"), st.sampled_from(MERCHANTS), st.just(0)),
    st.tuples(st.just("lock_lane"), st.sampled_from(MERCHANTS), st.just(0)),
    st.tuples(st.just("retry"), st.just(""), st.integers(0, 1)),
    st.tuples(st.just("lapse"), st.just(""), st.integers(0, 20)),
    st.tuples(st.just("lock"), st.just(""), st.integers(0, 20)),
    st.tuples(st.just("refuse"), st.just(""), st.integers(0, 20)),
    st.tuples(st.just("damage"), st.just(""), st.integers(0, 20)),
    st.tuples(st.just("unlock"), st.just(""), st.just(0)),
    st.tuples(st.just("fail"), st.sampled_from(["write", "read_unwritten", "write_late"]), st.integers(0, 2)),
    st.tuples(st.just("lose_answer"), st.just(""), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.just(""), st.integers(1, 50)),
    st.tuples(st.just("step"), st.just(""), st.just(0)),
    st.tuples(st.just("step"), st.just(""), st.just(0)),
)


class Model:
    """A recorder, those who hand it records, and everything that can go wrong."""

    def __init__(self) -> None:
        self.recording = RecorderHarness()
        self.database = self.recording.database
        self.sessions: dict[str, LaneSession] = {}
        self.opened: list[LaneSession] = []
        self.handed_in: list[Record] = []
        self.next_number = 1

    def closed(self, session: LaneSession) -> None:
        """Check what must hold when a lane is given back."""
        assert session.unwritten == 0, "given back before its last outcome"
        assert session.state is SessionState.OVER
        assert self.sessions.pop(session.lease.lane) is session, "closed twice"

    def act(self, action: str, merchant_id: str, number: int) -> None:
        getattr(self, f"do_{action}")(merchant_id, number)

    def do_session(self, merchant_id: str, count: int) -> None:
        if merchant_id not in self.sessions:
            seqs = range(self.next_number, self.next_number + count)
            self.next_number += count
            self.sessions[merchant_id] = self.recording.session(merchant_id, *seqs)
            self.opened.append(self.sessions[merchant_id])

    def do_attempt(self, merchant_id: str, is_delivered: int) -> None:
        session = self.sessions.get(merchant_id)
        if session is not None and session.run:
            state = State.DELIVERED if is_delivered else None
            self.handed_in.append(self.recording.attempt(session, state))

    def do_end(self, merchant_id: str, _: int) -> None:
        session = self.sessions.get(merchant_id)
        if session is not None and session.state < SessionState.OVER:
            self.recording.end(session)

    def do_rob(self, merchant_id: str, _: int) -> None:
        self.database.lease(merchant_id)

    def do_lock_lane(self, merchant_id: str, _: int) -> None:
        self.database.lanes[merchant_id].is_locked = True

    def do_retry(self, _: str, is_delivered: int) -> None:
        state = State.DELIVERED if is_delivered else None
        self.handed_in.append(self.recording.retry(self.next_number, claim=self.next_number, state=state))
        self.next_number += 1

    def do_lapse(self, _: str, number: int) -> None:
        claimed = [row for row in self.database.owed.values() if row.claim is not None]
        if claimed:
            claimed[number % len(claimed)].claim = -1

    def do_lock(self, _: str, number: int) -> None:
        if rows := list(self.database.owed.values()):
            rows[number % len(rows)].is_locked = True

    def do_refuse(self, _: str, number: int) -> None:
        self.recording.records.refused.add(number)

    def do_damage(self, _: str, number: int) -> None:
        if seqs := list(self.database.owed):
            self.database.damaged.add(seqs[number % len(seqs)])

    def do_unlock(self, _: str, __: int) -> None:
        self.database.damaged.clear()
        for row in self.database.owed.values():
            row.is_locked = False
        for lane in self.database.lanes.values():
            lane.is_locked = False

    def do_fail(self, method: str, after: int) -> None:
        self.database.faults[method].extend([*[None] * after, DOWN])

    def do_lose_answer(self, _: str, after: int) -> None:
        self.recording.records.loses_answers.extend([*[False] * after, True])

    def do_wait(self, _: str, milliseconds: int) -> None:
        self.recording.clock.advance(milliseconds / 1000)

    def do_step(self, _: str, __: int) -> None:
        before, closed = len(self.recording.records.statements), len(self.recording.closed)
        try:
            self.recording.step()
        except StorageError:
            assert len(self.recording.records.statements) > before
        assert self.recording.recorder._writing == []
        for session in self.recording.closed[closed:]:
            self.closed(session)

    def finish(self) -> None:
        """Let everything work again, and write what is left."""
        self.do_unlock("", 0)
        self.database.faults.clear()
        self.recording.records.loses_answers.clear()
        for merchant_id in MERCHANTS:
            self.do_end(merchant_id, 0)
        self.recording.clock.advance(DAMAGE_WAIT)
        self.recording.settle()


@settings(max_examples=120)
@given(st.lists(ACTIONS, max_size=60))
def test_every_outcome_is_written_once_or_settled_as_late(actions: list[tuple[str, str, int]]) -> None:
    model = Model()
    for action in actions:
        model.act(*action)
    model.finish()
    records = model.recording.records
    assert max(Counter(seqs_of(records.written)).values(), default=1) == 1
    settled = set(seqs_of(records.written)) | set(seqs_of(records.late))
    assert settled == set(seqs_of(model.handed_in))
    for record in records.written:
        [original] = [one for one in model.handed_in if one.event.seq == record.event.seq]
        is_plainer = record.attempt is None or record.reason is FailedReason.UNSENDABLE
        assert record == original or (is_plainer and record.event.seq in records.refused)
    assert set(model.recording.closed) == set(model.opened)
    assert (len(model.recording.closed), model.recording.memory.used) == (len(model.opened), 0)
    for session in model.opened:
        assert not session.unfinished
        assert session.unblocked is None


@settings(max_examples=80)
@given(st.lists(ACTIONS, max_size=60))
def test_a_lane_is_free_only_when_nothing_of_its_session_waits(actions: list[tuple[str, str, int]]) -> None:
    model = Model()
    for action in actions:
        model.act(*action)
        for merchant_id, lane in model.database.lanes.items():
            session = model.sessions.get(merchant_id)
            holds = session is not None and session.lease.epoch == lane.epoch
            if holds and not lane.is_leased:
                assert session is not None
                assert session.state >= SessionState.OVER
                unsettled = {seq for seq in session.unfinished if seq in model.database.owed}
                assert not {seq for seq in unsettled if model.database.owed[seq].is_in_order}
