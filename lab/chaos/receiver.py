"""The merchants' side of a run: each at an address of its own, or behind a host that many of them share.

`python -m lab.chaos.receiver FILE` reads its Setting as JSON. Orders come as lines of JSON on standard
input: {"behave": {"m001": [{"status": 503}]}} or {"shared_host": "refuses"}.
"""

import asyncio
import json
import signal
import ssl
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import uvloop

from lab.chaos.dear import choosing, dear_context, dear_headers
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.local.exchange import Connection, Exchange, Service
from webhook_dispatcher.local.receiver import BACKLOG, Receiver


class SharedHost(StrEnum):
    """How the shared host is."""

    SOUND = "sound"
    REFUSES = "refuses"
    """no connection is accepted"""
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
        self._contexts = {
            SharedHost.SOUND: server_context(ca_file, setting.names),
            SharedHost.UNTRUSTED: server_context(ca_file.with_suffix(".untrusted"), setting.names),
        }
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

    def received(self, exchange: Exchange) -> None:
        """Log a request and behave as planned; what comes to a host that is gone reaches nobody."""
        if _merchant(exchange) in self._hosted and not self._is_served(exchange):
            exchange.disconnect()
        else:
            super().received(exchange)

    def _is_served(self, exchange: Exchange) -> bool:
        """Tell whether a request to the shared host came on a connection that is as they are now."""
        return self._shared_host is SharedHost.SOUND or (
            self._shared_host in self._headers and exchange.connection in self._closing
        )

    def _behave_as(self, behaviours: Mapping[str, Sequence[Mapping[str, float | bool]]]) -> None:
        for merchant_id, turns in behaviours.items():
            self.behave(merchant_id, *map(Behaviour.parse, turns), repeat=True)

    async def _open_shared_host(self, how: SharedHost) -> None:
        """Accept connections as told from now on; kept ones are cut as soon as a request comes."""
        self._shared_host = how
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if how in self._contexts:
            self._shared = await self._listen([self._setting.shared_address], self._contexts[how])

    async def _listen(self, addresses: Sequence[str], tls: ssl.SSLContext | None) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            self._connect if tls is None else self._connect_host,
            *(addresses, self.port),
            ssl=tls,
            backlog=BACKLOG,
        )

    def _connect_host(self) -> Connection:
        """Make a connection of the shared host as they are now."""
        headers = self._headers.get(self._shared_host)
        if headers is None:
            return self._connect()
        self._connection_count += 1
        self._closing.add(self._connection_count)
        connection = ClosingConnection(self, self._connection_count, headers)
        self._connections.add(connection)
        return connection


def _merchant(exchange: Exchange) -> str:
    return unquote(exchange.target.partition("?")[0][1:])


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
