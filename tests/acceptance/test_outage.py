"""Postgres goes away under load and comes back. Source: I1 to I3, I10, I11."""

import signal
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.outage import MERCHANTS, Outage, live_through_outage
from tests.acceptance.processes import Daemon
from tests.servers.database import Database, own_migrated
from tests.waiting import Yardstick
from webhook_dispatcher.telemetry.throttle import NAMES

AWAY = 4.0
MOST_CPU = 0.05
"""Of a core, for each daemon while the database is away."""
MOST_GROWTH = 20 * 1024
"""KiB that a daemon may grow by."""
RECOVERED = 5.0
QUIET = 0.1 + 0.2 + 0.7
"""Seconds until nothing is sent any more: an answer unwritten for 100 ms, the slowest answer, and slack."""
APART = 0.9
"""Seconds between two warnings of one kind: a second by one clock, told by another."""


@pytest.fixture
def own_database() -> Iterator[Database]:
    """Serve a migrated database whose commits outlast a crash of the server."""
    with own_migrated({"synchronous_commit": "on"}) as database:
        yield database


def check(outage: Outage, machine: Yardstick, daemons: list[Daemon]) -> None:
    """Assert what every outage must leave true."""
    for daemon in daemons:
        check_log(daemon)
    assert outage.quiet_after < machine.allows(QUIET)
    assert max(outage.cpu_shares) < MOST_CPU, outage.cpu_shares
    growth = [after - before for before, after in zip(outage.memory_before, outage.memory_after, strict=True)]
    assert max(growth) < MOST_GROWTH, growth
    assert len(outage.waits) > len(MERCHANTS) // 2, "too few were owed anything: nothing was shown"
    assert max(outage.waits.values()) < machine.allows(RECOVERED), sorted(outage.waits.values())
    assert outage.repeated.keys() <= outage.exposed
    assert set(outage.repeated.values()) <= {1}


def check_log(daemon: Daemon) -> None:
    """Assert that the outage was told, by each kind of warning at most once a second."""
    lines = [line for line in daemon.log() if "error" in line and NAMES.isdisjoint(line)]
    told = defaultdict(list)
    for line in lines:
        told[line["event"]].append(datetime.fromisoformat(line["at"]))
    assert told["claim.failed"], "the outage was not told"
    gaps = {event: min(gaps_of(instants)) for event, instants in told.items() if len(instants) > 1}
    assert all(gap >= APART for gap in gaps.values()), gaps
    assert any("suppressed" in line for line in lines), "nothing was left out: nothing was shown"


def gaps_of(instants: list[datetime]) -> list[float]:
    """Return the seconds between each instant and the next."""
    return [(after - before).total_seconds() for before, after in pairwise(instants)]


@pytest.mark.slow("acceptance/test_outage.py::test_database_that_crashes_is_waited_for_quietly")
async def test_database_that_is_stopped_for_a_while_is_waited_for_quietly(own_world: Installation) -> None:
    # Leases lapse meanwhile: whoever comes first may claim.
    with Yardstick() as machine:
        outage = await live_through_outage(own_world, signal.SIGINT, AWAY, "PT3S")
    check(outage, machine, own_world.daemons)


async def test_database_that_crashes_is_waited_for_quietly(own_world: Installation) -> None:
    # Leases outlast it: what was held is gone on with.
    with Yardstick() as machine:
        outage = await live_through_outage(own_world, signal.SIGQUIT, AWAY, "PT30S")
    check(outage, machine, own_world.daemons)
