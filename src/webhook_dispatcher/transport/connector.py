"""Connections: every address checked as it is dialled, every connection known as fresh or reused.

The resolver is no guard: aiohttp asks it nothing about IP literals. `socket_factory` sees the exact sockaddr
of each try (literal, resolved, each Happy Eyeballs branch); after the connect the peer is compared with what
was approved. A `Dial` carries one request's facts from here to the sender; it travels in a context variable,
because that is what the tasks of Happy Eyeballs inherit.
"""

import asyncio
import errno
import functools
import socket
import ssl
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientRequest, ClientTimeout, ServerDisconnectedError, TCPConnector
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType, Connection
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.tracing import Trace

from webhook_dispatcher.transport.addresses import Address, parse_address
from webhook_dispatcher.transport.guard import Forbidden, Guard
from webhook_dispatcher.transport.reading import Phase

# Idle connections are given up before most receivers do it (Node closes after 5 s, nginx after 75 s); what is
# closed under our hands all the same is sent again by the sender.
_KEEP_ALIVE_SECONDS = 15.0

# What may come before an answer is final: many long headers would be held in memory, and many 1xx parsed.
_MOST_HEAD_BYTES = 256 * 1024
_MOST_INTERIM = 64
_INTERIM = (b"HTTP/1.1 1", b"HTTP/1.0 1")
_SWITCHING_PROTOCOLS = 101


