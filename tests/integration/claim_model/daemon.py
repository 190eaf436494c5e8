"""One daemon of the claim model: the product's own parts, stepped by hand instead of by their loops.

What is modelled is what runs: Dispatcher, Recorder, Retrier and Controller with their tasks, on real
connections. Only time, the network and the order of steps belong to the model. A call can be held at a door
under the snapshot it has taken, and its reply can get lost.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import asyncpg

from webhook_dispatcher.dispatch.attempt import Attempter, Hold
from webhook_dispatcher.dispatch.control.controller import Controller
from webhook_dispatcher.dispatch.control.long_running import LongRunningCommands
from webhook_dispatcher.dispatch.control.postponed import Postponed
from webhook_dispatcher.dispatch.control.recalls import obey_recalls
from webhook_dispatcher.dispatch.dispatcher import Dispatcher, Limits
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane_session import LaneSession, SessionState
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.retries import Retrier, RetryLimits
from webhook_dispatcher.domain.command import Queue
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.ports import Claims, Records
from webhook_dispatcher.domain.record import Record, Written
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.signing import Keyring
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome, may_always
from webhook_dispatcher.storage.claims import PostgresClaims
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.storage.records import PostgresRecords
from webhook_dispatcher.telemetry.metrics import Metrics
from webhook_dispatcher.transport.guard import EgressPolicy, Guard

LEASE = timedelta(seconds=30)
ATTEMPT_TIMEOUT = 10.0
TRUST = 19.0
PLACES = 2
SLOTS = 3
KEYRING = Keyring({"k1": b"k" * 32})
SCHEDULE = Schedule(tuple(timedelta(seconds=seconds) for seconds in (0.5, 0.5, 1, 1, 2, 2, 3)))


@dataclass(slots=True)
class Moment:
    """The one clock of daemons and database; it moves when the model says so."""

    start: datetime
    seconds: float = 0.0

    def elapsed(self) -> float:
        return self.seconds

    def unix(self) -> float:
        return self.start.timestamp() + self.seconds

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.unix(), UTC)


@dataclass(slots=True, eq=False)
class Request:
    """One POST. It is on its way until it arrives, and in flight until its daemon knows how it ended.

    is_excused: its daemon died or froze, or a lease ended, before its outcome was recorded; then it may be
        repeated.
    """

    daemon: "ModelDaemon"
    event: Event
    fence: int
    is_retry: bool
    started_at: float
    future: asyncio.Future[Answer | Failure]
    is_new: bool = True
    has_arrived: bool = False
    has_ended: bool = False
    is_excused: bool = False
    kept: Answer | Failure | None = None

    @property
    def number(self) -> int:
        return self.event.attempts + 1

    @property
    def is_live(self) -> bool:
        """Tell whether its daemon is at work on it."""
        return not self.has_ended and not self.daemon.is_dead and not self.daemon.is_frozen

    def end(self, seen: Answer | Failure) -> None:
        """Let its daemon know; a frozen one when it goes on."""
        if self.daemon.is_frozen:
            self.kept = self.kept or seen
        elif not self.has_ended:
            self.has_ended = True
            self.future.set_result(seen)


@dataclass(slots=True)
class Seen:
    """What calls brought about: which events were told to be written as delivered, and how far a run went."""

    successes: set[int] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)


class _Call:
    """Claims or records, with a door and a way to lose a reply for one call at a time."""

    def __init__(self, plain: object, gated: object, seen: Seen) -> None:
        self._plain, self._gated, self._seen = plain, gated, seen
        self.held: str | None = None
        self.lost: str | None = None

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: object) -> object:
            is_held, self.held = self.held == name, None if self.held == name else self.held
            answer = await getattr(self._gated if is_held else self._plain, name)(*arguments)
            self._note(name, arguments, answer)
            if self.lost == name:
                self.lost = None
                self._seen.notes.add(f"the reply to {name} was lost")
                raise StorageUnavailable("the reply was lost")
            return answer

        return call

    def _note(self, name: str, arguments: tuple[object, ...], answer: object) -> None:
        """Remember what a run has come to."""
        if isinstance(answer, Written):
            records = cast(Sequence[Record], arguments[0])
            left = [record for record in records if record.event.seq not in answer.seqs]
            self._seen.successes |= answer.seqs & {
                record.event.seq for record in records if record.state is State.DELIVERED
            }
            if answer.lost:
                self._seen.notes.add("a lane was lost")
            if left and answer.recalled:
                self._seen.notes.add("an outcome of a recalled lane was left out")
            for record in left:
                self._seen.notes.add(f"an outcome of a {'retry' if record.is_retry else 'lane'} was left out")
        elif name == "read_unwritten" and answer:
            self._seen.notes.add("an outcome was locked out")
        elif name == "write_late":
            record = cast(Record, arguments[0])
            self._seen.notes.add(f"a late {'success' if record.state is State.DELIVERED else 'failure'} came")
            if not answer:
                self._seen.notes.add("a late success was locked out")
            elif record.state is State.DELIVERED:
                self._seen.successes.add(record.event.seq)
        elif name == "read_gaps" and answer:
            self._seen.notes.add("a gap was filled")


class _Tasks(asyncio.TaskGroup):
    """Takes tasks without being entered: a crash cuts them all off."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: set[asyncio.Task[Any]] = set()

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coro, **options)
        self.tasks.add(task)
        return task

    def check(self) -> None:
        for task in [task for task in self.tasks if task.done()]:
            self.tasks.discard(task)
            task.result()


