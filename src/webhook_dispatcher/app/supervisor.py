"""Several processes as one daemon: starts them, starts again what dies, shows them at one address, ends them.

Each process is a whole daemon for one database, and shares nothing with the others: one that dies, or
whose database is away, costs the others nothing. What a restart cannot mend (exit codes 2 and 3) ends
everything where there is one database; where there are several, it is tried again beside the others.
"""

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog

from webhook_dispatcher.app.child import Child, Place, said_of
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.app.signals import obeyed
from webhook_dispatcher.dispatch.pace import Stop, sleep
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.local.scratch import scratch_dir
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.settings.shards import Shard
from webhook_dispatcher.settings.sources import without_files
from webhook_dispatcher.telemetry import merging
from webhook_dispatcher.telemetry.health import OpsServer
from webhook_dispatcher.telemetry.metrics import ProcessMetrics, ProcessState
from webhook_dispatcher.version import __version__

MIN_WAIT = 1.0
MAX_WAIT = 30.0
"""Seconds before a process that ended is started again: doubled after each short life, up to this."""
STABLE_AFTER = 60.0
"""Seconds of life after which a process that ends is started again after MIN_WAIT, as at first."""
MAX_OVERRUN = 5.0
"""Seconds beyond the grace after which a process is killed: its connections may hang when closed."""
UNMENDABLE = (2, 3)
"""Exit codes of a wrong configuration and of a schema that does not serve this version."""
MEMORY = Path("/dev/shm")
"""Metrics' files lie in memory: to count something, a process must not wait for a disk."""
FOLDER_PREFIX = "webhook-dispatcher-metrics-"

_log = structlog.get_logger()


class RestartWait:
    """How long to wait before a process is started again."""

    def __init__(self) -> None:
        self._next = MIN_WAIT

    def after(self, life: float) -> float:
        """Return the seconds to wait after a life of so many seconds."""
        wait = MIN_WAIT if life >= STABLE_AFTER else self._next
        self._next = min(wait * 2, MAX_WAIT)
        return wait


class Supervisor:
    """The processes of one installation on one machine."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], count: int, folder: Path, clock: Clock
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._shards = settings.databases()
        self._children = [
            Child(Place(number, shard.name), environment_of(shard, settings, environ, folder), clock)
            for number, shard in enumerate((shard for shard in self._shards for _ in range(count)), 1)
        ]
        self._stop, self._end_of_grace = Stop(), Stop()
        self._code = 0

    async def run(self) -> int:
        """Run until told to stop, or until one ends for what no new start mends; return the exit code."""
        registry = merging.merged(self._folder)
        shards = [shard.name for shard in self._shards]
        self._metrics = ProcessMetrics(registry, shards, self._count, self._clock.unix())
        async with OpsServer(self._settings.ops_address, registry, self.readiness, self.notes) as ops:
            with obeyed(self.stop, self._cut_short):
                _log.info(
                    "supervisor.started",
                    version=__version__,
                    ops_port=ops.port,
                    processes=len(self._children),
                    shards=[shard.name for shard in self._shards if shard.name],
                )
                ending = asyncio.create_task(self._end_in_time())
                try:
                    async with asyncio.TaskGroup() as group:
                        for child in self._children:
                            group.create_task(self._keep(child))
                finally:
                    ending.cancel()
        _log.info("supervisor.stopped", code=self._code)
        return self._code

    def readiness(self) -> Sequence[str]:
        """Name what stands in the way of delivering, anywhere."""
        return [reason for child in self._children for reason in child.reasons()]

    def notes(self) -> Sequence[str]:
        """Name what is worth a note, anywhere."""
        return [note for child in self._children for note in child.notes()]

    def _count(self, shard: str | None, state: ProcessState) -> int:
        return sum(child.place.shard == shard and child.state == state for child in self._children)

    async def _keep(self, child: Child) -> None:
        """Keep one place filled until told to stop."""
        waits = RestartWait()
        while not self._stop.is_set():
            began = self._clock.elapsed()
            how = await self._live(child)
            if self._stop.is_set():
                return
            wait = waits.after(self._clock.elapsed() - began)
            child.explain(f"{how}, starts again within {wait:.0f} s")
            _log.warning("process.awaited", **child.place.log_fields, how=how, seconds=wait)
            await self._stop.wait_at_most(wait)
            if not self._stop.is_set():
                self._metrics.count_restart(child.place.shard)

    async def _live(self, child: Child) -> str:
        """Start a process and wait for its end; say how it ended."""
        try:
            code = await child.live()
        except OSError as error:
            return f"cannot be started: {os.strerror(error.errno) if error.errno else error}"
        finally:
            merging.forget(self._folder, child.place.number)
        is_fine = code == 0 or (self._stop.is_set() and -code in (signal.SIGTERM, signal.SIGINT))
        (_log.info if is_fine else _log.error)("process.ended", **child.place.log_fields, code=code)
        if child.was_told:
            self._code = self._code or (0 if is_fine else 1)
        elif code in UNMENDABLE and len(self._shards) == 1:
            self._code = code
            self.stop()
        return said_of(code)

    def stop(self) -> None:
        """Let all processes end, and start none any more."""
        self._stop.set()
        for child in self._children:
            child.signal(signal.SIGTERM)

    def _cut_short(self) -> None:
        self._end_of_grace.set()
        for child in self._children:
            child.signal(signal.SIGINT)

    async def _end_in_time(self) -> None:
        """Kill what has not ended by itself within the grace, once told to stop."""
        await self._stop.wait()
        await self._end_of_grace.wait_at_most(self._settings.shutdown_grace.total_seconds())
        await sleep(MAX_OVERRUN)
        for child in self._children:
            if child.pid is not None:
                _log.error("process.killed", **child.place.log_fields, pid=child.pid)
                child.signal(signal.SIGKILL)


def environment_of(
    shard: Shard, settings: Settings, environ: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """Return the environment of a process that serves one database: it learns nothing of the others."""
    own = without_files(environ, settings)
    own.pop("WEBHOOK_MIGRATION_DATABASE_URL", None)
    own |= {"WEBHOOK_DATABASE_URL": shard.text.get_secret_value(), merging.FOLDER: str(folder)}
    own.setdefault("WEBHOOK_INSTANCE_DIR", str(folder / "instances"))
    return own


def supervise(settings: Settings, environ: Mapping[str, str], count: int) -> int:
    """Run so many processes for each database until told to stop; return the exit code."""
    with metrics_folder() as folder:
        return asyncio.run(Supervisor(settings, environ, count, folder, SystemClock()).run())


@contextmanager
def metrics_folder() -> Iterator[Path]:
    """Make a private folder for the processes' metrics; remove it at the end, and what a killed one left."""
    parent = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else None
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(scratch_dir(FOLDER_PREFIX, parent))
            while not folder.exists():
                # Another supervisor that starts took it for abandoned before it was held.
                folder = stack.enter_context(scratch_dir(FOLDER_PREFIX, parent))
        except OSError as error:
            raise ConfigurationError(
                "WEBHOOK_PROCESSES: several processes need a folder for their metrics, in /dev/shm or where "
                f"temporary files are: {error.strerror}"
            ) from None
        yield folder
