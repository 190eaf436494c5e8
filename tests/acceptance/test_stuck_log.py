"""Nobody reads a daemon's log: it goes on, and what was not said is counted. Source: monitoring.md."""

import asyncio
import json
import os
from typing import TextIO

from tests.acceptance import forked
from tests.acceptance.installation import Installation
from tests.acceptance.processes import RUN, Daemon, environment, http_get
from tests.servers.database import free_port
from tests.waiting import until

MERCHANTS = [f"m{number}" for number in range(20)]
EVENTS = 60
"""Of each: what is logged of them is more than a pipe and a daemon keep."""


async def test_a_daemon_whose_log_nobody_reads_goes_on(installation: Installation) -> None:
    await installation.configure(*MERCHANTS)
    reading, writing = os.pipe()
    address = f"127.0.0.1:{free_port()}"
    with open(reading, encoding="utf-8") as reader:
        with open(writing, "wb") as log:
            variables = environment(installation.settings(OPS_ADDRESS=address))
            process = forked.start(RUN, variables, installation.folder, None, None, log)
        (nothing := installation.folder / "nothing").touch()
        installation.daemons.append(Daemon(process, nothing))
        await installation.emit_each(MERCHANTS, EVENTS)
        await installation.all_delivered(EVENTS * len(MERCHANTS))
        assert (await http_get(int(address.rpartition(":")[2]), "/healthz"))[0] == 200

        assert await asyncio.to_thread(_count_dropped, reader) > 100
        process.terminate()
        await until(lambda: process.poll() is not None)
        assert (process.poll(), "daemon.stopped" in reader.read()) == (0, True)


def _count_dropped(reader: TextIO) -> int:
    """Read until it is said how many lines are missing."""
    while (entry := json.loads(reader.readline()))["event"] != "log.dropped":
        pass
    return int(entry["lines"])
