"""The merchants' side of a run: each at an address of its own, or behind a host that many of them share.

`python -m lab.chaos.receiver FILE` reads its Setting as JSON. Orders come as lines of JSON on standard
input: {"behave": {"m001": [{"status": 503}], "m002.2": null}}, which makes an endpoint do again what all of
its merchant's do, or {"shared_host": "refuses"} or, for merchants whose names
lead to another address from now on, {"moved": {"m004": "127.2.4.1"}, "left_behind": {"status": 503}}.
"""

import asyncio
import json
import signal
import ssl
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import trustme
import uvloop

from lab.chaos.dear import choosing, dear_context, dear_headers
from lab.chaos.evidence import ARRIVED_AT, UNPROVEN
from lab.chaos.labels import merchant_of
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.local.exchange import Connection, Exchange, Service
from webhook_dispatcher.local.receiver import BACKLOG, Receiver


class SharedHost(StrEnum):
    """How the shared host is."""

    SOUND = "sound"
    """its certificate is a new one, each time that this is told"""
    REFUSES = "refuses"
    """no connection is accepted"""
    EXPIRED = "expired"
    """its certificate is a day too old"""
    UNTRUSTED = "untrusted"
    """its certificate is one that nobody trusts"""
    CLOSES = "closes"
    """each connection carries one request"""
    DEAR = "dear"
    """so too, and for some handshake and answer cost as much as they may"""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a receiver works with.

    port: at every address. addresses: where those merchants are that share no host.
    hosted: who share a host; its certificate is for `names`. ca_file: where its authority is written.
    dear, dear_names: those of them who can be dear.
    secrets: what each merchant verifies with. behaviours: as Behaviour.parse reads them, in turn and again.
    """

    port: int
    addresses: Sequence[str]
    shared_address: str
    hosted: Sequence[str]
    names: Sequence[str]
    ca_file: str
    log: str
    secrets: Mapping[str, Sequence[str]]
    behaviours: Mapping[str, Sequence[Mapping[str, float | bool]]]
    dear: Sequence[str] = ()
    dear_names: Sequence[str] = ()


class LocatedConnection(Connection):
    """A connection that says at which address it came."""

    def __init__(self, service: Service, number: int, locate: Callable[[int, str], None]) -> None:
        super().__init__(service, number, time.monotonic)
        self._locate = locate

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say so."""
        super().connection_made(transport)
        self._locate(self.number, transport.get_extra_info("sockname")[0])


class ClosingConnection(Connection):
    """A connection that ends with its first answer, to which some merchants add headers.

    headers: by merchant.
    """

    def __init__(self, service: Service, number: int, headers: Mapping[str, bytes]) -> None:
        super().__init__(service, number, time.monotonic)
        self._headers = headers

    def finish(self, exchange: Exchange, answer: bytes) -> None:
        """Send the answer with more headers, and close."""
        if self._open is exchange and self._transport is not None:
            self._open = None
            more = self._headers.get(_merchant(exchange), b"") + b"Connection: close\r\n"
            self._transport.write(answer.replace(b"\r\n\r\n", b"\r\n%b\r\n" % more))
            self._transport.close()


