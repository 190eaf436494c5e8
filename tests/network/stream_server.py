"""A server on a loopback port whose every connection is a task, and ends with it."""

import asyncio
import ssl
from abc import abstractmethod
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass
class StreamServer:
    """Leaves no connection behind, whatever its tasks are at and however late it came."""

    _tasks: set["asyncio.Task[None]"] = field(default_factory=set, init=False)
    _server: asyncio.Server = field(init=False)
    port: int = field(init=False)

    async def __aenter__(self) -> Self:
        await self._listen("127.0.0.1", 0, None)
        return self

    async def _listen(self, address: str, port: int, context: ssl.SSLContext | None) -> None:
        self._server = await asyncio.start_server(self._serve, address, port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # What asyncio has accepted, but not handed over when its server is closed, it never closes.
        for _ in range(4):
            await asyncio.sleep(0)
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._converse(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Not by the task itself: cancelled before it begins, it runs none of its lines.
        task.add_done_callback(lambda _: writer.transport.abort())

    @abstractmethod
    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk over one connection until it is to end."""
