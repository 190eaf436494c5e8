"""What this machine lets a process have: CPUs and open files; and how a process keeps its memory."""

import gc
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from webhook_dispatcher.settings import check_open_files

NICENESS = 10
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def raise_open_files(max_lanes: int) -> None:
    """Use as many open files as we may have, and refuse more lanes than they serve."""
    check_open_files(max_lanes, allow_open_files())


def allow_open_files() -> int:
    """Use as many open files as we may have, and return how many that is."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def lower_priority() -> None:
    """Let other processes go first: a page can wait for some milliseconds, a delivery must not.

    Three people at the console beside 500 events a second on two cores: the 99th percentile of lag was 1.14
    and 1.18 times that without them, and with this 1.04 and 1.07 (two rounds of `make bench-console`'s load).
    It counts within one control group or session alone (docs/operate/console.md). A sandbox that forbids it
    leaves the priority as it is.
    """
    with suppress(PermissionError):
        os.nice(NICENESS)


def tune_collector() -> None:
    """Leave what exists once all has started out of later garbage collections, and make full ones rarer.

    Otherwise a full collection walks through all of it every few seconds, while everybody waits
    (benchmarks/isolation.py: pauses of 60 to 100 ms, 2.5 times the lag).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)


def usable_cpus(cgroups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> int:
    """Return how many CPUs this process may use, at least 1: by its affinity, and by its cgroup's quota.

    A part of a CPU does not count: who is throttled in turn delivers later than who shares.
    Source: cgroups(7), sched(7); https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files
    """
    allowed = len(os.sched_getaffinity(0))
    return max(1, int(min([allowed, *_quotas(cgroups, own)])))


def _quotas(cgroups: Path, own: Path) -> Iterator[float]:
    """Yield the CPUs that each cgroup on the way to the root allows, where one sets a limit."""
    for controllers, path in _memberships(own):
        if controllers == "":
            root, read = cgroups, _quota_of_v2
        elif "cpu" in controllers.split(","):
            root, read = cgroups / "cpu", _quota_of_v1
        else:
            continue
        # A container may see its own cgroup as the root, and its path from outside.
        for folder in {PurePosixPath("/"), PurePosixPath(path), *PurePosixPath(path).parents}:
            try:
                quota = read(root / folder.relative_to("/"))
            except (OSError, ValueError):
                continue
            if quota is not None:
                yield quota


def _memberships(own: Path) -> list[tuple[str, str]]:
    """Return the controllers and the path of each cgroup that this process is in."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    fields = [line.split(":", 2) for line in lines]
    return [(parts[1], parts[2]) for parts in fields if len(parts) == 3 and parts[2].startswith("/")]


def _quota_of_v2(folder: Path) -> float | None:
    quota, period = (folder / "cpu.max").read_text().split()
    return None if quota == "max" else int(quota) / int(period)


def _quota_of_v1(folder: Path) -> float | None:
    quota = int((folder / "cpu.cfs_quota_us").read_text())
    return None if quota <= 0 else quota / int((folder / "cpu.cfs_period_us").read_text())
