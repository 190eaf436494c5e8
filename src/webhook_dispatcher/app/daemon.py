"""The daemon: what it is made of, how it starts, and how it stops.

Stopping, in this order (`Daemon.drain`): nothing new is claimed and every loop ends; requests in flight end;
then the recorder, which they fill, writes the last outcomes and releases the lanes. What is not done within
the grace is cut off and named in the log; leases and fences make that safe.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg
import structlog
from prometheus_client import CollectorRegistry

from webhook_dispatcher.app import machine
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.app.instance import RELEASE_INTERVAL, Instance
from webhook_dispatcher.app.outbound import make_sender
from webhook_dispatcher.app.report import Readiness, ShowsOperators
from webhook_dispatcher.dispatch.attempt import ENDPOINT_WAIT, Attempter, Hold
from webhook_dispatcher.dispatch.control.controller import Controller
from webhook_dispatcher.dispatch.control.long_running import LongRunningCommands
from webhook_dispatcher.dispatch.control.postponed import Postponed
from webhook_dispatcher.dispatch.control.recalls import RECALL_INTERVAL, obey_recalls
from webhook_dispatcher.dispatch.control.running_command import running_lease
from webhook_dispatcher.dispatch.dispatcher import Dispatcher, Limits
from webhook_dispatcher.dispatch.heartbeat import HEARTBEAT_INTERVAL, Pulse
from webhook_dispatcher.dispatch.instruments import Instruments, OperatorPause
from webhook_dispatcher.dispatch.lane_session import trust
from webhook_dispatcher.dispatch.notices import REPORT_INTERVAL, Reporting
from webhook_dispatcher.dispatch.pace import Backoff, Stop, every
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.retries import Retrier, RetryLimits
from webhook_dispatcher.dispatch.sent_lately import LOOK_INTERVAL
from webhook_dispatcher.dispatch.suspension import SUSPENSION_LOOK, Suspension
from webhook_dispatcher.dispatch.sweep import (
    CORRECTION_INTERVAL,
    MEND_INTERVAL,
    STRAYS_INTERVAL,
    SWEEP_INTERVAL,
    ClockCorrection,
    Mending,
    Strays,
    Sweep,
)
from webhook_dispatcher.dispatch.upkeep import (
    GAUGE_INTERVAL,
    SCHEMA_INTERVAL,
    SEALING_INTERVAL,
    UPKEEP_INTERVAL,
    Gauges,
    check_schema,
    confirm_sealing_key,
    keep_logs,
    watch_event_loop,
)
from webhook_dispatcher.domain.command import Queue
from webhook_dispatcher.domain.errors import (
    SchemaMismatch,
    StatementRefused,
    StorageError,
    StorageUnavailable,
)
from webhook_dispatcher.domain.names import DEFAULT_NAMES
from webhook_dispatcher.domain.ports import LongestWaits, Sender
from webhook_dispatcher.domain.record import Sent
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.settings.shown import published
from webhook_dispatcher.storage import installation, keys, lost, numbers, schema
from webhook_dispatcher.storage.claims import PostgresClaims
from webhook_dispatcher.storage.connection import create_pool, describe
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.storage.heartbeats import PostgresHeartbeats
from webhook_dispatcher.storage.notices import PostgresNotices
from webhook_dispatcher.storage.records import PostgresRecords
from webhook_dispatcher.storage.session import PLANNED_EACH_TIME, PLANNED_ONCE
from webhook_dispatcher.storage.suspension import PostgresSuspensions
from webhook_dispatcher.storage.upkeep import PostgresUpkeep
from webhook_dispatcher.telemetry.health import OpsServer
from webhook_dispatcher.telemetry.metrics import Metrics, ProcessMetrics, ProcessState
from webhook_dispatcher.transport.guard import Guard
from webhook_dispatcher.transport.tls import lacking_groups
from webhook_dispatcher.version import __version__

MAX_STATEMENT_TIME = timedelta(seconds=10)
MIN_STATEMENT_TIME = timedelta(seconds=2)
"""Within these a statement may take a third of the lease, so that no lock of a frozen daemon outlasts it."""
MAX_SILENCE = 5.0
"""Seconds without an answer of the database after which /readyz says so."""
MAX_CLEANUP = 0.5
"""Seconds that what was cut off may take to clean up."""
RECORDING_RESERVE = timedelta(seconds=1)
"""The part of the grace that is kept for writing what has ended."""

_log = structlog.get_logger()


class Daemon:
    """The running parts, and how to stop them.

    show_operators: how operators see it; by default it serves them itself, the only process there is.
    """

    def __init__(self, settings: Settings, show_operators: ShowsOperators | None = None) -> None:
        self._settings = settings
        self._keyring = settings.keyring()
        self._clock = SystemClock()
        self._stop, self._end_of_grace = Stop(), Stop()
        self._waits_for = ["the database was not reached yet"]
        self._tasks: list[asyncio.Task[None]] = []
        self._outgrown: SchemaMismatch | None = None
        self._pause: OperatorPause | None = None
        self._instance: Instance | None = None
        self._installation: str | None = None
        self._names = DEFAULT_NAMES
        self._has_waited = False
        self._owner = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(8)}"
        self.metrics = Metrics(__version__, shard=settings.shard_name)
        show = show_operators or self._serve_operators
        self.ops = show(settings.ops_address, self.metrics.registry, self.readiness, self.notes)

    def _serve_operators(
        self, address: str, registry: CollectorRegistry, readiness: Readiness, notes: Readiness
    ) -> OpsServer:
        def count(_shard: str | None, state: ProcessState) -> int:
            return int(state is (ProcessState.NOT_READY if self.readiness() else ProcessState.READY))

        ProcessMetrics(registry, [self._settings.shard_name], count, self._clock.unix())
        return OpsServer(address, registry, readiness, notes)

    @property
    def ops_port(self) -> int | None:
        """Return where metrics and health are served, if they are served here."""
        return self.ops.port

    def readiness(self) -> Sequence[str]:
        """Name what stands in the way of delivering."""
        if self._waits_for:
            return self._waits_for
        now = self._clock.elapsed()
        reasons = []
        if now - self._dispatcher.answered_at > MAX_SILENCE:
            reasons.append(self._outage.trouble or "the database does not answer")
        elif self._pulse.uncommitted_for() > MAX_SILENCE:
            reasons.append("the database answers, but commits nothing")
        if self._recorder.behind_for() > MAX_SILENCE:
            reasons.append("outcomes cannot be written")
        reasons += self._own_faults.reasons
        lacking = self._gauges.missing_keys | set(self._attempter.missing_keys)
        reasons += [f"encryption key {key_id!r} is missing" for key_id in sorted(lacking)]
        wrong = sorted(self._gauges.wrong_keys)
        return reasons + [
            f"encryption key {key_id!r} is not the one that this id stands for" for key_id in wrong
        ]

    def notes(self) -> Sequence[str]:
        """Name what is worth knowing although nothing is wrong."""
        return ["everything is paused by an operator"] if self._is_paused else []

    @property
    def _is_paused(self) -> bool:
        return self._pause is not None and self._pause.is_on

    async def start(self, stack: AsyncExitStack) -> None:
        """Open everything and start the loops; waits for a database that is away."""
        settings = self._settings
        await stack.enter_async_context(self.ops)
        pool = partial(
            create_pool,
            settings.database_dsn(),
            command_timeout=max(MIN_STATEMENT_TIME, min(MAX_STATEMENT_TIME, settings.lease / 3)),
            pooled=settings.is_pooled,
        )
        often = partial(pool, planning=PLANNED_ONCE)
        enter, enter_now = stack.enter_async_context, stack.enter_context
        claiming = await enter(often(application_name="webhook-dispatcher claim", size=4))
        recording = await enter(often(application_name="webhook-dispatcher record", size=2))
        upkeep = await enter(
            pool(application_name="webhook-dispatcher upkeep", size=4, planning=PLANNED_EACH_TIME)
        )
        # What stops sending waits for no connection that others have.
        control = await enter(
            pool(application_name="webhook-dispatcher control", size=2, planning=PLANNED_EACH_TIME)
        )
        await self._await_database(upkeep)
        if self._stop.is_set():
            return
        if settings.instance_dir is not None:
            served = f"{self._installation}/{settings.shard_name}"
            self._instance = enter_now(Instance(settings.instance_dir, self._owner, served))
        guard = Guard(settings.egress_policy())
        sender = await stack.enter_async_context(make_sender(settings, guard))
        host = socket.gethostname()
        self._build(
            claims=PostgresClaims(claiming, self._owner),
            records=PostgresRecords(recording),
            controls=PostgresControls(upkeep),
            brakes=PostgresControls(control),
            recalls=PostgresClaims(control, self._owner),
            moving=PostgresClaims(upkeep, self._owner),
            upkeep=PostgresUpkeep(upkeep),
            suspensions=PostgresSuspensions(upkeep),
            notices=PostgresNotices(upkeep),
            heartbeats=PostgresHeartbeats(
                upkeep, self._owner, host, __version__, schema.SCHEMA_VERSION, published(settings)
            ),
            note_lost=partial(lost.note, upkeep),
            sender=sender,
            guard=guard,
        )
        self._waits_for = []
        machine.tune_collector()
        if groups := lacking_groups():
            _log.warning("tls.groups_lacking", groups=groups)
        _log.info(
            "daemon.started",
            version=__version__,
            sender=settings.sender,
            ops_port=self.ops_port,
            database=describe(settings.database_dsn()),
            installation=self._installation,
            owner=self._owner,
        )

    async def _await_database(self, pool: asyncpg.Pool) -> None:
        backoff = Backoff()
        while not self._stop.is_set():
            try:
                with schema.connected_as(schema.DISPATCHER, schema.THE_DAEMON):
                    await schema.check(pool)
                    await schema.check_role(pool)
                await numbers.check(pool)
                if self._settings.response_excerpt:
                    await schema.check_encoding(pool)
                await self._verify_installation(pool)
                self._names = await installation.read_names(pool)
                await self._verify_keys(pool)
            except StorageUnavailable as error:
                database = describe(self._settings.database_dsn())
                _log.warning("database.awaited", database=database, error=str(error))
                self._waits_for, self._has_waited = [f"{database} does not answer: {error}"], True
                await self._stop.wait_at_most(backoff.next())
            else:
                return

    async def _verify_installation(self, pool: asyncpg.Pool) -> None:
        found = await installation.read(pool)
        found.verify(self._settings.installation)
        self._installation = found.name
        if found.has_moved:
            _log.warning(
                "server.changed", known=found.known_server, server=found.server, installation=found.name
            )

    async def _verify_keys(self, pool: asyncpg.Pool) -> None:
        try:
            await keys.verify(pool, self._keyring)
        except StatementRefused as error:
            # A row that is damaged must not keep the others' events from being sent.
            _log.error("keys.unverified", error=str(error))

    def _build(
        self,
        *,
        claims: PostgresClaims,
        records: PostgresRecords,
        controls: PostgresControls,
        brakes: PostgresControls,
        recalls: PostgresClaims,
        moving: PostgresClaims,
        upkeep: PostgresUpkeep,
        suspensions: PostgresSuspensions,
        notices: PostgresNotices,
        heartbeats: PostgresHeartbeats,
        note_lost: Callable[[Sequence[Sent]], Awaitable[int]],
        sender: Sender,
        guard: Guard,
    ) -> None:
        settings, stop = self._settings, self._stop
        keyring = self._keyring
        instruments = Instruments.of(self._clock, self.metrics)
        hold, interval = Hold(settings.unconfigured_hold), settings.suspension_interval
        trusted = trust(settings.lease, settings.attempt_timeout)
        self._own_faults, self._outage = instruments.own_faults, instruments.outage
        self._pause = instruments.pause
        if self._has_waited:
            self._outage.came_back()
        self._attempter = Attempter(sender, keyring, settings.retry_schedule, instruments, self._names)
        self._recorder = Recorder(records, instruments, settings.lease, trusted)
        self._dispatcher = Dispatcher(
            claims,
            self._recorder,
            self._attempter,
            instruments,
            Limits(settings.max_lanes, settings.lease, trusted, settings.poll_interval, hold, interval),
        )
        retrier = Retrier(
            claims,
            self._recorder,
            self._attempter,
            instruments,
            RetryLimits(settings.max_lanes, settings.lane_retries, settings.lease, trusted, hold, interval),
            stop,
        )
        long_running = LongRunningCommands(
            controls, claims, self._attempter, self._recorder, instruments, settings.attempt_timeout, stop
        )
        postponed = Postponed(self._clock)
        controllers = [
            Controller(queue, through, long_running, guard, instruments, postponed, stop)
            for queue, through in (
                (Queue.BRAKES, brakes),
                (Queue.OPERATORS, controls),
                (Queue.MERCHANTS, controls),
            )
        ]
        self._gauges = Gauges(upkeep, keyring, self.metrics)
        obeying = partial(obey_recalls, recalls, self._dispatcher, instruments.pause)
        logs = partial(keep_logs, upkeep, settings.retention, instruments.own_faults.clock_doubt)
        suspension = Suspension(suspensions, settings.suspend_after, interval, self.metrics)
        reporting = Reporting(notices, settings.failing_after, self.metrics)
        correction = ClockCorrection(
            upkeep,
            instruments.database_clock,
            instruments.own_faults,
            LongestWaits(
                settings.lease,
                running_lease(settings.attempt_timeout),
                settings.retry_schedule.delays,
                interval,
                ENDPOINT_WAIT,
            ),
        )
        schema_check = partial(check_schema, upkeep, self._end_for, self._attempter.use_names)
        sealing = partial(confirm_sealing_key, upkeep, keyring)
        self._pulse = Pulse(
            heartbeats,
            self._recorder,
            self._clock,
            lanes=lambda: self._dispatcher.lanes_leased,
            in_flight=lambda: self._attempter.in_flight,
            reasons=self.readiness,
            faults=lambda: self._own_faults.reasons,
        )
        loop = partial(every, clock=self._clock, metrics=self.metrics, stop=stop)
        look_for_sent = partial(instruments.sent_lately.step, note_lost)
        release = partial(_release_dead, self._instance, claims, self._dispatcher)
        work = _together(
            self._dispatcher.run(),
            loop(RELEASE_INTERVAL, release, "release.failed"),
            retrier.run(),
            loop(LOOK_INTERVAL, look_for_sent, "lost.failed"),
            *(controller.run() for controller in controllers),
            loop(
                SWEEP_INTERVAL,
                Sweep(claims, self._dispatcher).step,
                "sweep.failed",
                wake=self._dispatcher.needs_sweep,
            ),
            loop(MEND_INTERVAL, Mending(claims).step, "mend.failed"),
            loop(STRAYS_INTERVAL, Strays(moving, instruments, stop).step, "hand_on.failed"),
            loop(CORRECTION_INTERVAL, correction.step, "clock.uncorrected"),
            loop(RECALL_INTERVAL, obeying, "recall.failed"),
            loop(SUSPENSION_LOOK, suspension.step, "suspension.failed"),
            loop(UPKEEP_INTERVAL, logs, "housekeeping.failed", wake=self._recorder.needs_upkeep),
            loop(REPORT_INTERVAL, reporting.step, "notices.failed"),
            loop(HEARTBEAT_INTERVAL, self._pulse.step, "heartbeat.failed"),
            loop(GAUGE_INTERVAL, self._gauges.step, "measure.failed"),
            loop(SCHEMA_INTERVAL, schema_check, "schema.unchecked"),
            loop(SEALING_INTERVAL, sealing, "sealing_key.unconfirmed"),
        )
        self._tasks = [asyncio.create_task(work), asyncio.create_task(self._dispatcher.record())]
        # Beats to the end of the drain: attempts that time out meanwhile are the merchants'.
        self._watch = asyncio.create_task(watch_event_loop(self._clock, self.metrics, self._beat))

    def _beat(self) -> None:
        self._own_faults.beat()
        self._dispatcher.update_gauges()
        self._attempter.show_unopened()
        self.metrics.attempts_in_flight.set(self._attempter.in_flight)
        self.metrics.paused.set(self._is_paused)

    def _end_for(self, error: SchemaMismatch) -> None:
        self._outgrown = error
        self.stop()

    def stop(self) -> None:
        """Ask everything but the recorder to end: `drain` stops that after those who fill it."""
        self._stop.set()
        if self._tasks:
            self._dispatcher.stop()

    def cut_short(self) -> None:
        """End the grace now: what is in flight is cut off and named in the log."""
        self._end_of_grace.set()

    async def finished(self) -> None:
        """Wait until asked to stop, or until a part has ended: `failure` says what it failed with."""
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([stopping, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    async def drain(self) -> None:
        """Let what is in flight end and be written, within the grace; then cut off and say what is left."""
        self.stop()
        if not self._tasks:
            return
        work, recording = self._tasks
        ends = self._clock.elapsed() + self._settings.shutdown_grace.total_seconds()
        reserve = RECORDING_RESERVE.total_seconds()
        await self._end(work, max(0.0, ends - reserve - self._clock.elapsed()))
        self._recorder.stop()
        await self._end(recording, max(reserve, ends - self._clock.elapsed()))
        self._watch.cancel()
        await self._leave()
        left = {"unwritten": self._recorder.unwritten, "lanes": self._dispatcher.lanes_leased}
        (_log.warning if any(left.values()) else _log.info)("daemon.stopped", **left)

    async def _leave(self) -> None:
        """Take this daemon off the list of those that are there; without the database it lapses by itself."""
        with suppress(StorageError, TimeoutError):
            async with asyncio.timeout(MAX_CLEANUP):
                await self._pulse.end()

    async def _end(self, task: asyncio.Task[None], seconds: float) -> None:
        """Wait for a task's end, at most so many seconds or until the grace is cut short; then cancel it."""
        grace_ending = asyncio.create_task(self._end_of_grace.wait())
        await asyncio.wait([task, grace_ending], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        grace_ending.cancel()
        if not task.done():
            task.cancel()
            # A connection to a database that hangs is closed only after its own time-outs.
            await asyncio.wait([task], timeout=MAX_CLEANUP)

    def failure(self) -> BaseException | None:
        """Return what a part failed with, if one did."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                return error
        return self._outgrown


async def _release_dead(instance: Instance | None, claims: PostgresClaims, dispatcher: Dispatcher) -> None:
    if instance is not None:
        await instance.release_dead(claims, dispatcher.notice_swept)


async def _together(*loops: Coroutine[Any, Any, None]) -> None:
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(loop)