@dataclass(slots=True)
class _Sender:
    """Hands requests to the model."""

    requests: list[Request]
    next: tuple["ModelDaemon", Event, int, bool] | None = None

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, may_send: Callable[[], bool] = may_always
    ) -> Answer | Failure:
        assert self.next is not None
        daemon, event, fence, is_retry = self.next
        future: asyncio.Future[Answer | Failure] = asyncio.get_running_loop().create_future()
        elapsed = daemon.moment.elapsed()
        self.requests.append(Request(daemon, event, fence, is_retry, elapsed, future))
        return await future


class _Attempter(Attempter):
    """Tells the sender which claim an attempt is made under."""

    daemon: "ModelDaemon"
    sender: _Sender

    async def attempt(self, event: Event, fence: int, is_retry: bool, *others: Any) -> Record | None:
        self.sender.next = (self.daemon, event, fence, is_retry)  # nothing is awaited until it is read
        return await super().attempt(event, fence, is_retry, *others)


@dataclass(slots=True, eq=False)
class ModelDaemon:
    """A daemon that makes a step when it is told to."""

    name: str
    moment: Moment
    claims: _Call
    records: _Call
    dispatcher: Dispatcher
    recorder: Recorder
    retrier: Retrier
    controllers: list[Controller]
    instruments: Instruments
    group: _Tasks = field(default_factory=_Tasks)
    is_frozen: bool = False
    is_dead: bool = False

    @classmethod
    def start(
        cls,
        name: str,
        moment: Moment,
        pool: asyncpg.Pool,
        gated: asyncpg.Pool,
        requests: list[Request],
        seen: Seen,
    ) -> "ModelDaemon":
        """Put the parts together as the composition root does."""
        claims = _Call(PostgresClaims(pool, name), PostgresClaims(gated, name), seen)
        records = _Call(PostgresRecords(pool), PostgresRecords(gated), seen)
        controls, stop = PostgresControls(pool), Stop()
        ports, instruments = cast(Claims, claims), Instruments.of(moment, Metrics("model"))
        recorder = Recorder(cast(Records, records), instruments, LEASE, TRUST)
        sender = _Sender(requests)
        attempter = _Attempter(sender, KEYRING, SCHEDULE, instruments)
        hold = Hold(timedelta(days=1))
        limits = Limits(10, LEASE, TRUST, timedelta(milliseconds=25), hold, timedelta(hours=1))
        dispatcher = Dispatcher(ports, recorder, attempter, instruments, limits)
        retry_limits = RetryLimits(10, PLACES, LEASE, TRUST, hold, timedelta(hours=1))
        retrier = Retrier(ports, recorder, attempter, instruments, retry_limits, stop)
        long_running = LongRunningCommands(
            controls, ports, attempter, recorder, instruments, timedelta(seconds=10), stop
        )
        guard, postponed = Guard(EgressPolicy()), Postponed(moment)
        controllers = [
            Controller(queue, controls, long_running, guard, instruments, postponed, stop) for queue in Queue
        ]
        daemon = cls(name, moment, claims, records, dispatcher, recorder, retrier, controllers, instruments)
        attempter.daemon, attempter.sender = daemon, sender
        return daemon

    def sessions(self) -> list[LaneSession]:
        """Return its sessions that are trusted still: the lease is theirs."""
        now = self.moment.elapsed()
        return [
            session
            for session in self.dispatcher._sessions.values()
            if session.state < SessionState.OVER and not session.is_lost and session.trusted_until > now
        ]

    def wake_sessions(self) -> None:
        """Let sessions by charge look at the time, which passes here without their timers."""
        for session in self.dispatcher._sessions.values():
            if session.charges is not None:
                session.charges.changed.set()

    async def look(self) -> None:
        await self.dispatcher.step(self.group)

    async def sweep(self) -> None:
        for probe in await self.claims.sweep("", 100):
            self.dispatcher.notice_swept(probe)

    async def retry(self) -> None:
        await self.retrier.step(self.group)

    async def record(self) -> None:
        self.dispatcher.close(await self.recorder.step())

    async def heed(self) -> None:
        """Look once for what is recalled."""
        await obey_recalls(cast(Claims, self.claims), self.dispatcher, self.instruments.pause)

    async def take_command(self) -> None:
        for controller in self.controllers:
            await controller.step(self.group)

    async def crash(self) -> None:
        """Forget everything."""
        self.is_dead = True
        for task in self.group.tasks:
            task.cancel()
        await asyncio.gather(*self.group.tasks, return_exceptions=True)


TIMED_OUT = Failure(Outcome.TIMEOUT, "no answer")
ENDS: tuple[Answer | Failure, ...] = (Answer(200), Answer(500), Failure(Outcome.DISCONNECTED, "cut"))
