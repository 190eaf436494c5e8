"""A daemon's way to the database: a port of 127.0.0.1 before the server's socket, which breaks as asked."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import trustme

from lab.chaos.postgres_protocol import GSS_REQUEST, SSL_REQUEST, Conversation, Loss

CHUNK = 65536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER of no seconds


class Mode(Enum):
    """How a link is broken."""

    SOUND = auto()
    BLACKHOLE = auto()
    """accepts everything, passes nothing on"""
    REFUSES = auto()
    """new connections are reset; the others go on"""
    HALF_OPEN = auto()
    """the server does not learn that a client is gone"""


class Link:
    """Listens on a port of its own while entered, and passes on to the server's socket.

    It is in one mode at a time; `restore` makes it sound again. With a file for its authority's certificate
    it speaks TLS, and its URL asks for that.
    """

    def __init__(self, server: Path, root_file: Path | None = None) -> None:
        self._path = server
        self._root_file = root_file
        self.tls: ssl.SSLContext | None = None
        if root_file is not None:
            self.exchange_certificate()
            self.publish_root()
        self._mode = Mode.SOUND
        self._sound = asyncio.Event()
        self._sound.set()
        self._delay = 0.0
        self._losses: list[Loss] = []
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.restore()
        self.cut()
        await asyncio.gather(*self._connections.values(), return_exceptions=True)
        await self._server.wait_closed()

    def dsn(self, user: str, database: str) -> str:
        """Return the URL of a database behind this link."""
        url = f"postgresql://{quote(user, safe='')}@127.0.0.1:{self.port}/{quote(database, safe='')}"
        if self._root_file is None:
            return url
        return f"{url}?sslmode=verify-full&sslrootcert={quote(str(self._root_file))}"

    def exchange_certificate(self) -> None:
        """Take one of another authority, which nobody knows before `publish_root`, for new connections."""
        authority = trustme.CA()
        self._root = authority.cert_pem
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self.tls)

    def publish_root(self) -> None:
        """Put the authority's certificate where the URL says, in place of the one before."""
        assert self._root_file is not None
        new = self._root_file.with_suffix(".new")
        self._root.write_to_path(str(new))
        new.replace(self._root_file)

    @property
    def connections(self) -> int:
        """How many connections it holds, half-open ones too."""
        return len(self._connections)

    def cut(self) -> None:
        """Reset every connection; of a half-open link, the client's side of it."""
        for connection in self._connections:
            connection.reset(keeps_server=self._mode is Mode.HALF_OPEN)

    def blackhole(self) -> None:
        """Pass nothing on in either direction, ends of connections included; new connections hang."""
        self._break(Mode.BLACKHOLE)

    def refuse(self) -> None:
        """Reset new connections at once; those that stand go on."""
        self._break(Mode.REFUSES)

    def half_open(self) -> None:
        """Keep the ends of clients from the server: it holds their sessions until `restore`."""
        self._break(Mode.HALF_OPEN)

    def slow(self, seconds: float) -> None:
        """Delay each piece of either direction so long; whatever the mode, until `restore`."""
        self._delay = seconds

    def lose_next_reply(self, statement: str) -> asyncio.Future[bool]:
        """Lose the reply that says that this statement is committed, and reset its client.

        statement: its SQL, or a piece of it. Inside a transaction the reply to COMMIT is lost.
        Returns what is True once it has happened, and False if `restore` came before; cancel it to call
        it off.
        """
        loss = Loss(statement)
        self._losses.append(loss)
        return loss.happened

    def restore(self) -> None:
        """Be sound again; connections that lost something, or whose client is gone, are reset."""
        self._mode, self._delay = Mode.SOUND, 0.0
        for loss in self._losses:
            loss.settle(False)
        self._losses.clear()
        for connection in self._connections:
            if connection.has_lost:
                connection.reset()
        self._sound.set()

    def _break(self, mode: Mode) -> None:
        self.restore()
        self._mode = mode
        self._sound.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is Mode.REFUSES:
            _reset(writer)
            return
        connection = _Connection(self, reader, writer, Conversation(self._losses))
        task = asyncio.current_task()
        assert task is not None
        self._connections[connection] = task
        try:
            await connection.run(self._path)
        finally:
            del self._connections[connection]

    async def is_passable(self) -> bool:
        """Wait as slow as the link is; False when it swallows what comes (for its connections)."""
        if self._delay:
            await asyncio.sleep(self._delay)
        return self._mode is not Mode.BLACKHOLE

    def hides_end(self, is_client: bool) -> bool:
        """Tell whether one side must not learn that the other is gone (for its connections)."""
        return self._mode is Mode.BLACKHOLE or (is_client and self._mode is Mode.HALF_OPEN)

    async def until_sound(self) -> None:
        """Wait for the next `restore` (for its connections)."""
        await self._sound.wait()


