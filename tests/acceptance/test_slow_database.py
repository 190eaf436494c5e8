"""Postgres runs at a tenth of its speed for a while: the daemon falls behind, and catches up by itself.

The daemon's server processes are stopped for nine tenths of each tenth of a second.
"""

import asyncio
import os
import signal
from collections.abc import Sequence

import asyncpg
import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.load import PATIENCE, Load, all_settled, check_promises, start_daemons
from tests.waiting import until, until_found

pytestmark = pytest.mark.timeout(180)
MERCHANTS = [f"m{number:02}" for number in range(40)]
OF_THE_BURST = [f"b{number:02}" for number in range(40)]
"""Merchants of their own: the burst's transaction overlaps with those of the load, and such have no order."""
RATE = 200.0
SLICES = 60
"""Tenths of a second for which it is slow."""
STOPPED, RUNNING = 0.09, 0.01
BACKLOG = 1_000
"""Events that are committed at once while it is slow, so that batches are full."""
FEW = 50
"""Events owed at which a daemon has caught up with its load."""
PROCESSES = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE $1"
BURST = """
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT ($2::text[])[1 + number % cardinality($2::text[])], 'charge.created', '{}'
FROM generate_series(1, $1) AS number
"""


def _signal(processes: Sequence[int], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue  # the daemon has closed that connection


async def _slow_down(connection: asyncpg.Connection) -> None:
    for _ in range(SLICES):
        rows = await connection.fetch(PROCESSES, "webhook-dispatcher%")
        processes = [row["pid"] for row in rows]
        assert processes
        _signal(processes, signal.SIGSTOP)
        try:
            await asyncio.sleep(STOPPED)
        finally:
            _signal(processes, signal.SIGCONT)
        await asyncio.sleep(RUNNING)


async def test_a_daemon_comes_back_by_itself_after_postgres_was_slow(installation: Installation) -> None:
    await installation.configure(*MERCHANTS, *OF_THE_BURST)
    await start_daemons(installation, 1)
    watcher, other = await installation.database.connect(), await installation.database.connect()

    async def is_owed_at_most_few() -> bool:
        owed: int = await other.fetchval("SELECT count(*) FROM webhook.outbox")
        return owed <= FEW

    async with Load(installation.database.dsn("webhook_producer"), MERCHANTS, RATE) as load:
        await until(lambda: len(installation.receiver.arrivals) >= FEW, PATIENCE)
        slow = asyncio.create_task(_slow_down(watcher))
        await other.execute(BURST, BACKLOG, OF_THE_BURST)
        await slow
        # The load goes on: a daemon whose batches grow larger and slower never has so few left.
        await until_found(is_owed_at_most_few, PATIENCE)
    known = await all_settled(other, PATIENCE)
    check_promises(load.sent, installation.receiver.arrivals, known)
    await watcher.close()
    await other.close()
