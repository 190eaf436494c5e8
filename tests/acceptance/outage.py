"""A Postgres that goes away under three busy daemons and comes back, and what they did meanwhile.

The receiver lives in the test's process, so the server's end is waited for without standing still; its
start takes a moment in which nobody can send anything anyway.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from tests.acceptance.installation import Installation
from tests.acceptance.load import (
    PATIENCE,
    Load,
    all_settled,
    check_promises,
    repetitions,
    start_daemons,
    waits_after,
)
from tests.waiting import until
from webhook_dispatcher.local.arrivals import Arrival, first_arrivals
from webhook_dispatcher.local.behaviour import Behaviour

DAEMONS = 3
MERCHANTS = [f"m{number:02}" for number in range(40)]
KINDS = ((MERCHANTS[0::3], 20, 60), (MERCHANTS[1::3], 60, 30), (MERCHANTS[2::3], 200, 12))
"""Merchants, in how many milliseconds they answer, and how many events wait for them from the beginning."""
RATE = 100.0
UNRECORDED = 0.2
"""Seconds before the end of the server within which an answer may still wait for its record."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Outage:
    """What one outage showed; instants on the monotonic clock, memory in KiB, one entry for each daemon.

    exposed: events that were in flight or answered a moment ago when the server ended, or sent after that.
    repeated: how often each event was sent beyond its attempts.
    waits: in how many seconds after the server's return each merchant that was owed something was served.
    cpu_shares: of a core, while the server was away.
    """

    gone_at: float
    back_at: float
    arrivals: Sequence[Arrival] = field(repr=False)
    exposed: frozenset[str] = field(repr=False)
    repeated: Counter[str]
    waits: dict[str, float]
    cpu_shares: list[float]
    memory_before: list[int]
    memory_after: list[int]

    @property
    def quiet_after(self) -> float:
        """Return for how many seconds requests still began after the server's end was asked for."""
        last = max(arrival.started_at for arrival in self.arrivals if arrival.started_at < self.back_at)
        return last - self.gone_at


async def live_through_outage(
    installation: Installation, how: signal.Signals, seconds: float, lease: str
) -> Outage:
    """End the server under load, start it again after so many seconds, and judge what came of it."""
    await installation.configure(*MERCHANTS)
    for merchants, milliseconds, _ in KINDS:
        for merchant_id in merchants:
            installation.receiver.behave(merchant_id, Behaviour(delay=timedelta(milliseconds=milliseconds)))
    await start_daemons(installation, DAEMONS, LEASE=lease, ATTEMPT_TIMEOUT="PT1S")
    pids = [daemon.process.pid for daemon in installation.daemons]
    backlog = [
        event for merchants, _, count in KINDS for event in await installation.emit_each(merchants, count)
    ]
    async with Load(installation.database.dsn("webhook_producer"), MERCHANTS, RATE) as load:
        await until(lambda: len(installation.receiver.arrivals) > len(backlog) / 3, PATIENCE)
        memory_before = [resident(pid) for pid in pids]
        gone_at = time.monotonic()
        await end_server(installation, how)
        used, since = [cpu_time(pid) for pid in pids], time.monotonic()
        await asyncio.sleep(gone_at + seconds - time.monotonic())
        shares = [
            (cpu_time(pid) - before) / (time.monotonic() - since)
            for pid, before in zip(pids, used, strict=True)
        ]
        installation.database.server.start()
        back_at = time.monotonic()
        await reconnect(installation)

        def all_served() -> bool:
            firsts = first_arrivals(installation.receiver.arrivals)
            return all(name in firsts and firsts[name][-1].started_at > back_at for name in MERCHANTS)

        await until(all_served, PATIENCE)
        memory_after = [resident(pid) for pid in pids]
    known = await all_settled(installation.owner, PATIENCE)
    await installation.admin.close()
    await installation.owner.close()
    sent, arrivals = [*backlog, *load.sent], installation.receiver.arrivals
    check_promises(sent, arrivals, known)
    exposed = frozenset(
        arrival.event_id
        for arrival in arrivals
        if arrival.started_at < back_at
        and (arrival.ended_at is None or arrival.ended_at > gone_at - UNRECORDED)
    )
    waits = waits_after(sent, arrivals, back_at)
    repeated = repetitions(arrivals, known)
    return Outage(gone_at, back_at, arrivals, exposed, repeated, waits, shares, memory_before, memory_after)


async def end_server(installation: Installation, how: signal.Signals) -> None:
    """End the server: SIGINT is a fast shutdown, SIGQUIT a crash without clean-up."""
    pid = installation.database.server.pid
    assert pid is not None
    os.kill(pid, how)
    await until(lambda: _state(pid) in ("Z", ""))
    installation.database.server.stop()


async def reconnect(installation: Installation) -> None:
    """Give the installation new connections for those that ended with the server."""
    installation.admin = await installation.database.connect("webhook_admin")
    installation.owner = await installation.database.connect("postgres")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def cpu_time(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> int:
    """Return the resident memory of a process in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmRSS:")]
    return int(line.split()[1])