class _Connection:
    """One client and its session at the server."""

    def __init__(
        self, link: Link, reader: asyncio.StreamReader, client: asyncio.StreamWriter, talk: Conversation
    ) -> None:
        self._link = link
        self._reader = reader
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._talk = talk
        self.has_lost = False

    async def run(self, path: Path) -> None:
        """Pass on both ways until either side is gone."""
        try:
            startup = await self._read_startup()
            reader, self._server = await asyncio.open_unix_connection(path)
            self._server.write(startup)
            await self._pass_on_both_ways(reader, self._server)
        except (OSError, asyncio.IncompleteReadError):
            await self._end(is_client=True)
            self.reset()
        finally:
            self._talk.ended()
            self._client.close()
            if self._server is not None:
                self._server.close()

    def reset(self, keeps_server: bool = False) -> None:
        """End it without a word, on both sides or on the client's alone."""
        _reset(self._client)
        self.has_lost = True
        if self._server is not None and not keeps_server:
            self._server.transport.abort()

    async def _read_startup(self) -> bytes:
        """Read the packet that begins a session; a question for TLS before it is answered."""
        while True:
            head = await self._reader.readexactly(8)
            if not await self._link.is_passable():
                raise ConnectionAbortedError
            length, code = struct.unpack(">ii", head)
            if code not in (SSL_REQUEST, GSS_REQUEST):
                return head + await self._reader.readexactly(length - 8)
            if code == SSL_REQUEST and self._link.tls is not None:
                self._client.write(b"S")
                await self._start_tls(self._link.tls)
            else:
                self._client.write(b"N")

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        """Encrypt what is said to the client; ConnectionAbortedError where it breaks the handshake off."""
        # Not the writer's own start_tls: where the client is gone, that leaves nothing to close.
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await self._client.drain()
        transport = await loop.start_tls(self._client.transport, protocol, context, server_side=True)
        if transport is None:
            raise ConnectionAbortedError
        protocol.connection_made(transport)
        self._reader, self._client = reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _pass_on_both_ways(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        ways = [
            asyncio.create_task(self._pass_on(self._reader, server, self._request, is_client=True)),
            asyncio.create_task(self._pass_on(reader, self._client, self._talk.answered, is_client=False)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_on(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        read: Callable[[bytes], bytes],
        *,
        is_client: bool,
    ) -> None:
        """Pass one direction on until it ends."""
        try:
            while data := await source.read(CHUNK):
                if not await self._link.is_passable():
                    self.has_lost = True
                if self.has_lost:
                    continue
                target.write(read(data))
                if self._talk.is_cut_off:
                    self.reset()
                    return
                await target.drain()
        except OSError:
            pass  # it was reset
        await self._end(is_client)

    async def _end(self, is_client: bool) -> None:
        """Hold the end of a side back from the other as long as the mode says."""
        if self._link.hides_end(is_client):
            self.has_lost = True
            await self._link.until_sound()

    def _request(self, data: bytes) -> bytes:
        self._talk.asked(data)
        return data


def _reset(writer: asyncio.StreamWriter) -> None:
    if not writer.transport.is_closing():
        place = writer.get_extra_info("socket")
        place.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        writer.transport.abort()
