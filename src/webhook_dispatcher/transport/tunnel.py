"""The way through the egress proxy: one CONNECT, and its answer's head."""

import asyncio
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade

from webhook_dispatcher.transport.failures import Disconnected, Malformed
from webhook_dispatcher.transport.guard import Target
from webhook_dispatcher.transport.parsing import MAX_HEAD_BYTES, answer_parser
from webhook_dispatcher.transport.proxy import Proxy, TunnelRefused


class Tunnel(asyncio.Protocol):
    """The protocol of a connection to the proxy, until TLS takes its place."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._opened: asyncio.Future[None] = loop.create_future()
        self._head_bytes = 0
        self._is_challenge = False
        self.transport: asyncio.Transport | None = None

    async def open(self, target: Target, proxy: Proxy, user_agent: str) -> None:
        """Ask for the tunnel. Raises TunnelRefused, Malformed, Disconnected, OSError."""
        url = target.url
        lines = [
            f"CONNECT {url.host_subcomponent}:{url.port} HTTP/1.1",
            f"Host: {url.host_port_subcomponent}",
            f"User-Agent: {user_agent}",
            *[f"{name}: {value}" for name, value in proxy.headers().items()],
        ]
        if self.transport is not None:
            self.transport.write("\r\n".join((*lines, "", "")).encode())
        await self._opened

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to parse."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass
        self._parser = answer_parser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        self._end(exc or Disconnected())

    def data_received(self, data: bytes) -> None:
        """Parse a piece of the answer."""
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._end(Malformed())
        if self._head_bytes > MAX_HEAD_BYTES:
            self._end(Malformed())

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note that the proxy says how to authenticate."""
        if name.lower() == b"proxy-authenticate":
            self._is_challenge = True

    def on_headers_complete(self) -> None:
        """Take the status: nothing but 200 opens a tunnel."""
        status: int = self._parser.get_status_code()
        if 100 <= status < 200:
            return
        if status != 200:
            self._end(TunnelRefused(status, self._is_challenge))
        elif not self._opened.done():
            self._opened.set_result(None)

    def _end(self, error: Exception) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)
