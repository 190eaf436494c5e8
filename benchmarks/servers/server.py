"""What is asked of every server that is measured, and what those have in common that take events by HTTP."""

import asyncio
import json
import subprocess
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

from benchmarks.processes import cpu_seconds

Publish = Callable[[str, str], Awaitable[None]]
"""Takes a merchant and the text of an object; returns when the event is the server's to deliver."""
PATIENCE = 60.0
COMPOSE = ("docker", "compose", "--file", str(Path(__file__).with_name("compose.yaml")))


class Server(Protocol):
    """A server at work; its worker, which delivers, can be ended and started again."""

    name: str
    version: str

    async def register(self, urls: Mapping[str, str]) -> None:
        """Have each merchant's events go to its URL."""

    async def connect(self, stack: AsyncExitStack) -> Publish:
        """Open a connection to publish by, one event after the other, until the stack is left."""

    def end_worker(self, *, by_kill: bool) -> None:
        """End what delivers, with or without warning."""

    def start_worker(self) -> None:
        """Start it again."""

    def cpu_seconds(self) -> float:
        """Return what all of its programs and stores have used of the processor so far."""


class Programs(Protocol):
    """A rival's processes."""

    def end_worker(self, *, by_kill: bool) -> None: ...

    def start_worker(self) -> None: ...

    def cpu_seconds(self) -> float: ...


class Compose:
    """The processes of compose.yaml with one profile, whose worker is the service `<profile>-worker`."""

    def __init__(self, profile: str) -> None:
        self._command = [*COMPOSE, "--profile", profile]
        self._worker = f"{profile}-worker"
        self._ended = 0.0

    def end_worker(self, *, by_kill: bool) -> None:
        self._ended += self._used(self._worker)
        self._run("kill" if by_kill else "stop", self._worker)

    def start_worker(self) -> None:
        self._run("start", self._worker)

    def cpu_seconds(self) -> float:
        return self._ended + self._used()

    def _used(self, *services: str) -> float:
        """Return what these containers have used, or all; what has ended is counted no more."""
        ids = self._run("ps", "--quiet", *services).split()
        pids = _output("docker", "inspect", "--format", "{{.State.Pid}}", *ids).split()
        return sum(cpu_seconds(int(pid)) for pid in pids)

    def _run(self, *arguments: str) -> str:
        return _output(*self._command, *arguments)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Client:
    """One kept connection of a client light enough not to be the limit."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: Mapping[str, str]
    ) -> None:
        self._reader, self._writer = reader, writer
        self._headers = "".join(f"{name}: {text}\r\n" for name, text in headers.items())

    async def ask(self, method: str, path: str, body: str) -> bytes:
        """Send a JSON document and return the answer's body; SystemExit unless it is 2xx."""
        reader, data = self._reader, body.encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}{self._headers}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        status, *fields = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        length = next((int(line[15:]) for line in fields if line.startswith(b"content-length:")), None)
        answer = await _chunked(reader) if length is None else await reader.readexactly(length)
        if not status.startswith(b"http/1.1 2"):
            raise SystemExit(f"{method} {path}: {status.decode()} {answer[:300].decode()}")
        return answer


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts)


class Rival:
    """A server that takes events by HTTP; a module for each says how."""

    name: str
    version: str
    port: int

    def __init__(self, programs: Programs, headers: Mapping[str, str], port: int | None = None) -> None:
        self._headers = headers
        self._port = port or self.port
        self.end_worker, self.start_worker = programs.end_worker, programs.start_worker
        self.cpu_seconds = programs.cpu_seconds

    @abstractmethod
    async def add(self, client: Client, merchant: str, url: str) -> None:
        """Register one merchant's endpoint."""

    @abstractmethod
    def event(self, merchant: str, text: str) -> tuple[str, str]:
        """Return path and body of a POST that publishes an event."""

    async def register(self, urls: Mapping[str, str]) -> None:
        """Have each merchant's events go to its URL."""
        async with AsyncExitStack() as stack:
            client = await self._client(stack)
            for merchant, url in urls.items():
                await self.add(client, merchant, url)

    async def connect(self, stack: AsyncExitStack) -> Publish:
        """Open a connection to publish by."""
        client = await self._client(stack)

        async def publish(merchant: str, text: str) -> None:
            await client.ask("POST", *self.event(merchant, text))

        return publish

    async def _client(self, stack: AsyncExitStack) -> Client:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                    break
                except ConnectionRefusedError:  # it has not come up yet
                    await asyncio.sleep(0.2)
        stack.callback(writer.close)
        return Client(reader, writer, self._headers)


def document(**members: Any) -> str:
    """Render a JSON document."""
    return json.dumps(members)
