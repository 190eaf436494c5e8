"""What tests of several processes look at: the merged metrics, the processes, and who did what."""

import os
import re
import signal
from pathlib import Path

from tests.acceptance.installation import Installation
from tests.acceptance.processes import Daemon, http_get, process_exists
from tests.spent import spending
from tests.waiting import MAX_WAIT, until
from webhook_dispatcher.app.supervisor import metrics_folder
from webhook_dispatcher.telemetry.merging import FOLDER

_SAMPLE = re.compile(r"^(?P<series>\w+(?:\{.*\})?) (?P<value>\S+)$", re.MULTILINE)


async def asked(supervisor: Daemon, path: str) -> tuple[int, str]:
    """Ask the supervisor's ops server for a path; return status and text."""
    return await http_get(supervisor.log("supervisor.started")[0]["ops_port"], path)


async def scraped(supervisor: Daemon) -> dict[str, float]:
    """Return all samples by name and labels, as they are written."""
    status, text = await asked(supervisor, "/metrics")
    assert status == 200, text
    return {match["series"]: float(match["value"]) for match in _SAMPLE.finditer(text)}


def total(samples: dict[str, float], name: str) -> float:
    """Add up all samples of a name."""
    return sum(value for series, value in samples.items() if series.partition("{")[0] == name)


def is_cumulative(series: str) -> bool:
    """Tell whether a sample may never fall."""
    return series.partition("{")[0].endswith(("_total", "_bucket", "_count", "_sum"))


def pids(supervisor: Daemon) -> dict[int, int]:
    """Return the newest pid of each place that was ever filled."""
    return {entry["process"]: entry["pid"] for entry in supervisor.log("process.started")}


def shares(supervisor: Daemon) -> dict[int, int]:
    """Count the attempts of each place, by the log."""
    counts: dict[int, int] = {}
    for entry in supervisor.log("delivery.attempted"):
        counts[entry["process"]] = counts.get(entry["process"], 0) + 1
    return counts


async def start_processes(installation: Installation, count: int, **settings: str) -> Daemon:
    """Start a supervisor of so many processes and wait until all work."""
    supervisor = installation.spawn(PROCESSES=str(count), **settings)
    await started(supervisor, count)
    return supervisor


async def started(supervisor: Daemon, count: int, deadline: float = MAX_WAIT) -> None:
    """Wait until so many processes work."""
    with spending("starting programs"):
        await until(lambda: len({entry["pid"] for entry in running(supervisor)}) >= count, deadline)


def running(supervisor: Daemon) -> list[dict[str, int]]:
    """Return the places that said that they work, by the newest process of each."""
    works = {entry["process"] for entry in supervisor.log("daemon.started")}
    return [{"process": place, "pid": pid} for place, pid in pids(supervisor).items() if place in works]


def end(supervisor: Daemon) -> None:
    """End a supervisor and its processes at once, whatever they do."""
    left = pids(supervisor).values()
    supervisor.end()
    for pid in left:
        if process_exists(pid):
            os.kill(pid, signal.SIGKILL)
    with metrics_folder():
        pass  # whoever makes one removes what killed supervisors left


def metrics_folder_of(supervisor: Daemon) -> Path:
    """Return the folder that its processes keep their metrics in."""
    pid = next(iter(pids(supervisor).values()))
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    [folder] = [text for name, _, text in (v.partition(b"=") for v in variables) if name == FOLDER.encode()]
    return Path(folder.decode())
