"""A supervisor whose processes cannot be started, or are killed: it tries again, and ends when told to."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.waiting import MAX_WAIT, until_found
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.app.supervisor import FOLDER_PREFIX, Supervisor, metrics_folder
from webhook_dispatcher.settings import load_settings

ENVIRON = {
    "WEBHOOK_DATABASE_URL": "postgresql://u@localhost/a",
    "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
    # More than the kernel lets a new program have.
    "TOO_LONG": "x" * 10_000_000,
}


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def says(supervisor: Supervisor, reasons: list[str]) -> bool:
    return supervisor.readiness() == reasons


async def test_process_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    supervisor = Supervisor(load_settings(ENVIRON), ENVIRON, 2, tmp_path, SystemClock())
    running = asyncio.create_task(supervisor.run())
    how = "cannot be started: Argument list too long, starts again within"
    for wait in (1, 2):
        reasons = [f"process {number}: {how} {wait} s" for number in (1, 2)]
        await until_found(partial(says, supervisor, reasons))
    supervisor.stop()
    assert await asyncio.wait_for(running, MAX_WAIT) == 0


async def test_process_that_was_killed_before_the_stop_is_no_failure_of_the_stop(tmp_path: Path) -> None:
    environ = {name: text for name, text in ENVIRON.items() if name != "TOO_LONG"}
    supervisor = Supervisor(load_settings(environ), environ, 1, tmp_path, SystemClock())

    async def started() -> int | None:
        return next((line["pid"] for line in logs if line["event"] == "process.started"), None)

    with capture_logs() as logs:
        running = asyncio.create_task(supervisor.run())
        pid = await until_found(started)
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # asyncio's thread was first; the loop has heard nothing of it
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        supervisor.stop()
        assert await asyncio.wait_for(running, MAX_WAIT) == 0
    assert [line["code"] for line in logs if line["event"] == "process.ended"] == [-signal.SIGKILL]


def test_folder_for_metrics_is_private_and_goes_with_its_supervisor() -> None:
    with metrics_folder() as folder, metrics_folder() as another:
        assert folder != another
        assert folder.name.startswith(FOLDER_PREFIX)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.exists()
    assert not folder.exists()
    assert not another.exists()
