"""`python -m benchmarks.servers`: rivals that you have started, and this daemon, through the same phases."""

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path

import uvloop

from benchmarks.rig import Rig
from benchmarks.servers import convoy, hook0, outpost, svix
from benchmarks.servers.measure import HEAD, Plan, measure
from benchmarks.servers.ourselves import Ourselves
from benchmarks.servers.server import Compose, Server

RIVALS: dict[str, Callable[[], Server]] = {
    "convoy": lambda: convoy.Convoy(Compose("convoy"), *convoy.bootstrapped()),
    "hook0": lambda: hook0.Hook0(Compose("hook0"), hook0.HEADERS),
    "outpost": lambda: outpost.Outpost(Compose("outpost"), outpost.HEADERS),
    "svix": lambda: svix.Svix(Compose("svix"), svix.headers()),
}


def main() -> None:
    """Read the command line, measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.servers", description=__doc__)
    parser.add_argument("servers", nargs="+", choices=["ours", *RIVALS])
    parser.add_argument("--server-bin", type=Path, metavar="DIR", help="the programs of ours' PostgreSQL")
    for one in fields(Plan):
        parser.add_argument(f"--{one.name}", type=type(one.default), default=one.default)
    options = vars(parser.parse_args())
    servers, bin_dir = options.pop("servers"), options.pop("server_bin")
    plan, rows = Plan(**options), []
    for name in servers:
        with ExitStack() as stack, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if name == "ours":
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webhook-bench-")))
                ourselves = Ourselves(stack.enter_context(Rig(folder, bin_dir=bin_dir)))
                rows.append(runner.run(measure(ourselves, plan)))
                ourselves.end_worker()
            else:
                rows.append(runner.run(measure(RIVALS[name](), plan)))
        print(rows[-1], flush=True)
    print("\n".join(["", *HEAD, *rows]))


if __name__ == "__main__":
    main()