class Merchants(Receiver):
    """Receives for all merchants while entered; `obey` changes how some of them are."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(port=setting.port, log=Path(setting.log), keep=False)
        self._setting = setting
        self._hosted = frozenset(setting.hosted)
        self._own_addresses: asyncio.Server | None = None
        self._shared: asyncio.Server | None = None
        self._shared_host = SharedHost.SOUND
        ca_file = Path(setting.ca_file)
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(ca_file))
        yesterday = datetime.now(UTC) - timedelta(days=1)
        self._contexts = {
            SharedHost.SOUND: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
            SharedHost.EXPIRED: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
            SharedHost.UNTRUSTED: server_context(ca_file.with_suffix(".untrusted"), setting.names),
        }
        self._exchange_certificate(SharedHost.SOUND)
        self._exchange_certificate(SharedHost.EXPIRED, not_after=yesterday)
        self._contexts[SharedHost.CLOSES] = self._contexts[SharedHost.SOUND]
        self._contexts[SharedHost.DEAR] = choosing(
            setting.dear_names, dear_context(ca_file, setting.dear_names), self._contexts[SharedHost.SOUND]
        )
        dear: Mapping[str, bytes] = dict.fromkeys(setting.dear, dear_headers())
        self._headers: Mapping[SharedHost, Mapping[str, bytes]] = {
            SharedHost.CLOSES: {},
            SharedHost.DEAR: dear,
        }
        self._closing: set[int] = set()
        self._unproven: set[int] = set()
        self._came_to: dict[int, str] = {}
        self._moved: dict[str, tuple[str, Behaviour | None]] = {}
        for merchant_id, known in setting.secrets.items():
            self.accept(merchant_id, *map(Secret, known))
        self._behave_as(setting.behaviours)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._own_addresses = await self._listen(self._setting.addresses, None)
        await self._open_shared_host(SharedHost.SOUND)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (self._own_addresses, self._shared):
            if server is not None:
                server.close()
        await super().__aexit__(kind, error, trace)

    async def obey(self, order: Mapping[str, Any]) -> None:
        """Carry an order out."""
        self._behave_as(order.get("behave", {}))
        if "shared_host" in order:
            await self._open_shared_host(SharedHost(order["shared_host"]))
        if "moved" in order:
            left_behind = Behaviour.parse(order["left_behind"]) if order["left_behind"] else None
            self._moved |= {name: (address, left_behind) for name, address in order["moved"].items()}

    def received(self, exchange: Exchange) -> None:
        """Log a request and behave as planned; what comes to a host that is gone reaches nobody.

        All endpoints of a merchant verify with the same secrets.
        """
        name = _label(exchange)
        if name not in self.secrets and (known := self._setting.secrets.get(merchant_of(name))):
            self.accept(name, *map(Secret, known))
        if _merchant(exchange) in self._moved:
            exchange.headers[ARRIVED_AT] = self._came_to.get(exchange.connection, "")
        if exchange.connection in self._unproven:
            exchange.headers[UNPROVEN] = "yes"
            super().received(exchange)
        elif _merchant(exchange) in self._hosted and not self._is_served(exchange):
            exchange.disconnect()
        else:
            super().received(exchange)

    def _is_served(self, exchange: Exchange) -> bool:
        """Tell whether a request to the shared host came on a connection that is as they are now."""
        return self._shared_host is SharedHost.SOUND or (
            self._shared_host in self._headers and exchange.connection in self._closing
        )

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        super().closed(connection)
        self._came_to.pop(connection.number, None)

    def _behave(self, exchange: Exchange, behaviour: Behaviour) -> None:
        """Behave as planned, but where a merchant has moved and nobody but what was left behind answers."""
        address, left_behind = self._moved.get(_merchant(exchange), ("", None))
        is_left = left_behind is not None and self._came_to.get(exchange.connection) != address
        super()._behave(exchange, left_behind if left_behind is not None and is_left else behaviour)

    def _behave_as(self, behaviours: Mapping[str, Sequence[Mapping[str, float | bool]] | None]) -> None:
        for merchant_id, turns in behaviours.items():
            if turns is None:
                self._plans.pop(merchant_id, None)
            else:
                self.behave(merchant_id, *map(Behaviour.parse, turns), repeat=True)

    def _next_behaviour(self, merchant_id: str, event_turn: int) -> Behaviour:
        """Let an endpoint do what its merchant's do, unless it was told something of its own."""
        name = merchant_id if merchant_id in self._plans else merchant_of(merchant_id)
        return super()._next_behaviour(name, event_turn)

    async def _open_shared_host(self, how: SharedHost) -> None:
        """Accept connections as told from now on; kept ones are cut as soon as a request comes."""
        self._shared_host = how
        if how is SharedHost.SOUND:
            self._exchange_certificate(how)
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if how in self._contexts:
            self._shared = await self._listen([self._setting.shared_address], self._contexts[how])

    def _exchange_certificate(self, of: SharedHost, not_after: datetime | None = None) -> None:
        """Use a new one from now on; connections that there are keep theirs."""
        certificate = self._authority.issue_cert(*self._setting.names, not_after=not_after)
        certificate.configure_cert(self._contexts[of])

    async def _listen(self, addresses: Sequence[str], tls: ssl.SSLContext | None) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            self._connect_own if tls is None else self._connect_host,
            *(addresses, self.port),
            ssl=tls,
            backlog=BACKLOG,
        )

    def _connect_own(self) -> Connection:
        """Make a connection of a merchant with an address of its own."""
        return self._watch_over(LocatedConnection(self, self._next(), self._came_to.__setitem__))

    def _connect_host(self) -> Connection:
        """Make a connection of the shared host as they are now."""
        headers = self._headers.get(self._shared_host)
        if headers is None:
            if self._shared_host is not SharedHost.SOUND:
                self._unproven.add(self._connection_count + 1)
            return self._connect()
        connection = ClosingConnection(self, self._next(), headers)
        self._closing.add(connection.number)
        return self._watch_over(connection)

    def _next(self) -> int:
        self._connection_count += 1
        return self._connection_count

    def _watch_over(self, connection: Connection) -> Connection:
        self._connections.add(connection)
        return connection


def _label(exchange: Exchange) -> str:
    return unquote(exchange.target.partition("?")[0][1:])


def _merchant(exchange: Exchange) -> str:
    return merchant_of(_label(exchange))


async def serve(setting: Setting) -> None:
    """Receive and obey until told to stop, or until whoever gives orders is gone."""
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, orders.feed_eof)
    async with Merchants(setting) as merchants:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while line := await orders.readline():
            await merchants.obey(json.loads(line))


if __name__ == "__main__":
    uvloop.run(serve(Setting(**json.loads(Path(sys.argv[1]).read_text()))))
