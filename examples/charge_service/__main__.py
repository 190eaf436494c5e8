"""The service as a program; README.md shows how to start it."""

import argparse
import asyncio
import logging
import signal
from contextlib import AsyncExitStack

import asyncpg
from aiohttp import web

from examples.charge_service.misbehaviour import Misbehaviour
from examples.charge_service.outbox import NoOutbox, PostgresOutbox
from examples.charge_service.service import ChargeService


def main() -> None:
    """Serve until SIGTERM or SIGINT; the first line that is printed is the URL."""
    parser = argparse.ArgumentParser(prog="charge_service", description="A sample charge service.")
    parser.add_argument("--port", type=int, default=8081, help="of 127.0.0.1; 0 takes one that is free")
    parser.add_argument("--database-url", help="of the role webhook_producer; without it there are no events")
    parser.add_argument("--misbehaves", action="store_true", help="fail on request, for tests")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(serve(arguments.port, arguments.database_url, arguments.misbehaves))


async def serve(port: int, database_url: str | None, misbehaves: bool) -> None:
    """Serve until a signal."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        outbox: NoOutbox | PostgresOutbox = NoOutbox()
        if database_url is not None:
            pool = await stack.enter_async_context(asyncpg.create_pool(database_url, min_size=1, max_size=4))
            outbox = PostgresOutbox(pool)
        misbehaviour = Misbehaviour() if misbehaves else None
        # A kept connection must outlive the 15 s for which the Partner API keeps it.
        runner = web.AppRunner(ChargeService(outbox, misbehaviour).application(), keepalive_timeout=75)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", port).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await stopping.wait()
        if misbehaviour is not None:
            misbehaviour.release()


if __name__ == "__main__":
    main()
