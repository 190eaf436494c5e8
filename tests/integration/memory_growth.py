"""A sender in a process of its own, and how far its memory grows.

`python -m tests.integration.memory_growth SENDER CA_FILE URL...` prints for each URL the outcome of the posts
and by how many bytes the peak lies above what there was before.
"""

import asyncio
import sys
from contextlib import suppress
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import uvloop

from tests.integration.senders import SENDERS
from webhook_dispatcher.transport.guard import EgressPolicy, Guard

POSTS = 3


def resident(entry: str) -> int:
    """Return VmRSS (now) or VmHWM (peak) in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith(entry)]
    return int(kilobytes) * 1024


async def main(kind: str, ca_file: str, first: str, *urls: str) -> None:
    guard = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),)))
    async with SENDERS[kind](guard, timedelta(seconds=20), "test", Path(ca_file)) as sender:
        await sender.post(first, {}, b"{}")  # what the first request of all takes is not the receiver's
        for url in urls:
            with suppress(OSError):  # the peak begins anew, where the kernel allows that
                Path("/proc/self/clear_refs").write_text("5")
            before = resident("VmRSS")
            seen = await asyncio.gather(*[sender.post(url, {}, b"{}") for _ in range(POSTS)])
            [outcome] = {one.outcome for one in seen}
            print(outcome, resident("VmHWM") - before, flush=True)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
