"""How many CPUs a process may use: by its affinity, and by the quotas of its cgroups."""

import os
from pathlib import Path

import pytest

from webhook_dispatcher.app.machine import usable_cpus


@pytest.fixture(autouse=True)
def _sixteen_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))


class Machine:
    def __init__(self, folder: Path) -> None:
        self.cgroups = folder / "cgroup"
        self.own = folder / "own"

    def write(self, path: str, text: str) -> None:
        file = self.cgroups / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def cpus(self, *memberships: str) -> int:
        self.own.write_text("".join(f"{line}\n" for line in memberships))
        return usable_cpus(self.cgroups, self.own)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_quota_the_affinity_counts(machine: Machine) -> None:
    assert (usable_cpus(machine.cgroups, machine.own), machine.cpus("0::/")) == (16, 16)
    machine.write("cpu.max", "max 100000\n")
    assert machine.cpus("0::/") == 16


@pytest.mark.parametrize(
    ("quota", "count"),
    [
        *(("400000 100000", 4), ("250000 100000", 2), ("50000 100000", 1)),
        *(("6400000 100000", 16), ("nonsense", 16)),
    ],
)
def test_quota_counts_whole_cpus(machine: Machine, quota: str, count: int) -> None:
    machine.write("app.slice/cpu.max", f"{quota}\n")
    assert machine.cpus("0::/app.slice") == count


def test_smallest_quota_on_the_way_to_the_root_counts(machine: Machine) -> None:
    machine.write("a/b/cpu.max", "800000 100000\n")
    machine.write("a/cpu.max", "300000 100000\n")
    machine.write("other/cpu.max", "100000 100000\n")
    assert machine.cpus("0::/a/b") == 3


def test_container_that_sees_its_own_cgroup_as_the_root_has_its_quota(machine: Machine) -> None:
    machine.write("cpu.max", "200000 100000\n")
    assert machine.cpus("0::/docker/0123") == 2


def test_quota_of_the_first_version_of_cgroups_counts(machine: Machine) -> None:
    machine.write("cpu/docker/cpu.cfs_quota_us", "500000\n")
    machine.write("cpu/docker/cpu.cfs_period_us", "100000\n")
    assert machine.cpus("4:memory:/docker", "1:cpu,cpuacct:/docker", "0::/") == 5
    machine.write("cpu/docker/cpu.cfs_quota_us", "-1\n")
    assert machine.cpus("1:cpu,cpuacct:/docker") == 16
