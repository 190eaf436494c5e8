"""The metrics of several processes as one: each keeps its own in files, the supervisor adds them up.

The files are named for a process's place, not for its pid: one that is started again goes on with the
counters of the one before, so that no sum ever falls, and files do not pile up. What was written to
a mapped file outlives a kill.

Source: https://prometheus.github.io/client_python/multiprocess/
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from mmap import mmap
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, values
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder; it must be there before prometheus_client is imported."""


INITIAL_BYTES = 64 * 1024
"""Bytes that a file begins with; it doubles when they are used up."""
ENTRY = 32
"""Bytes of an entry beside its key, at most."""


class _Reserved(MmapedDict):
    """A file whose pages are all there before they are written to, or memory where it cannot have them.

    A write to a page that a full file system cannot give kills the process (SIGBUS); and the folder may be
    cleared away. What is in memory is not merged: such a process counts on unseen until it is started again.
    """

    def __init__(self, filename: str) -> None:
        try:
            with open(filename, "a+b") as file:
                os.posix_fallocate(file.fileno(), 0, max(INITIAL_BYTES, os.fstat(file.fileno()).st_size))
            super().__init__(filename)  # type: ignore[no-untyped-call]
        except OSError:
            memory = _memory(b"", INITIAL_BYTES)
            super().__init__(f"/proc/self/fd/{memory}")  # type: ignore[no-untyped-call]
            os.close(memory)

    def _init_value(self, key: str) -> None:
        while self._used + len(key.encode()) + ENTRY > self._capacity:
            self._capacity *= 2
            try:
                os.posix_fallocate(self._f.fileno(), 0, self._capacity)
            except OSError:
                memory = _memory(self._m[:], self._capacity)
                self._f.close()
                self._f = os.fdopen(memory, "r+b")
            self._m = mmap(self._f.fileno(), self._capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]


def _memory(content: bytes, size: int) -> int:
    memory = os.memfd_create("metrics")
    os.write(memory, content)
    os.ftruncate(memory, size)
    return memory


def share(place: int) -> None:
    """Let the metrics that this process makes from now on live in the folder, under its place."""
    with suppress(OSError):
        Path(os.environ[FOLDER]).mkdir(mode=0o700, exist_ok=True)  # somebody may have cleared it away
    values.MmapedDict = _Reserved  # type: ignore[assignment, attr-defined]
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
