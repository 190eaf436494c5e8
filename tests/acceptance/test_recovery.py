"""One of three daemons ends under load: the others serve its merchants. Source: I1 to I3, I8."""

import asyncio
import time
from datetime import timedelta

from tests.acceptance.installation import Installation
from tests.acceptance.load import (
    PATIENCE,
    Load,
    all_settled,
    check_promises,
    fates,
    held_by,
    repetitions,
    start_daemons,
    waits_after,
)
from tests.acceptance.processes import Daemon
from tests.waiting import Yardstick, until, until_found
from webhook_dispatcher.local.arrivals import first_arrivals, overlapping
from webhook_dispatcher.local.behaviour import Behaviour

DAEMONS = 3
MERCHANTS = [f"m{number:02}" for number in range(60)]
RATE = 100.0
LEASE = 3.0
SWEEP = 0.5
"""Seconds between two sweeps of a daemon that does little else."""
SLACK = 1.5
"""Seconds for a machine that is busy with other things."""
ANSWER = timedelta(milliseconds=200)
UNDER_WAY = 0.3
"""Seconds after which what a killed process had sent, requests and statements, has arrived."""


async def start_under_load(installation: Installation, lease: float, attempt_timeout: float) -> None:
    """Start three daemons for merchants that answer slowly enough to always have something in flight."""
    await installation.configure(*MERCHANTS)
    for merchant_id in MERCHANTS:
        installation.receiver.behave(merchant_id, Behaviour(delay=ANSWER))
    changed = {"LEASE": f"PT{lease}S", "ATTEMPT_TIMEOUT": f"PT{attempt_timeout}S"}
    await start_daemons(installation, DAEMONS, **changed)


async def busiest(installation: Installation) -> Daemon:
    """Wait until daemons hold lanes, and return the one that holds most."""

    async def found() -> Daemon | None:
        held = {
            daemon.process.pid: len(await held_by(installation.owner, daemon))
            for daemon in installation.daemons
        }
        most = max(installation.daemons, key=lambda daemon: held[daemon.process.pid])
        return most if held[most.process.pid] >= len(MERCHANTS) // DAEMONS else None

    return await until_found(found, PATIENCE)


async def kill_one(installation: Installation, lease: float, attempt_timeout: float) -> dict[str, float]:
    """Kill the busiest daemon amid its work; return how long each merchant that was owed something waited."""
    await start_under_load(installation, lease, attempt_timeout)
    backlog = await installation.emit_each(MERCHANTS, 10)
    async with Load(installation.database.dsn("webhook_producer"), MERCHANTS, RATE) as load:
        await until(lambda: len(installation.receiver.arrivals) > 3 * len(MERCHANTS), PATIENCE)
        victim = await busiest(installation)
        held = await held_by(installation.owner, victim)
        victim.kill()
        killed_at = time.monotonic()
        await asyncio.sleep(UNDER_WAY)
        recorded = await fates(installation.admin)
        exposed = {
            arrival.event_id
            for arrival in installation.receiver.arrivals
            if arrival.merchant_id in held and recorded[arrival.event_id].state != "delivered"
        }

        def all_served() -> bool:
            firsts = first_arrivals(installation.receiver.arrivals)
            return all(firsts[name][-1].started_at > killed_at for name in MERCHANTS)

        await until(all_served, deadline=lease + PATIENCE)
    known = await all_settled(installation.owner, PATIENCE)
    sent, arrivals = [*backlog, *load.sent], installation.receiver.arrivals
    check_promises(sent, arrivals, known)
    assert overlapping(arrivals) == []
    repeated = repetitions(arrivals, known)
    assert repeated.keys() <= exposed
    assert set(repeated.values()) <= {1}
    return waits_after(sent, arrivals, killed_at)


async def test_what_a_killed_daemon_held_is_served_again_within_the_lease_and_a_sweep(
    installation: Installation,
) -> None:
    with Yardstick() as machine:
        waits = await kill_one(installation, LEASE, 1)
    assert len(waits) > len(MERCHANTS) // DAEMONS, "too few were owed anything: nothing was shown"
    # Otherwise no lane was held by the victim, or leases hold nobody off.
    assert max(waits.values()) > LEASE / 2
    assert max(waits.values()) < LEASE + machine.allows(SWEEP + SLACK), sorted(waits.values())
