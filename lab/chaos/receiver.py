"""The merchants' side of a run: each at an address of its own, or behind a host that many of them share.

`python -m lab.chaos.receiver FILE` reads its Setting as JSON. Orders come as lines of JSON on standard
input: {"behave": {"m001": [{"status": 503}]}} or {"shared_host": "refuses"}.
"""

import asyncio
import json
import signal
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import uvloop

from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.local.exchange import Exchange
from webhook_dispatcher.local.receiver import BACKLOG, Receiver


class SharedHost(StrEnum):
    """How the shared host is."""

    SOUND = "sound"
    REFUSES = "refuses"
    """no connection is accepted"""
    UNTRUSTED = "untrusted"
    """its certificate is one that nobody trusts"""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a receiver works with.

    port: at every address. addresses: where those merchants are that share no host.
    hosted: who share a host; its certificate is for `names`. ca_file: where its authority is written.
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
        merchant_id = unquote(exchange.target.partition("?")[0][1:])
        if merchant_id in self._hosted and self._shared_host is not SharedHost.SOUND:
            exchange.disconnect()
        else:
            super().received(exchange)

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
            self._connect, addresses, self.port, ssl=tls, backlog=BACKLOG
        )


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
