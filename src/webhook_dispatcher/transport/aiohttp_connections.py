"""aiohttp's connector, with every address checked as it is dialled and every connection kept for one URL.

The resolver is no guard: aiohttp asks it nothing about IP literals. `socket_factory` sees the exact sockaddr
of each try (literal, resolved, each Happy Eyeballs branch); after the connect the peer is compared with what
was approved. A `Dial` carries one request's facts from here to the sender; it travels in a context variable,
because that is what the tasks of Happy Eyeballs inherit.
"""

import contextlib
import errno
import socket
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientRequest, ClientTimeout, ServerDisconnectedError, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import AddrInfoType, Connection
from aiohttp.tracing import Trace

from webhook_dispatcher.domain.verdict import may_always
from webhook_dispatcher.transport.addresses import Address, network_of, parse_address
from webhook_dispatcher.transport.aiohttp_answers import AnswerHandler
from webhook_dispatcher.transport.buffers import Buffers
from webhook_dispatcher.transport.failures import Phase, Withheld
from webhook_dispatcher.transport.guard import Forbidden, Guard
from webhook_dispatcher.transport.renewal import Renewals
from webhook_dispatcher.transport.resolver import GuardedResolver

# As in pool.py: before most receivers give an idle connection up.
_KEEP_ALIVE_SECONDS = 15.0


@dataclass(slots=True)
class Dial:
    """What one request learned about its connection.

    scope: connections are kept for requests of the same scope alone.
    is_trusted: the operator allowed the host by name, so any address will do.
    must_be_fresh: no kept connection may be used.
    is_proxied: the connection is the egress proxy's, which may have any address.
    has_reached_proxy, is_tunnelled: how far a new connection through the proxy has come.
    approved: the addresses that sockets were made for.
    refused: why an address was not approved.
    took_name: a name server was asked.
    sockets: those that were made.
    peer: the address of the last connection there was.
    may_send: asked when there is a connection; Withheld: the request may not be sent any more.
    handler: set when there is a connection; the request has not been sent before that.
    """

    scope: str
    is_trusted: bool
    must_be_fresh: bool = False
    is_proxied: bool = False
    has_reached_proxy: bool = False
    is_tunnelled: bool = False
    approved: set[Address] = field(default_factory=set)
    refused: str | None = None
    took_name: bool = False
    sockets: list[socket.socket] = field(default_factory=list)
    peer: Address | None = None
    may_send: Callable[[], bool] = may_always
    handler: AnswerHandler | None = None

    @property
    def is_reused(self) -> bool:
        """Tell whether the request went out on a kept connection."""
        return self.handler is not None and self.handler.requests > 1

    @property
    def network(self) -> str:
        """The network of the peer, or one dialled in vain; empty where no address is known."""
        if self.handler is not None:
            return self.handler.network
        if self.is_proxied or not self.approved:
            return ""
        return min(map(network_of, self.approved)) if self.peer is None else network_of(self.peer)

    def connected(self) -> socket.socket:
        """Return the socket that was connected last, and note its peer. Raises OSError where none is left."""
        for sock in reversed(self.sockets):
            with contextlib.suppress(OSError):
                self.peer = parse_address(sock.getpeername()[0])
                return sock
        for sock in self.sockets:
            sock.close()
        raise OSError(errno.ENOTCONN, "the connection is gone")

    @property
    def phase(self) -> Phase:
        """Say how far the request has come."""
        if self.handler is not None:
            return Phase.READING if self.handler.is_answering else Phase.WAITING
        if self.is_proxied and not self.is_tunnelled:
            return Phase.ASKING_PROXY if self.has_reached_proxy else Phase.REACHING_PROXY
        if self.is_tunnelled or self.peer is not None:
            return Phase.HANDSHAKING
        return Phase.CONNECTING if self.approved else Phase.RESOLVING


current_dial: ContextVar[Dial] = ContextVar("current_dial")


class ScopedRequest(ClientRequest):
    """A request whose connection is kept for others of its scope."""

    @property
    def connection_key(self) -> ConnectionKey:
        """Say for which requests aiohttp may use this one's connection."""
        key = super().connection_key
        return key._replace(proxy_headers_hash=hash((key.proxy_headers_hash, current_dial.get().scope)))


class Resolver(AbstractResolver):
    """The guarded resolver in aiohttp's terms."""

    def __init__(self, resolver: GuardedResolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the host's first addresses. Raises OSError, or Forbidden if any may not be dialled."""
        addresses, current_dial.get().took_name = await self._resolver.resolve(host)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Give up pending look-ups."""
        await self._resolver.close()


class GuardedConnector(TCPConnector):
    """Dial only what the guard allows; keep connections, but not more of them than `kept_connections`."""

    def __init__(self, guard: Guard, resolver: Resolver, kept_connections: int) -> None:
        super().__init__(
            limit=0,
            resolver=resolver,
            use_dns_cache=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            socket_factory=self._make_socket,
        )
        self._guard = guard
        self._kept_connections = kept_connections
        self._kept: set[AnswerHandler] = set()
        self.renewals = Renewals(self._loop)
        # Private to aiohttp, and the only place where its protocol can be given another class.
        # test_half_an_answer_on_a_kept_connection_is_not_resent fails if this stops working.
        self._factory = self._make_handler  # type: ignore[assignment]

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        """Get a connection whose peer is approved, and note in the dial what it is like."""
        dial = current_dial.get()
        while True:
            connection = await super().connect(req, traces, timeout)
            handler = connection.protocol
            assert isinstance(handler, AnswerHandler)
            if not handler.requests or (handler.is_reusable and not dial.must_be_fresh):
                break
            connection.close()
        if not handler.requests:
            self._check_peer(connection, dial)
            handler.network = dial.network
            self.renewals.connected()
            if len(self._kept) < self._kept_connections and handler.connected:
                self._kept.add(handler)
            else:
                handler.force_close()
        if not dial.may_send():
            connection.close()
            raise Withheld
        handler.begin()
        dial.handler = handler
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

    def _make_handler(self) -> AnswerHandler:
        """Make the protocol of the connection that there is now, with or without TLS to come."""
        sock = current_dial.get().connected()
        return AnswerHandler(self._loop, self._kept.discard, Buffers(sock), self.renewals)

    def _make_socket(self, addr_info: AddrInfoType) -> socket.socket:
        """Make the socket for exactly this sockaddr, or refuse it."""
        family, kind, protocol, _, sockaddr = addr_info
        dial = current_dial.get()
        try:
            address = self._guard.check_address(sockaddr[0], dial.is_trusted, dial.is_proxied)
        except Forbidden as error:
            dial.refused = error.reason
            # An OSError is what Happy Eyeballs can digest; the sender reads `refused`.
            raise PermissionError(errno.EACCES, "refused by the egress policy") from error
        dial.approved.add(address)
        sock = socket.socket(family, kind, protocol)
        dial.sockets.append(sock)
        return sock

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
