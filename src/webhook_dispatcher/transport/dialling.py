"""New connections: every address is checked exactly where the socket for it is made.

The resolver is no guard: it is not asked about IP literals. `_make_socket` sees the very sockaddr of each try
(literal, resolved, each Happy Eyeballs branch); after the connect the peer is compared with what was
approved.
With an egress proxy, the proxy is dialled, and TLS is spoken inside its tunnel.
"""

import asyncio
import errno
import functools
import socket
import ssl
from dataclasses import dataclass, field
from typing import cast

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType

from webhook_dispatcher.transport.addresses import Address, network_of, parse_address
from webhook_dispatcher.transport.authorities import Authorities
from webhook_dispatcher.transport.buffers import Buffers
from webhook_dispatcher.transport.connection import HttpConnection
from webhook_dispatcher.transport.costly import Cost, Turns
from webhook_dispatcher.transport.failures import (
    ConnectFailed,
    Disconnected,
    HandshakeFailed,
    NameFailed,
    Phase,
)
from webhook_dispatcher.transport.guard import Forbidden, Guard, Target
from webhook_dispatcher.transport.pool import Pool
from webhook_dispatcher.transport.proxy import Proxy
from webhook_dispatcher.transport.resolver import GuardedResolver, TooManyAddresses
from webhook_dispatcher.transport.tls import charging
from webhook_dispatcher.transport.tunnel import Tunnel

Peer = tuple[str, int] | tuple[str, int, int, int]

# Source: RFC 8305, 8.
_NEXT_ADDRESS_SECONDS = 0.25

# What reading one takes of the event loop, in c-ares and in pycares.
_ADDRESS_SECONDS = 1e-5

# The attempt's deadline is to end a handshake, not asyncio's own.
_HANDSHAKE_SECONDS = 3600.0


@dataclass(slots=True)
class Dial:
    """What one attempt learned while it made its connection.

    phase: how far it came.
    approved: the addresses that sockets were made for: receivers', or the proxy's.
    refused: why an address was not approved.
    took_name: a name server was asked.
    peer: the address of the last connection there was.
    cost: what look-up and handshakes took of the event loop.
    """

    phase: Phase
    approved: set[Address] = field(default_factory=set)
    refused: str | None = None
    took_name: bool = False
    peer: Address | None = None
    cost: Cost = field(default_factory=Cost)

    def origin(self, target: Target, proxy: Proxy | None) -> str:
        """Return the network of the peer, or one that was dialled in vain; else the target's host."""
        if proxy is not None or not self.approved:
            return target.url.raw_host or ""
        if self.peer is not None:
            return network_of(self.peer)
        return min(map(network_of, self.approved))  # the same for all names that lead to the same addresses