class Wire(ResponseHandler):
    """aiohttp's protocol of one connection; it also counts requests and notes an answer's first byte."""

    def __init__(self, connector: "GuardedConnector", loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._connector = connector
        self.requests = 0
        self.is_kept = False
        self.begin()

    def begin(self) -> None:
        """Prepare for the answer to another request."""
        self.is_answering = False
        self._is_answered = False
        self._head_bytes = 0
        self._interim = 0

    def connection_lost(self, exc: BaseException | None) -> None:
        """Make room for another kept connection."""
        if self.is_kept:
            self.is_kept = False
            self._connector.kept_wires -= 1
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note that the receiver has begun to answer, and end an answer that does not come to the point."""
        self.is_answering = True
        if self._is_answered:
            super().data_received(data)
            return
        self._head_bytes += len(data)
        # Counted before they are parsed: each costs as much as a whole answer.
        is_flood = data.startswith(_INTERIM) and data.count(b"\nHTTP/1.") > _MOST_INTERIM
        if not is_flood:
            super().data_received(data)
            is_flood = not self._is_answered and (
                self._head_bytes > _MOST_HEAD_BYTES or self._interim > _MOST_INTERIM
            )
        if is_flood and self.transport is not None:
            self.set_exception(BadHttpMessage("too much before the final answer"))
            self.transport.abort()

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Note the final answer among those that announce it (1xx)."""
        code = data[0].code
        if 100 <= code < 200 and code != _SWITCHING_PROTOCOLS:
            self._interim += 1
        else:
            self._is_answered = True
        super().feed_data(data, size)


@dataclass(slots=True)
class Dial:
    """What one request learned about its connection.

    is_trusted: the operator allowed the host by name, so any address will do.
    must_be_fresh: no kept connection may be used.
    is_proxied: the connection is the egress proxy's, which may have any address.
    has_reached_proxy, is_tunnelled: how far a new connection through the proxy has come.
    approved: the addresses that sockets were made for.
    wire: set when there is a connection; the request has not been sent before that.
    """

    is_trusted: bool
    must_be_fresh: bool = False
    is_proxied: bool = False
    has_reached_proxy: bool = False
    is_tunnelled: bool = False
    approved: set[Address] = field(default_factory=set)
    refused: str | None = None
    wire: Wire | None = None

    @property
    def is_stale(self) -> bool:
        """Tell, after a failure, whether a reused connection broke before any byte of an answer."""
        return self.wire is not None and self.wire.requests > 1 and not self.wire.is_answering

    @property
    def phase(self) -> Phase:
        """Say how far the request has come."""
        if self.wire is not None:
            return Phase.READING if self.wire.is_answering else Phase.WAITING
        if self.is_proxied and not self.is_tunnelled:
            return Phase.ASKING_PROXY if self.has_reached_proxy else Phase.REACHING_PROXY
        return Phase.CONNECTING if self.approved else Phase.RESOLVING


current_dial: ContextVar[Dial] = ContextVar("current_dial")


class GuardedConnector(TCPConnector):
    """Dial only what the guard allows; keep connections, but not more of them than `kept_connections`."""

    def __init__(
        self, guard: Guard, resolver: AbstractResolver, context: ssl.SSLContext, kept_connections: int
    ) -> None:
        super().__init__(
            limit=0,
            ssl=context,
            resolver=resolver,
            use_dns_cache=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            socket_factory=self._make_socket,
        )
        self._guard = guard
        self._kept_connections = kept_connections
        self.kept_wires = 0
        # Private to aiohttp, and the only place where its protocol can be given another class.
        # test_half_an_answer_on_a_kept_connection_is_not_resent fails if this stops working.
        self._factory = functools.partial(Wire, self, self._loop)  # type: ignore[assignment]

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,
    ) -> Connection:
        """Get a connection whose peer is approved, and note in the dial what it is like."""
        dial = current_dial.get()
        while True:
            connection = await super().connect(req, traces, timeout)
            wire = connection.protocol
            assert isinstance(wire, Wire)
            # should_close: bytes that nobody asked for came while it was idle, such as a 408.
            if not wire.requests or not (dial.must_be_fresh or wire.should_close):
                break
            connection.close()
        if not wire.requests:
            self._check_peer(connection, dial)
            self._keep(wire)
        wire.requests += 1
        wire.begin()
        dial.wire = wire
        return connection

    # Private to aiohttp: the steps of a connection through a proxy. Should they be renamed, every failure
    # behind the proxy would count as the proxy's; test_sender_proxy fails then.
    async def _create_direct_connection(self, *args: Any, **kwargs: Any) -> Any:
        connection = await super()._create_direct_connection(*args, **kwargs)
        current_dial.get().has_reached_proxy = True
        return connection

    async def _start_tls_connection(self, *args: Any, **kwargs: Any) -> Any:
        current_dial.get().is_tunnelled = True
        return await super()._start_tls_connection(*args, **kwargs)

    def _keep(self, wire: Wire) -> None:
        """Keep a new connection after its answer if there is room."""
        if self.kept_wires < self._kept_connections and wire.connected:
            self.kept_wires += 1
            wire.is_kept = True
        else:
            wire.force_close()

    def _make_socket(self, addr_info: AddrInfoType) -> socket.socket:
        """Make the socket for exactly this sockaddr, or refuse it."""
        family, kind, protocol, _, sockaddr = addr_info
        dial = current_dial.get()
        try:
            address = self._approve(sockaddr, dial)
        except Forbidden as error:
            dial.refused = error.reason
            # An OSError is what Happy Eyeballs can digest; the sender reads `refused`.
            raise PermissionError(errno.EACCES, "refused by the egress policy") from error
        dial.approved.add(address)
        return socket.socket(family, kind, protocol)

    def _approve(self, sockaddr: tuple[object, ...], dial: Dial) -> Address:
        """Return the address of a sockaddr that may be dialled. Raises Forbidden."""
        host = sockaddr[0]
        # Anything but a literal would be resolved again by sock_connect, behind our back.
        address = parse_address(host) if isinstance(host, str) else None
        if address is None:
            raise Forbidden("what was to be dialled is not an IP address")
        if not dial.is_proxied:
            self._guard.check_address(str(address), dial.is_trusted)
        return address

    def _check_peer(self, connection: Connection, dial: Dial) -> None:
        """Close the connection and raise unless its peer is one that was approved."""
        try:
            peer = connection.transport.get_extra_info("peername") if connection.transport else None
        except OSError:
            peer = None
        if peer is None:
            connection.close()
            raise ServerDisconnectedError
        if dial.refused is None and parse_address(peer[0]) in dial.approved:
            return
        connection.close()
        raise Forbidden(dial.refused or "the connection's peer is not the address that was dialled")
