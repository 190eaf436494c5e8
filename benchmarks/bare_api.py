"""A bare aiohttp server with one asyncpg query: what the Partner API is measured beside.

It reads the same rows as `GET /v1/webhook` and `GET /v1/deliveries`, by an index, and knows neither tokens
nor limits nor envelopes: the merchant is named in a header. No access log, uvloop, as many connections to
Postgres as the API has; none of them is reset when it is given back, which would be a second round trip.
"""

import argparse
import asyncio
import json

import asyncpg
import orjson
import uvloop
from aiohttp import web

MERCHANT = "X-Merchant"
CONNECTIONS = 10
READS = {
    "/v1/webhook": """
        SELECT
            url, paused, created_at, updated_at, secret_created_at, last_success_at, failing_since,
            failures_in_a_row, suspended_at
        FROM webhook.endpoints WHERE merchant_id = $1
    """,
    "/v1/deliveries": """
        SELECT
            event_id::text, type, created_at, state, failed_reason, attempts, last_status, last_outcome,
            finished_at
        FROM webhook.delivery_log WHERE merchant_id = $1 ORDER BY merchant_id DESC, seq DESC LIMIT 20
    """,
}
"""By path, what is answered with."""


async def _keep(connection: asyncpg.Connection) -> None:
    """Send nothing when a connection is given back."""


async def serve(dsn: str) -> None:
    """Answer until it is ended."""
    pool = await asyncpg.create_pool(dsn, min_size=CONNECTIONS, max_size=CONNECTIONS, reset=_keep)

    async def show(request: web.Request) -> web.Response:
        rows = await pool.fetch(READS[request.path], request.headers[MERCHANT])
        assert rows
        return web.Response(body=orjson.dumps([dict(row) for row in rows]), content_type="application/json")

    app = web.Application()
    for path in READS:
        app.router.add_get(path, show)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(json.dumps({"port": runner.addresses[0][1]}), flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True)
    uvloop.run(serve(parser.parse_args().dsn))


if __name__ == "__main__":
    main()
