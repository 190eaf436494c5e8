"""Several processes on one database: how they end, all together. Source: I1 to I3."""

import os
import signal
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.acceptance.installation import PATIENT, Installation
from tests.acceptance.load import PATIENCE
from tests.acceptance.processes import Daemon, process_exists
from tests.acceptance.supervised_processes import end, metrics_folder_of, pids, start_processes
from tests.waiting import Yardstick, until, until_found
from webhook_dispatcher.local.arrivals import out_of_order
from webhook_dispatcher.local.behaviour import Behaviour

PROCESSES = 2
MERCHANTS = [f"m{number:02}" for number in range(60)]


@pytest.fixture(autouse=True)
async def _all_ended(installation: Installation) -> AsyncIterator[None]:
    yield
    for supervisor in installation.daemons:
        end(supervisor)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(
            signal.SIGINT,
            marks=pytest.mark.slow(
                "acceptance/test_processes_stopping.py::test_stopping_ends_all_processes_in_order_and_loses_nothing"
            ),
        ),
    ],
)
async def test_stopping_ends_all_processes_in_order_and_loses_nothing(
    installation: Installation, number: signal.Signals
) -> None:
    await installation.configure(*MERCHANTS)
    for merchant_id in MERCHANTS:
        installation.receiver.behave(merchant_id, Behaviour(hangs=True), Behaviour())
    supervisor = await start_processes(installation, PROCESSES, LOG_SUCCESSES="0", **PATIENT)
    folder = metrics_folder_of(supervisor)
    assert folder.exists()
    sent = await installation.emit_each(MERCHANTS, 3)
    await installation.arrived(len(MERCHANTS))
    supervisor.process.send_signal(number)
    await until_found(installation.is_claiming_nothing)
    for merchant_id in MERCHANTS:
        installation.receiver.answer_hanging(merchant_id)
    assert await supervisor.ended() == 0

    assert [process_exists(pid) for pid in pids(supervisor).values()] == [False] * PROCESSES
    assert not folder.exists()
    assert [entry["code"] for entry in supervisor.log("process.ended")] == [0] * PROCESSES
    stopped = supervisor.log("daemon.stopped")
    assert sorted(entry["process"] for entry in stopped) == [1, 2]
    assert {(entry["unwritten"], entry["lanes"]) for entry in stopped} == {(0, 0)}
    assert sum(entry.get("left_out", 0) for entry in supervisor.log()) == len(MERCHANTS)
    assert supervisor.log("delivery.attempted") == []
    assert await installation.has_no_leases()
    assert len(installation.receiver.arrivals) == len(MERCHANTS)
    assert await installation.count("state = 'delivered' AND attempts = 1") == len(MERCHANTS)
    await installation.start()
    await installation.all_delivered(len(sent))
    assert out_of_order(installation.receiver.arrivals, {str(event.id): event.seq for event in sent}) == []


async def test_second_signal_cuts_the_grace_short(installation: Installation) -> None:
    await installation.configure("m1")
    installation.receiver.behave("m1", Behaviour(hangs=True))
    supervisor = await start_processes(installation, PROCESSES)
    assert all(os.getpgid(pid) == pid for pid in pids(supervisor).values()), "Ctrl-C would reach them too"
    await installation.emit("m1")
    await installation.arrived(1)
    supervisor.terminate()
    await until(lambda: len(supervisor.log("process.ended")) == PROCESSES - 1)
    assert supervisor.process.poll() is None
    with Yardstick() as machine:
        told_at = time.monotonic()
        supervisor.terminate()
        assert await supervisor.ended() == 0
        took = time.monotonic() - told_at
    assert took < machine.allows(5)


@pytest.mark.slow("acceptance/test_processes_stopping.py::test_second_signal_cuts_the_grace_short")
async def test_signal_for_the_whole_control_group_is_no_impatience(installation: Installation) -> None:
    await installation.configure("m1")
    installation.receiver.behave("m1", Behaviour(hangs=True))
    supervisor = await start_processes(installation, PROCESSES, **PATIENT)
    event = await installation.emit("m1")
    await installation.arrived(1)
    for pid in pids(supervisor).values():
        os.kill(pid, signal.SIGTERM)
    await until(lambda: len(supervisor.log("process.ended")) == PROCESSES - 1)
    supervisor.terminate()
    installation.receiver.answer_hanging("m1")
    assert await supervisor.ended() == 0
    assert len(installation.receiver.arrivals) == 1
    await installation.settled(event.id, "delivered", 1)


async def test_frozen_process_is_killed_after_the_grace(installation: Installation) -> None:
    supervisor = await start_processes(installation, PROCESSES, SHUTDOWN_GRACE="PT1S")
    pid = pids(supervisor)[2]
    os.kill(pid, signal.SIGSTOP)
    supervisor.terminate()
    assert await supervisor.ended() == 1
    assert not process_exists(pid)
    [killed] = supervisor.log("process.killed")
    assert (killed["process"], killed["pid"]) == (2, pid)


async def test_killed_supervisor_leaves_no_process_behind(installation: Installation) -> None:
    await installation.configure(*MERCHANTS)
    for merchant_id in MERCHANTS:
        installation.receiver.behave(merchant_id, Behaviour(delay=timedelta(milliseconds=500)))
    supervisor = await start_processes(installation, PROCESSES)
    folder = metrics_folder_of(supervisor)
    assert folder.exists()
    await installation.emit_each(MERCHANTS, 3)
    await installation.arrived(len(MERCHANTS))
    with Yardstick() as machine:
        killed_at = time.monotonic()
        supervisor.kill()
        await until(lambda: not any(map(process_exists, pids(supervisor).values())))
        took = time.monotonic() - killed_at
    assert took < machine.allows(12)
    assert len(supervisor.log("daemon.stopped")) == PROCESSES
    assert await installation.has_no_leases()
    await start_processes(installation, PROCESSES)
    assert not folder.exists(), "the next supervisor removes what a killed one left"
    await installation.all_delivered(3 * len(MERCHANTS))


@pytest.mark.slow("acceptance/test_processes_stopping.py::test_killed_supervisor_leaves_no_process_behind")
async def test_supervisor_killed_while_its_processes_start_leaves_none_behind(
    installation: Installation,
) -> None:
    supervisor = installation.spawn(PROCESSES=str(PROCESSES))
    await until(lambda: len(pids(supervisor)) == PROCESSES, PATIENCE)
    assert supervisor.log("daemon.started") == []
    supervisor.kill()
    await until(lambda: not any(map(process_exists, pids(supervisor).values())), PATIENCE)
    assert supervisor.log("daemon.started") == []


async def test_schema_that_does_not_serve_ends_all_with_its_code(installation: Installation) -> None:
    supervisor = await start_processes(installation, PROCESSES)
    await installation.owner.execute("UPDATE webhook.state SET compatible_from = 99")
    assert await supervisor.ended(PATIENCE) == 3
    assert not any(map(process_exists, pids(supervisor).values()))
    _drop_other_lines(supervisor, "the schema serves programs for version 99")


def _drop_other_lines(supervisor: Daemon, said: str) -> None:
    """Check that all lines that are no events say this, and drop them: they are there on purpose."""
    lines = supervisor.log_file.read_text().splitlines(keepends=True)
    others = [line for line in lines if not line.startswith("{")]
    assert others
    assert all(said in line for line in others), others
    supervisor.log_file.write_text("".join(line for line in lines if line.startswith("{")))
