"""The claim model: three daemons in their surroundings, and what merchants answer.

Everything happens when a step says so. Two things happen at once where a statement is held at a door: it has
taken its snapshot, and others go on until the door is opened.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from tests.integration.claim_model.daemon import (
    ATTEMPT_TIMEOUT,
    ENDS,
    LEASE,
    SLOTS,
    TIMED_OUT,
    ModelDaemon,
    Moment,
    Request,
)
from tests.integration.claim_model.facts import Committed, Facts
from tests.integration.claim_model.surroundings import MERCHANTS, Surroundings
from webhook_dispatcher.domain.errors import LockTaken, StorageError

LANE_DOOR, OUTBOX_DOOR = 1, 2
TURNS = 24
"""Turns of the event loop within which tasks that wait for no reply have come to rest."""

Then = Callable[[], Awaitable[None]]

_IS_HELD = """
SELECT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE application_name = 'gated' AND datname = current_database() AND wait_event_type = 'Lock'
)
"""


class ClaimModel(Surroundings):
    """Daemons that are stepped by hand; one model serves one run after another."""

    daemons: list[ModelDaemon]
    _started = 0

    async def begin(self) -> None:
        """Begin a run with nothing owed, lanes made, and daemons that have just started."""
        for daemon in getattr(self, "daemons", ()):
            await daemon.crash()
        await self._clear()
        self.moment = Moment(datetime.now(UTC).replace(microsecond=0))
        await self._set_clock()
        self.facts = Facts(self.moment)
        self.daemons = [self._start(slot) for slot in range(SLOTS)]
        await asyncio.gather(*(daemon.look() for daemon in self.daemons))
        for merchant in MERCHANTS:
            await self.insert(merchant, 3)

    def _start(self, slot: int) -> ModelDaemon:
        self._started += 1
        name = f"d{slot}.{self._started}"
        pool, facts = self._pools[slot], self.facts
        return ModelDaemon.start(name, self.moment, pool, self._gated, facts.requests, facts.seen)

    # Merchants and time

    async def rest(self) -> None:
        """Let tasks go on until all of them wait, and see that what they began was begun rightly."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        for daemon in self.daemons:
            daemon.group.check()

    def arrive(self) -> None:
        """What is on its way reaches its merchant, where its daemon is not frozen."""
        for request in list(self.facts.requests):
            if not request.has_arrived and request.is_live:
                self.facts.arrive(request)

    def answerable(self, daemon: ModelDaemon | None = None) -> list[Request]:
        return [
            request
            for request in self.facts.requests
            if request.has_arrived
            and not request.has_ended
            and not request.daemon.is_dead
            and daemon in (None, request.daemon)
        ]

    async def answer(self, number: int, kind: int) -> bool:
        """Answer one request; False when there is none."""
        open_ = self.answerable()
        if open_:
            open_[number % len(open_)].end(ENDS[kind])
            await self.rest()
        return bool(open_)

    async def answer_all(self, daemon: ModelDaemon, is_good: bool = True) -> None:
        for request in self.answerable(daemon):
            request.end(ENDS[0] if is_good else ENDS[1])
        await self.rest()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass in which nobody reaches the database; attempts time out."""
        if await self._lapses(seconds):
            self.facts.excuse(await self.tables(), self.daemons)
        until = self.moment.seconds + seconds
        while self.moment.seconds < until:
            self.moment.seconds = min(until, self.moment.seconds + 0.9)
            for daemon in self.daemons:
                if not daemon.is_frozen:
                    daemon.instruments.own_faults.beat()
                    daemon.wake_sessions()
            await self._time_out()
        await self.rest()
        await self._set_clock()

    async def _time_out(self) -> None:
        self.arrive()
        overdue = [
            request
            for request in self.facts.requests
            if request.is_live and self.moment.seconds - request.started_at >= ATTEMPT_TIMEOUT
        ]
        if overdue:
            for request in overdue:
                request.end(TIMED_OUT)
            await self.rest()
            self.arrive()
            self.facts.check(await self.tables(), self.daemons)

    # Daemons

    async def step(self, daemon: ModelDaemon, part: str) -> None:
        """Make one step of one part; it never waits for a lock, and only a reply that was lost fails."""
        if daemon.is_frozen or daemon.is_dead:
            return
        is_lossy = daemon.claims.lost or daemon.records.lost
        try:
            await getattr(daemon, part)()
        except LockTaken:
            assert part == "take_command", f"{part} waited for a lock"
        except StorageError:
            if not is_lossy:
                raise
        daemon.claims.lost = daemon.records.lost = None
        await self.rest()
        self.facts.check(await self.tables(), self.daemons)

    async def serve(self, daemon: ModelDaemon, is_good: bool = True) -> None:
        """Let a daemon do all that it does in a short while."""
        for part in ("sweep", "look", "retry"):
            await self.step(daemon, part)
        self.arrive()
        await self.answer_all(daemon, is_good)
        await self.step(daemon, "record")

    async def serve_out(self, daemon: ModelDaemon) -> None:
        """Let a daemon deliver all that it can have, and give its lanes back."""
        await self.serve(daemon)
        self.arrive()
        while self.answerable(daemon) and not daemon.is_frozen:
            await self.answer_all(daemon)
            self.arrive()
        for _ in range(2):
            await self.step(daemon, "record")

    def living(self, number: int) -> ModelDaemon:
        """Choose a daemon that is not frozen; there always is one."""
        living = [daemon for daemon in self.daemons if not daemon.is_frozen]
        return living[number % len(living)]

    async def crash(self, daemon: ModelDaemon) -> None:
        """A daemon forgets everything, and another one starts in its place."""
        self.facts.excuse(await self.tables(), [daemon])
        await daemon.crash()
        slot = self.daemons.index(daemon)
        self.daemons[slot] = self._start(slot)
        await self.daemons[slot].look()

    async def freeze(self, daemon: ModelDaemon) -> None:
        """A daemon stands still, unless it is the last that works."""
        if sum(not daemon.is_frozen for daemon in self.daemons) > 1:
            self.facts.excuse(await self.tables(), [daemon])
            daemon.is_frozen = True

    async def thaw(self, number: int) -> ModelDaemon | None:
        """One goes on with what it knew: what was on its way is sent, what was answered is read."""
        frozen = [daemon for daemon in self.daemons if daemon.is_frozen]
        if not frozen:
            return None
        daemon = frozen[number % len(frozen)]
        daemon.is_frozen = False
        self.arrive()
        daemon.instruments.own_faults.beat()
        for request in list(self.facts.requests):
            if request.daemon is daemon and request.kept is not None:
                request.end(request.kept)
        await self.rest()
        await self._time_out()
        return daemon

    async def overlap(self, daemon: ModelDaemon, part: str, call: str, door: int, then: Then) -> None:
        """Hold a call of one part at a door while something else happens."""
        (daemon.records if part == "record" else daemon.claims).held = call
        await self._doorkeeper.execute("SELECT pg_advisory_lock($1)", door)
        held = asyncio.ensure_future(self.step(daemon, part))
        try:
            while not held.done() and not await self._doorkeeper.fetchval(_IS_HELD):
                await self._doorkeeper.execute("SELECT pg_sleep(0.001)")
            if not held.done():
                self.facts.seen.notes.add(
                    f"{call} was held at the {'lanes' if door == LANE_DOOR else 'rows'}"
                )
            await then()
        finally:
            await self._doorkeeper.execute("SELECT pg_advisory_unlock($1)", door)
            await held
        daemon.records.held = daemon.claims.held = None

    async def command(self, daemon: ModelDaemon, name: str, number: int, args: str = "{}") -> None:
        """Insert a command and have it taken up."""
        if daemon.is_frozen:
            return
        event: Committed | None = None
        if name in ("retry", "cancel"):
            events = self._settled()
            if not events:
                return
            event = events[number % len(events)]
            event.is_by_hand = True
            event.is_cancelled |= name == "cancel"
        await self.db.execute(
            "INSERT INTO webhook.control (command, merchant_id, event_id, args, requested_by) "
            "VALUES ($1, $2, $3, $4, 'model')",
            name,
            None if event else MERCHANTS[number % len(MERCHANTS)],
            event and event.id,
            args,
        )
        await self.step(daemon, "take_command")

    async def finish(self) -> None:
        """Everybody dies, all locks and leases end, and one new daemon finishes what is owed."""
        await self.unlock()
        while self._open:
            await self.end_insert(0, is_committed=True)
        for daemon in self.daemons:
            await daemon.crash()
        self.facts.excuse(await self.tables(), self.daemons)
        await self.db.execute(
            "UPDATE webhook.lane SET paused = false; UPDATE webhook.state SET paused = false"
        )
        self.daemons = [self._start(0)]
        last = self.daemons[0]
        await self.pass_time(2 * LEASE.total_seconds())
        for _ in range(40):
            await self.serve_out(last)
            if not await self.db.fetchval("SELECT count(*) FROM webhook.outbox"):
                break
            await self.pass_time(1.0)
        self.facts.check_end(await self.tables())
        await last.crash()