class Dialler:
    """Make connections to targets, or through the proxy to them; none is used for anything else."""

    def __init__(
        self,
        guard: Guard,
        resolver: GuardedResolver,
        authorities: Authorities,
        pool: Pool,
        proxy: Proxy | None,
        user_agent: str,
        excerpt_bytes: int,
    ) -> None:
        self._guard = guard
        self._resolver = resolver
        self._authorities = authorities
        self._pool = pool
        self._proxy = proxy
        self._user_agent = user_agent
        self._excerpt_bytes = excerpt_bytes
        self._loop = asyncio.get_running_loop()
        self._turns = Turns(self._loop)

    def begin(self) -> Dial:
        """Begin to note what is learned."""
        return Dial(Phase.RESOLVING if self._proxy is None else Phase.REACHING_PROXY)

    async def dial(self, target: Target, dial: Dial) -> HttpConnection:
        """Connect, in its turn where the last connection was costly.

        Errors: Forbidden, NameFailed, ConnectFailed, HandshakeFailed, ssl.SSLError; those of Tunnel.
        """
        first_phase, dial.phase = dial.phase, Phase.AWAITING_TURN
        async with self._turns.turn(target.origin, dial.cost):
            dial.phase = first_phase
            with charging(dial.cost):
                return await self._dial_each(target, dial)

    async def _dial_each(self, target: Target, dial: Dial) -> HttpConnection:
        """Connect; what goes wrong at one address is tried at the next, unless it was costly."""
        url = target.url if self._proxy is None else self._proxy.url
        infos = await self._addresses(url.raw_host or "", url.port or 0, dial)
        while True:
            sock, peer = await self._connect(infos, target, dial)
            try:
                return await self._open(sock, target, dial)
            except (ConnectFailed, HandshakeFailed, ssl.SSLError):
                if self._proxy is not None or dial.cost.is_high:
                    raise
                aiohappyeyeballs.remove_addr_infos(infos, peer)
                if not infos:
                    raise

    async def _addresses(self, host: str, port: int, dial: Dial) -> list[AddrInfoType]:
        """Return what may be tried. Raises NameFailed, Forbidden."""
        addresses = [host]
        if parse_address(host) is None:
            try:
                addresses, dial.took_name = await self._resolver.resolve(host)
            except TooManyAddresses as error:
                dial.cost.seconds += error.count * _ADDRESS_SECONDS
                raise NameFailed from error
            except OSError as error:
                raise NameFailed from error
        return [_address_info(address, port) for address in addresses]

    async def _connect(
        self, infos: list[AddrInfoType], target: Target, dial: Dial
    ) -> tuple[socket.socket, Peer]:
        """Connect to the first address that answers, and say which. Raises ConnectFailed, Forbidden."""
        try:
            sock = await aiohappyeyeballs.start_connection(
                infos,
                happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                socket_factory=functools.partial(self._make_socket, target, dial),
            )
        except (OSError, RuntimeError) as error:  # uvloop raises RuntimeError where asyncio raises OSError
            if dial.refused is not None:
                raise Forbidden(dial.refused) from error
            raise ConnectFailed from error
        try:
            return sock, _approved_peer(sock, dial)
        except BaseException:
            sock.close()
            raise

    def _make_socket(self, target: Target, dial: Dial, info: AddrInfoType) -> socket.socket:
        """Make the socket for exactly this sockaddr, or refuse it."""
        family, kind, protocol, _, sockaddr = info
        try:
            address = self._guard.check_address(sockaddr[0], target.is_trusted, self._proxy is not None)
        except Forbidden as error:
            dial.refused = error.reason
            # An OSError is what Happy Eyeballs can digest.
            raise PermissionError(errno.EACCES, "refused by the egress policy") from error
        dial.approved.add(address)
        if self._proxy is None:
            dial.phase = Phase.CONNECTING
        return socket.socket(family, kind, protocol)

    async def _open(self, sock: socket.socket, target: Target, dial: Dial) -> HttpConnection:
        """Make the protocol's connection of a connected socket, with all that has to be agreed before."""
        lost, buffers = self._pool.forget, Buffers(sock)
        if target.url.scheme == "http":
            connection = HttpConnection(self._loop, target.origin, buffers, lost, self._excerpt_bytes)
            await self._create(connection, sock)
        else:
            buffers.carrier = carrier = await self._carry(sock, target, dial)
            dial.phase = Phase.HANDSHAKING
            connection = HttpConnection(self._loop, target.origin, buffers, lost, self._excerpt_bytes)
            await self._secure(carrier, connection, target.url.raw_host)
        connection.network = dial.origin(target, self._proxy)
        connection.was_costly = dial.cost.is_high
        connection.took_name = dial.took_name or self._proxy is not None
        self._pool.add(connection)
        return connection

    async def _carry(self, sock: socket.socket, target: Target, dial: Dial) -> asyncio.Transport:
        """Return what TLS is spoken over: the connection, or the tunnel in it that the proxy opened."""
        if self._proxy is None:
            return await self._create(SilentProtocol(), sock)
        tunnel = Tunnel(self._loop)
        carrier = await self._create(tunnel, sock)
        dial.phase = Phase.ASKING_PROXY
        try:
            await tunnel.open(target, self._proxy, self._user_agent)
        except BaseException:
            carrier.abort()
            raise
        return carrier

    async def _create(self, protocol: asyncio.Protocol, sock: socket.socket) -> asyncio.Transport:
        """Give the socket to the loop."""
        try:
            transport, _ = await self._loop.create_connection(lambda: protocol, sock=sock)
        except BaseException:
            # It may be that the loop has not taken it yet.
            sock.close()
            raise
        return transport

    async def _secure(self, carrier: asyncio.Transport, connection: HttpConnection, host: str | None) -> None:
        """Speak TLS with the receiver at the other end, as far as the end of the handshake."""
        try:
            if carrier.is_closing():
                raise HandshakeFailed
            try:
                # Not in one step by create_connection: nothing would tell how much the carrier has not sent.
                transport = await self._loop.start_tls(
                    carrier,
                    connection,
                    self._authorities.context(),
                    server_hostname=host,
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                )
            except ssl.SSLError:
                raise
            except (ConnectionResetError, ConnectionAbortedError) as error:
                # A refused SYN is ECONNREFUSED; a reset on the way to a connection is the handshake's.
                raise HandshakeFailed from error
            except (OSError, RuntimeError) as error:
                raise ConnectFailed from error
            if transport is None:
                raise Disconnected
        except BaseException:
            carrier.abort()
            raise
        connection.connection_made(transport)


class SilentProtocol(asyncio.Protocol):
    """The protocol of a connection before TLS is spoken on it: what speaks first does not speak TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass

    def data_received(self, data: bytes) -> None:
        """Close at once."""
        self._transport.abort()


def _address_info(address: str, port: int) -> AddrInfoType:
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))


def _approved_peer(sock: socket.socket, dial: Dial) -> Peer:
    """Return who is at the other end. Raises Forbidden unless that is an address that was approved."""
    try:
        peer: Peer = sock.getpeername()
    except OSError as error:
        raise ConnectFailed from error
    address = parse_address(peer[0])
    if dial.refused is not None or address not in dial.approved:
        raise Forbidden(dial.refused or "the connection's peer is not the address that was dialled")
    dial.peer = address
    return peer
