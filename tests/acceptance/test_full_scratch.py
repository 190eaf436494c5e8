"""What programs keep on this machine is full, or cleared away: log, metrics, instances, temporary files."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.processes import Daemon, environment, http_get
from tests.servers.database import free_port
from tests.waiting import until_found

pytestmark = pytest.mark.needs(os.geteuid() == 0, "to mount a file system takes root")
IN_A_SMALL_ONE = """
mount --rbind /dev/shm /mnt && mount -t tmpfs -o size=4m,mode=1777 scratch /dev/shm || exit
for folder in /mnt/*/; do
    mkdir "/dev/shm/$(basename "$folder")" && mount --bind "$folder" "/dev/shm/$(basename "$folder")"
done
mkdir /dev/shm/ours && exec "$@" > /dev/shm/ours/log 2>&1
"""
"""The tests' own folders are seen where they were: the database's socket is in one."""
OF_TESTS = ("webhook-tests-", "pytest-")
MERCHANTS = [f"m{number}" for number in range(5)]


def fill(place: Path) -> None:
    with (place / "full").open("wb", buffering=0) as full, suppress(OSError):
        while True:
            full.write(bytes(4096))


def clear_away(place: Path) -> None:
    for path in place.iterdir():
        if not path.is_dir():
            path.unlink()
        elif not path.is_mount() and not path.name.startswith(OF_TESTS):
            shutil.rmtree(path)


CLEARED_AWAY = pytest.mark.slow(
    "acceptance/test_full_scratch.py::test_several_processes_deliver_without_what_they_keep_on_the_machine"
)


@pytest.mark.parametrize("damage", [fill, pytest.param(clear_away, marks=CLEARED_AWAY)])
async def test_several_processes_deliver_without_what_they_keep_on_the_machine(
    installation: Installation, damage: Callable[[Path], None]
) -> None:
    port = free_port()
    settings = installation.settings(
        OPS_ADDRESS=f"127.0.0.1:{port}",
        PROCESSES="2",
        LOG_FORMAT="json",
        INSTANCE_DIR="/dev/shm/ours/instances",
    )
    run = [sys.executable, "-m", "webhook_dispatcher", "run"]
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", IN_A_SMALL_ONE, "sh", *run],
        env=environment(settings) | {"TMPDIR": "/dev/shm/ours"},
    )
    (nothing := installation.folder / "nothing").touch()
    installation.daemons.append(Daemon(process, nothing))

    async def is_ready() -> bool:
        try:
            return (await http_get(port, "/readyz"))[0] == 200
        except (OSError, IndexError):
            return False

    await until_found(is_ready)
    await installation.configure(*MERCHANTS)
    await installation.emit_each(MERCHANTS, 2)
    await installation.all_delivered(2 * len(MERCHANTS))
    damage(Path(f"/proc/{process.pid}/root/dev/shm"))
    await installation.emit_each(MERCHANTS, 2)
    await installation.all_delivered(4 * len(MERCHANTS))
    for child in _children(process.pid):
        os.kill(child, signal.SIGKILL)
    await installation.emit_each(MERCHANTS, 2)
    await installation.all_delivered(6 * len(MERCHANTS))
    await until_found(is_ready)
    assert (await http_get(port, "/metrics"))[0] == 200
    process.terminate()
    assert process.wait() == 0


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
