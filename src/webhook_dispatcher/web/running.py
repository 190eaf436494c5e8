"""A program that listens at one address: its databases are checked until it is stopped, then it drains."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from webhook_dispatcher.domain.errors import ConfigurationError, DispatcherError, SchemaMismatch
from webhook_dispatcher.telemetry.address import split_address
from webhook_dispatcher.web.server import WebServer

CHECK_SECONDS = 5.0
"""How often each database is asked whether it is there, and of a version that we serve."""

_log = structlog.get_logger()


class Running:
    """A server from its start until it has drained.

    address: host and port; variable: the setting that has it. grace: seconds that requests under way are
    waited for. stopped: the event that is logged at the end.
    """

    def __init__(self, address: str, variable: str, grace: float, stopped: str) -> None:
        self._address = address
        self._variable = variable
        self._grace = grace
        self._stopped = stopped
        self._stop, self._end_of_grace = asyncio.Event(), asyncio.Event()
        self._failure: DispatcherError | None = None
        self._server: WebServer | None = None
        self.port = 0

    async def _listen(self, server: WebServer, backlog: int) -> None:
        host, port = split_address(self._address)
        try:
            self._listener = await server.loop.create_server(server, host, port, backlog=backlog)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConfigurationError(
                f"{self._variable}: cannot listen on {self._address}: {reason}"
            ) from None
        self.port = self._listener.sockets[0].getsockname()[1]
        server.watch()
        self._server = server

    async def _watch(self, check: Callable[[], Awaitable[None]]) -> None:
        """Check again and again; SchemaMismatch and ConfigurationError end the program."""
        while not self._stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), CHECK_SECONDS)
                return
            try:
                await check()
            except (SchemaMismatch, ConfigurationError) as error:
                self._failure = error
                self.stop()
            except DispatcherError as error:
                _log.warning("database.unchecked", error=str(error))

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()

    def cut_short(self) -> None:
        """End the grace now: requests that are still under way are broken off."""
        self._end_of_grace.set()

    async def finished(self) -> None:
        """Wait until it is asked to end."""
        await self._stop.wait()

    def failure(self) -> DispatcherError | None:
        """Return the error that it ended for; None where it was asked to end."""
        return self._failure

    async def drain(self) -> None:
        """Take no new connections in, let requests under way end, then close."""
        self.stop()
        if self._server is None:
            return
        self._listener.close()
        draining = asyncio.create_task(self._server.drain(self._grace))
        cutting = asyncio.create_task(self._end_of_grace.wait())
        await asyncio.wait([draining, cutting], return_when=asyncio.FIRST_COMPLETED)
        for task in (draining, cutting):
            task.cancel()
        self._server.end()
        _log.info(self._stopped)
