"""The metrics of several processes as one: each keeps its own in files, the supervisor adds them up.

The files are named for a process's place, not for its pid: one that is started again goes on with the
counters of the one before, so that no sum ever falls, and files do not pile up. What was written to
a mapped file outlives a kill.

Source: https://prometheus.github.io/client_python/multiprocess/
"""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, values
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder; it must be there before prometheus_client is imported."""


def share(place: int) -> None:
    """Let the metrics that this process makes from now on live in the folder, under its place."""
    values.ValueClass = values.MultiProcessValue(lambda: place)  # type: ignore[no-untyped-call]


class _Merged(MultiProcessCollector):
    """Adds up what is in the files; one that is being made has nothing in it yet, not even a length."""

    def collect(self) -> Iterable[Metric]:
        filled = [str(file) for file in Path(self._path).glob("*.db") if file.stat().st_size]
        merged: Iterable[Metric] = self.merge(filled)  # type: ignore[no-untyped-call]
        return merged


def merged(folder: Path) -> CollectorRegistry:
    """Make a registry that shows what all processes keep in the folder, and what is added to it."""
    registry = CollectorRegistry()
    _Merged(registry, str(folder))  # type: ignore[no-untyped-call]
    return registry


def forget(folder: Path, place: int) -> None:
    """Drop what a process showed of its present state: it has ended. What it counted stays."""
    mark_process_dead(place, str(folder))  # type: ignore[no-untyped-call]
