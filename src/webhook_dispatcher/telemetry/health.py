"""A small HTTP server for operators: /metrics, /healthz (the process lives), /readyz (it can deliver).

It never takes anything from deliveries: connections are few and short-lived (the oldest goes when a new one
comes), and metrics are rendered at most four times a second, however often they are asked for.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.telemetry.address import split_address

MAX_CONNECTIONS = 64
MAX_CONNECTION_SECONDS = 10.0
RENDERED_FOR_SECONDS = 0.25
MAX_LINE_BYTES = 4096
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class OpsServer:
    """Serves while it is entered.

    readiness: names what stands in the way of delivering, if anything. notes: names what operators should
    know although it is no fault. setting: what has the address, for when it cannot be listened on.
    """

    def __init__(
        self,
        address: str,
        registry: CollectorRegistry,
        readiness: Callable[[], Sequence[str]],
        notes: Callable[[], Sequence[str]],
        setting: str = "WEBHOOK_OPS_ADDRESS",
    ) -> None:
        self._address = address
        self._registry = registry
        self._readiness = readiness
        self._notes = notes
        self._setting = setting
        self._latest: deque[web.RequestHandler] = deque()
        self._rendered = b""
        self._rendered_until = 0.0
        self.port = split_address(address)[1]

    async def __aenter__(self) -> Self:
        host, port = split_address(self._address)
        app = web.Application(client_max_size=MAX_LINE_BYTES)
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
            ]
        )
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=MAX_CONNECTION_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            shutdown_timeout=0.5,
        )
        await self._runner.setup()
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._accept, host, port, backlog=MAX_CONNECTIONS
            )
        except OSError as error:
            await self._runner.cleanup()
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConfigurationError(f"{self._setting}: cannot listen on {self._address}: {reason}") from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._runner.cleanup()
        await self._server.wait_closed()

    def _accept(self) -> asyncio.Protocol:
        """Let a connection in; each ends after a while, and earlier when too many come."""
        if len(self._latest) >= MAX_CONNECTIONS:
            _abort(self._latest.popleft())
        assert self._runner.server is not None
        connection = self._runner.server()
        self._latest.append(connection)
        asyncio.get_running_loop().call_later(MAX_CONNECTION_SECONDS, _abort, connection)
        return connection

    async def _metrics(self, request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        if now >= self._rendered_until:
            self._rendered = generate_latest(self._registry)
            self._rendered_until = now + RENDERED_FOR_SECONDS
        return web.Response(body=self._rendered, headers={"Content-Type": METRICS_TYPE})

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        reasons, notes = self._readiness(), self._notes()
        lines = [*(reasons or ["ready"]), *notes]
        return web.Response(status=503 if reasons else 200, text="".join(f"{line}\n" for line in lines))


def _abort(connection: web.RequestHandler) -> None:
    if connection.transport is not None:
        connection.transport.abort()
