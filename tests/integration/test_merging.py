"""Metrics of several processes, merged: what adds up, what outlives a kill, what ends with its process."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from webhook_dispatcher.telemetry import merging

PROCESS = """
import sys
from webhook_dispatcher.telemetry import merging
from webhook_dispatcher.telemetry.metrics import Metrics

place, shard = int(sys.argv[1]), sys.argv[2] or None
merging.share(place)
metrics = Metrics("1.2.3", shard=shard)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""
WORK = (
    "metrics.attempts.labels('delivered', 'schedule').inc(3); metrics.leases_lost.inc(); "
    "metrics.attempt_duration.labels('delivered').observe(0.2); metrics.attempts_in_flight.set(2); "
    "metrics.lanes_leased.set(5)"
)
ATTEMPTS = 'webhook_attempts_total{outcome="delivered",trigger="schedule"}'


class Processes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[int, subprocess.Popen[str]] = {}

    def start(self, place: int, shard: str = "") -> None:
        self.running[place] = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(place), shard],
            env={**os.environ, merging.FOLDER: str(self.folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, place: int, line: str) -> None:
        process = self.running[place]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"

    def kill(self, place: int) -> None:
        process = self.running.pop(place)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()

    def merged(self) -> dict[str, float]:
        text = generate_latest(merging.merged(self.folder)).decode()
        return {name: float(value) for name, value in re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", text, re.M)}


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    yield processes
    for place in list(processes.running):
        processes.kill(place)


def test_sums_are_of_all_processes_and_each_gauge_is_merged_by_its_meaning(processes: Processes) -> None:
    for place in (1, 2):
        processes.start(place)
        processes.do(place, WORK)
    processes.do(1, "metrics.event_loop_lag.set(0.5); metrics.own_fault.labels('clock').set(1)")
    processes.do(2, "metrics.event_loop_lag.set(0.25); metrics.pending.set(7)")
    processes.do(1, "metrics.pending.set(6)")
    seen = processes.merged()
    assert seen[ATTEMPTS] == 6
    assert seen["webhook_leases_lost_total"] == 2
    assert seen['webhook_attempt_duration_seconds_count{outcome="delivered"}'] == 2
    assert seen['webhook_attempt_duration_seconds_bucket{le="0.25",outcome="delivered"}'] == 2
    assert (seen["webhook_attempts_in_flight"], seen["webhook_lanes_leased"]) == (4, 10)
    assert seen["webhook_event_loop_lag_seconds"] == 0.5
    assert (seen['webhook_own_fault{kind="clock"}'], seen['webhook_own_fault{kind="local"}']) == (1, 0)
    assert seen['webhook_build_info{version="1.2.3"}'] == 1
    # Both measured the same database; the newest figure counts.
    assert seen["webhook_pending"] == 6
    assert not any("pid=" in name or "_created" in name for name in seen)


def test_killed_process_leaves_what_it_counted_and_its_successor_goes_on(processes: Processes) -> None:
    for place in (1, 2):
        processes.start(place)
        processes.do(place, WORK)
    processes.do(2, "metrics.pending.set(7)")
    processes.kill(2)
    merging.forget(processes.folder, 2)
    seen = processes.merged()
    assert (seen[ATTEMPTS], seen["webhook_attempts_in_flight"], seen["webhook_lanes_leased"]) == (6, 2, 5)
    assert "webhook_pending" not in seen
    files = set(processes.folder.iterdir())
    processes.start(2)
    processes.do(2, "pass")
    again = processes.merged()
    assert again[ATTEMPTS] == 6
    assert again["webhook_attempts_in_flight"] == 2
    processes.do(2, WORK)
    assert processes.merged()[ATTEMPTS] == 9
    assert processes.merged()['webhook_attempt_duration_seconds_count{outcome="delivered"}'] == 3
    assert len(set(processes.folder.iterdir()) - files) <= 3, "live gauges alone have new files"


def test_file_that_is_just_being_made_spoils_nothing(processes: Processes) -> None:
    processes.start(1)
    processes.do(1, WORK)
    (processes.folder / "counter_2.db").touch()
    assert processes.merged()[ATTEMPTS] == 3


def test_databases_do_not_overwrite_each_others_figures(processes: Processes) -> None:
    for place, shard in ((1, "eu1"), (2, "eu_2")):
        processes.start(place, shard)
        processes.do(place, f"metrics.pending.set({place}); metrics.oldest_pending_age.set({place * 10})")
    seen = processes.merged()
    assert (seen['webhook_pending{shard="eu1"}'], seen['webhook_pending{shard="eu_2"}']) == (1, 2)
    assert seen['webhook_oldest_pending_age_seconds{shard="eu1"}'] == 10
    assert seen['webhook_oldest_pending_age_seconds{shard="eu_2"}'] == 20
