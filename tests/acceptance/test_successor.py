"""Who starts in a dead process's place releases what that one held. Source: I2, I3.

Leases last an hour, longer than any test: what is served was released.
"""

import os
import shutil
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.load import PATIENCE, all_settled, check_promises, held_by, start_daemons
from tests.acceptance.supervised_processes import end, pids, start_processes
from tests.waiting import until, until_found
from webhook_dispatcher.local.behaviour import Behaviour

IN_ORDER = [f"m{number}" for number in range(6)]
RETRIED = [f"r{number}" for number in range(6)]
SETTINGS = {"LEASE": "PT1H", "ATTEMPT_TIMEOUT": "PT1M", "RETRY_SCHEDULE": "PT0.2S,PT0.2S"}
LONG = timedelta(minutes=1)
CLAIMED = "SELECT count(*) FROM webhook.outbox WHERE claim IS NOT NULL"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "instances"


async def hang(installation: Installation) -> None:
    """Let merchants keep requests waiting, first attempts or retries; those that follow are answered."""
    await installation.configure(*IN_ORDER, *RETRIED)
    for merchant_id in IN_ORDER:
        installation.receiver.behave(merchant_id, Behaviour(delay=LONG), Behaviour())
    for merchant_id in RETRIED:
        installation.receiver.behave(merchant_id, Behaviour(status=503), Behaviour(delay=LONG), Behaviour())


async def all_hang(installation: Installation) -> None:
    """Wait until all those requests are under way."""
    await installation.arrived(len(IN_ORDER) + 2 * len(RETRIED), deadline=PATIENCE)

    async def all_are_claimed() -> bool:
        return bool(await installation.owner.fetchval(CLAIMED) == len(RETRIED))

    await until_found(all_are_claimed, PATIENCE)


@pytest.mark.parametrize("beside", [0, 1], ids=["the next one", "one beside it"])
async def test_what_a_killed_daemon_held_is_served_by(
    installation: Installation, folder: Path, beside: int
) -> None:
    await hang(installation)
    (victim,) = await start_daemons(installation, 1, INSTANCE_DIR=str(folder), **SETTINGS)
    sent = await installation.emit_each(IN_ORDER + RETRIED, 1)
    await all_hang(installation)
    sent += await installation.emit_each(IN_ORDER, 3)
    others = await start_daemons(installation, beside, INSTANCE_DIR=str(folder), **SETTINGS)
    assert await held_by(installation.owner, victim) >= frozenset(IN_ORDER)
    victim.kill()
    successor = others[0] if others else await installation.start(INSTANCE_DIR=str(folder), **SETTINGS)

    released = await successor.logged("dead.released", PATIENCE)
    assert released["retries"] == len(RETRIED)
    assert released["lanes"] >= len(IN_ORDER)
    known = await all_settled(installation.owner, PATIENCE)
    check_promises(sent, installation.receiver.arrivals, known)
    await until(lambda: len(list(folder.iterdir())) == 1, PATIENCE)


@pytest.mark.slow("acceptance/test_successor.py::test_what_a_killed_daemon_held_is_served_by")
async def test_what_a_killed_process_held_is_served_by_those_of_its_supervisor(
    installation: Installation,
) -> None:
    await hang(installation)
    supervisor = await start_processes(installation, 2, **SETTINGS)
    sent = await installation.emit_each(IN_ORDER + RETRIED, 1)
    await all_hang(installation)
    sent += await installation.emit_each(IN_ORDER, 3)
    for pid in pids(supervisor).values():
        os.kill(pid, signal.SIGKILL)
    known = await all_settled(installation.owner, PATIENCE)
    check_promises(sent, installation.receiver.arrivals, known)
    end(supervisor)


@pytest.mark.parametrize("is_copied", [False, True], ids=["stopped", "seen by a copy of its file"])
async def test_nothing_is_released_of_one_that_lives(
    installation: Installation, folder: Path, is_copied: bool
) -> None:
    await hang(installation)
    (living,) = await start_daemons(installation, 1, INSTANCE_DIR=str(folder), **SETTINGS)
    await installation.emit_each(IN_ORDER + RETRIED, 1)
    await all_hang(installation)
    held = await held_by(installation.owner, living)
    if is_copied:
        folder = shutil.copytree(folder, folder.with_name("copy"))
    else:
        living.process.send_signal(signal.SIGSTOP)
    kept = set(folder.iterdir())
    # One that is dead beside it shows when the folder was looked at.
    dead, witness = await start_daemons(installation, 2, INSTANCE_DIR=str(folder), **SETTINGS)
    dead.kill()
    await until(lambda: len(list(folder.iterdir())) == len(kept) + 1, PATIENCE)
    witness.terminate()
    assert await witness.ended() == 0

    assert witness.log("dead.released") == []
    assert kept <= set(folder.iterdir())
    assert await held_by(installation.owner, living) == held >= frozenset(IN_ORDER)
    assert await installation.owner.fetchval(CLAIMED) == len(RETRIED)
