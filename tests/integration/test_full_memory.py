"""The file system that metrics of several processes are in is full, or emptied: the processes go on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_merging import PROCESS
from webhook_dispatcher.telemetry import merging

IN_A_SMALL_ONE = (
    'mount -t tmpfs -o size=2m,mode=1777 scratch "$1" && mkdir "$1/metrics" && shift && exec "$@"'
)
FILL = """
import os
full = open(os.path.dirname(os.environ["PROMETHEUS_MULTIPROC_DIR"]) + "/full", "wb", buffering=0)
try:
    while True: full.write(bytes(4096))
except OSError: pass
"""
EMPTY = """
import os, shutil
shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)
"""
COUNT = """
for number in range(2000):
    metrics.attempts.labels(str(number), 'schedule').inc()
    metrics.attempt_duration.labels(str(number)).observe(0.2)
"""
pytestmark = pytest.mark.needs(os.geteuid() == 0, "to mount a file system takes root")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("damage", [FILL, EMPTY], ids=["full", "emptied"])
def test_a_process_counts_on_without_room_for_its_metrics(tmp_path: Path, damage: str, when: str) -> None:
    program = PROCESS.partition("for line in")[0]
    program = damage + program if when == "before" else program + damage
    folder = tmp_path / "shm"
    folder.mkdir()
    ended = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            IN_A_SMALL_ONE,
            "sh",
            folder,
            sys.executable,
            "-c",
            program + COUNT,
            "1",
            "",
        ],
        env={**os.environ, merging.FOLDER: str(folder / "metrics")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended
