"""The daemons' name server: every merchant has a name of its own, and all of them lead to this machine."""

import asyncio
from types import TracebackType
from typing import Self

from tests.integration.name_server import SERVFAIL, SILENCE, NameServer, Reply, addresses

DOMAIN = "merchants.test"
HERE = addresses("127.0.0.1")


class Names(NameServer):
    """Answers any name below its domain while entered, except during an outage."""

    def __init__(self) -> None:
        super().__init__({})
        self._outage: Reply | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._stream = await asyncio.start_server(self.converse, "127.0.0.1", 0)
        port: int = self._stream.sockets[0].getsockname()[1]
        await loop.create_datagram_endpoint(lambda: self, ("127.0.0.1", port))
        self.address = f"127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.close()
        self._stream.close()

    def name_of(self, merchant_id: str) -> str:
        """Return the host that a merchant is reached by."""
        return f"{merchant_id.replace('_', '-').lower()}.{DOMAIN}"

    def be_silent(self) -> None:
        """Answer nobody."""
        self._outage = SILENCE

    def fail(self) -> None:
        """Answer everybody with SERVFAIL."""
        self._outage = SERVFAIL

    def heal(self) -> None:
        """Answer again."""
        self._outage = None

    def _reply(self, name: str, kind: int) -> Reply:
        return self._outage or (HERE if name.endswith(f".{DOMAIN}") else super()._reply(name, kind))
