"""The daemons' name server: every merchant has a name of its own, which leads to its address."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from tests.network.name_server import SERVFAIL, SILENCE, NameServer, Reply, addresses, listen_on_both

DOMAIN = "merchants.test"
TOO_MANY = 64
"""Addresses in an answer that no datagram holds."""


class Names(NameServer):
    """Answers for the names of merchants, whose addresses it is given, while entered; but for an outage."""

    def __init__(self, addresses_of: Mapping[str, str]) -> None:
        super().__init__({name_of(name): addresses(address) for name, address in addresses_of.items()})
        self._outage: Reply | None = None
        self._replies: Mapping[str, Reply] = {}
        self._moved: dict[str, Reply] = {}
        self._left: list[asyncio.DatagramTransport] = []
        self.address = ""

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def _listen(self) -> None:
        self._stream, self._transport, self._port = await listen_on_both(self)
        self.address = f"127.0.0.1:{self._port}"

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for transport in (*self._left, self._transport):
            transport.close()
        self._stream.close()

    async def leave(self) -> None:
        """Answer at another address from now on; the one before falls silent."""
        self._transport.set_protocol(asyncio.DatagramProtocol())
        self._left.append(self._transport)
        self._stream.close()
        await self._listen()

    def move(self, addresses_of: Mapping[str, str]) -> None:
        """Let names of merchants lead to other addresses from now on."""
        self._moved |= {name_of(name): addresses(address) for name, address in addresses_of.items()}

    def be_silent(self) -> None:
        """Answer nobody."""
        self._outage = SILENCE

    def fail(self) -> None:
        """Answer everybody with SERVFAIL."""
        self._outage = SERVFAIL

    def lose(self, merchants: Iterable[str]) -> None:
        """Answer with a failure whoever asks for one of these merchants' names."""
        self._replies = dict.fromkeys(map(name_of, merchants), SERVFAIL)

    def withhold(self, silent: Iterable[str], truncated: Iterable[str]) -> None:
        """Answer nobody who asks for some merchants' names, and others too largely for UDP, without TCP."""
        self._replies = dict.fromkeys(map(name_of, silent), SILENCE) | {
            name: replace(reply, addresses=[*reply.addresses] * TOO_MANY)
            for name in map(name_of, truncated)
            if isinstance(reply := self._names[name], Reply)
        }
        self._stream.close()

    async def find(self) -> None:
        """Answer for all merchants again, over TCP too."""
        self._replies = {}
        if not self._stream.is_serving():
            self._stream = await asyncio.start_server(self.converse, "127.0.0.1", self._port)

    def heal(self) -> None:
        """Answer everybody again; names that are lost stay so."""
        self._outage = None

    def _reply(self, name: str, kind: int) -> Reply:
        known = self._replies.get(name) or self._moved.get(name)
        return self._outage or known or super()._reply(name, kind)


def name_of(merchant_id: str) -> str:
    """Return the host that a merchant is reached by."""
    return f"{merchant_id.replace('_', '-').lower()}.{DOMAIN}"
