"""A session by charge and the statements: outcomes in any order, and what happens in the midst of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest

from tests.integration.storage_harness import LAPSED, LEASE, Daemon, StorageHarness, answered, seqs
from webhook_dispatcher.dispatch.lane_session import LaneSession, MemoryBudget
from webhook_dispatcher.domain.claim import RunAsk
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.record import Record, Written

BY_CHARGE = "UPDATE webhook.endpoint SET at_once = 8"
A1, B1, C1, A2 = range(4)


@dataclass(slots=True)
class Holder:
    """A daemon with a session of the lane, whose attempts are under way."""

    storage: StorageHarness
    daemon: Daemon
    session: LaneSession
    run: Sequence[Event]

    @classmethod
    async def claim(cls, storage: StorageHarness, name: str, lease: timedelta = LEASE) -> "Holder":
        """Take the lane and start whatever may be started at once."""
        daemon = await storage.daemon(name)
        [held] = await daemon.lease("m", lease=lease)
        run = await daemon.read("m", after=held.from_seq)
        session = LaneSession(held, MemoryBudget(), 1e9, 1e9, complete_up_to=held.from_seq)
        ask = RunAsk("m", held.from_seq, 1000, 10**9, held.server_started_at)
        session.take_in(run, ask, stable=run[-1].seq if run else 0)
        holder = cls(storage, daemon, session, run)
        session.work_by_charge(8)
        holder.start()
        return holder

    def start(self) -> None:
        charges = self.session.charges
        assert charges is not None
        while (place := charges.place_of_next(self.session.run, 0.0)) is not None:
            charges.start(self.session.start(place), 0.0)

    async def outcome(self, which: int, status: int | None = 200) -> Record:
        """Let one of its attempts end."""
        assert self.session.charges is not None
        event = self.run[which]
        self.session.charges.end(event)
        self.session.add_outcome()
        return answered(event, self.session.lease.epoch, await self.storage.now(), status)

    async def write(self, *records: Record, lease: timedelta = LEASE) -> Written:
        turn = self.session.turn([record.event.seq for record in records])
        written = await self.daemon.records.write(records, [turn], lease)
        for record in records:
            if record.event.seq in written.seqs:
                self.session.settle_outcome(record.event)
        return written


async def four(storage: StorageHarness) -> list[int]:
    """Write two events of one charge, and one of each of two others in between."""
    await storage.configure("m")
    await storage.db.execute(BY_CHARGE)
    return await storage.insert("m", *(f'{{"id":"{charge}"}}' for charge in "abca"))


async def from_seq(storage: StorageHarness) -> int:
    return int((await storage.lane("m"))["from_seq"])


async def test_a_successor_reads_what_was_not_written_and_nothing_else(storage: StorageHarness) -> None:
    numbers = await four(storage)
    dying = await Holder.claim(storage, "dying", lease=LAPSED)
    assert [event.seq for event in dying.session.run] == [numbers[A2]]
    written = await dying.write(await dying.outcome(C1), await dying.outcome(B1), lease=LAPSED)
    assert written.seqs == {numbers[B1], numbers[C1]}
    assert written.kept == ("m",)
    assert await from_seq(storage) < numbers[A1]
    successor = await Holder.claim(storage, "successor")
    assert seqs(successor.run) == [numbers[A1], numbers[A2]]
    assert seqs(list(successor.session.run)) == [numbers[A2]], "its charge's first comes first"
    # The one that had the lane before learns late how its own attempt went: it counts, and writes no lane.
    late = await dying.outcome(A1)
    refused = await dying.write(late)
    assert (refused.seqs, refused.lost) == (frozenset(), ("m",))
    assert await dying.daemon.records.read_unwritten([late]) == frozenset()
    assert await dying.daemon.records.write_late(late)
    again = await successor.outcome(0)
    assert (await successor.write(again)).seqs == frozenset()
    assert await successor.daemon.records.read_unwritten([again]) == frozenset()
    successor.session.settle_outcome(again.event)
    successor.start()
    assert not successor.session.run
    assert (await successor.write(await successor.outcome(1))).seqs == {numbers[A2]}
    logged = [await storage.logged(seq) for seq in numbers]
    assert [row and row["state"] for row in logged] == ["delivered"] * 4


async def test_a_batch_whose_commit_was_lost_changes_nothing_when_it_is_written_again(
    storage: StorageHarness,
) -> None:
    numbers = await four(storage)
    holder = await Holder.claim(storage, "here")
    records = [await holder.outcome(B1), await holder.outcome(C1, status=500)]
    turn = holder.session.turn([record.event.seq for record in records])
    assert len((await holder.daemon.records.write(records, [turn], LEASE)).seqs) == 2
    before, reached = await storage.everything(), await from_seq(storage)
    assert (await holder.write(*records)).seqs == frozenset()
    assert await holder.daemon.records.read_unwritten(records) == frozenset()
    assert all([await holder.daemon.records.write_late(record) for record in records])
    assert (await storage.everything(), await from_seq(storage)) == (before, reached)
    assert reached < numbers[A1]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE webhook.endpoint SET at_once = NULL",
        "UPDATE webhook.endpoint SET at_once = 2",
        "DELETE FROM webhook.endpoint",
        "UPDATE webhook.lane SET paused = true, recalled = true",
        "UPDATE webhook.lane SET suspended_at = clock_timestamp(), recalled = true",
    ],
)
async def test_what_is_changed_while_several_are_under_way_waits_for_all_of_them_and_loses_nothing(
    storage: StorageHarness, change: str
) -> None:
    numbers = await four(storage)
    holder = await Holder.claim(storage, "here")
    await storage.db.execute(change)
    first = await holder.write(await holder.outcome(B1))
    assert (first.recalled, first.released) == (("m",), ())
    holder.session.recall()
    second = await holder.write(await holder.outcome(A1), await holder.outcome(C1, status=None))
    assert second.seqs == {numbers[A1], numbers[C1]}
    assert second.released == ()
    holder.session.end()
    assert (await holder.write()).released == ("m",)
    await storage.db.execute("UPDATE webhook.lane SET paused = false, suspended_at = NULL")
    next_one = await Holder.claim(storage, "next")
    assert seqs(next_one.run) == [numbers[A2]]


async def test_a_retry_that_waits_holds_back_nothing_not_even_of_its_own_charge(
    storage: StorageHarness,
) -> None:
    numbers = await four(storage)
    holder = await Holder.claim(storage, "here")
    await holder.write(await holder.outcome(A1, status=500))
    owed = await storage.owed(numbers[A1])
    assert owed is not None
    assert owed["due_at"] is not None
    assert await from_seq(storage) == numbers[A1]
    holder.start()
    assert not holder.session.run
    await holder.write(*[await holder.outcome(which) for which in (A2, B1, C1)])
    assert await from_seq(storage) == numbers[A2]
    await storage.db.execute("UPDATE webhook.outbox SET due_at = clock_timestamp()")
    await storage.db.execute("UPDATE webhook.lane SET retry_at = clock_timestamp()")
    [retry] = await holder.daemon.claims.claim_longest_due(1, 2, 10, LEASE)
    assert retry.event.seq == numbers[A1]
