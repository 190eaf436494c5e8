"""A name server of the test's own, on loopback, over UDP and TCP; it answers what a table says, in turn."""

import asyncio
import errno
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from typing import cast

A, CNAME, SOA, AAAA = 1, 5, 6, 28
LARGEST_DATAGRAM = 512


@dataclass(frozen=True)
class Reply:
    """What a look-up gets, after so many seconds. `code`: 2 is SERVFAIL, 3 is NXDOMAIN.

    empty_for: for how many seconds an empty answer holds, which its SOA says; None: it has none.
    """

    addresses: Sequence[str] = ()
    aliases: Sequence[tuple[str, str]] = ()
    code: int = 0
    is_silence: bool = False
    after: float = 0.0
    ttl: int = 0
    empty_for: int | None = None


NXDOMAIN = Reply(code=3)
SERVFAIL = Reply(code=2)
SILENCE = Reply(is_silence=True)


def addresses(*texts: str) -> Reply:
    return Reply(texts)


class NameServer(asyncio.DatagramProtocol):
    """Each name's replies in turn, counted apart for A and AAAA; the last one stays."""

    def __init__(self, names: Mapping[str, Reply | Sequence[Reply]]) -> None:
        self._names = names
        self.asked: list[tuple[str, int]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, source: tuple[str, int]) -> None:
        self.asked.append(_question(data))
        answer = self.answer(data)
        if answer is None:
            return
        if len(answer) > LARGEST_DATAGRAM:
            truncated = struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0)
            answer = data[:2] + truncated + data[12 : _end_of_question(data)]
        after = self._reply(*_question(data)).after
        asyncio.get_running_loop().call_later(after, self._transport.sendto, answer, source)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one query over TCP: one that was asked before, and whose answer was cut short."""
        [length] = struct.unpack(">H", await reader.readexactly(2))
        answer = self.answer(await reader.readexactly(length))
        if answer is not None:
            writer.write(struct.pack(">H", len(answer)) + answer)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    def answer(self, query: bytes) -> bytes | None:
        end = _end_of_question(query)
        name, kind = _question(query)
        reply = self._reply(name, kind)
        if reply.is_silence:
            return None
        records = [_record(owner, CNAME, _encoded(target)) for owner, target in reply.aliases]
        for address in map(ip_address, reply.addresses):
            if kind == (A if isinstance(address, IPv4Address) else AAAA):
                records.append(_record(name, kind, address.packed, reply.ttl))
        authority = [] if records or reply.empty_for is None else [_start_of_authority(name, reply.empty_for)]
        head = struct.pack(">HHHHH", 0x8180 | reply.code, 1, len(records), len(authority), 0)
        return query[:2] + head + query[12:end] + b"".join(records + authority)

    def _reply(self, name: str, kind: int) -> Reply:
        replies = self._names.get(name, NXDOMAIN)
        if isinstance(replies, Reply):
            return replies
        return replies[min(self.asked.count((name, kind)), len(replies)) - 1]


def _end_of_question(query: bytes) -> int:
    return query.index(b"\0", 12) + 5


def _question(query: bytes) -> tuple[str, int]:
    start, labels = 12, []
    while query[start]:
        labels.append(query[start + 1 : start + 1 + query[start]].decode())
        start += 1 + query[start]
    [kind] = struct.unpack(">H", query[start + 1 : start + 3])
    return ".".join(labels).lower(), kind


def _encoded(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def _record(owner: str, kind: int, data: bytes, ttl: int = 0) -> bytes:
    return _encoded(owner) + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


def _start_of_authority(name: str, empty_for: int) -> bytes:
    """Source: RFC 2308, 5: the least of its TTL and its last field says how long what is empty holds."""
    people = _encoded("ns.invalid") + _encoded("hostmaster.invalid")
    times = struct.pack(">IIIII", 1, 7200, 900, 1_209_600, empty_for)
    return _record(name, SOA, people + times, empty_for)


async def listen_on_both(server: "NameServer") -> tuple[asyncio.Server, asyncio.DatagramTransport, int]:
    """Serve TCP and UDP at one port that is free for both: somebody who asks may have it for UDP alone."""
    loop = asyncio.get_running_loop()
    while True:
        stream = await asyncio.start_server(server.converse, "127.0.0.1", 0)
        port: int = stream.sockets[0].getsockname()[1]
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.setblocking(False)
        try:
            # Bound here: where a loop is told to do it, uvloop's does not say by errno why it could not.
            datagrams.bind(("127.0.0.1", port))
        except OSError as error:
            stream.close()
            datagrams.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            transport, _ = await loop.create_datagram_endpoint(lambda: server, sock=datagrams)
            return stream, transport, port


@asynccontextmanager
async def serving(
    names: Mapping[str, Reply | Sequence[Reply]], *, over_tcp: bool = True
) -> AsyncIterator[tuple[NameServer, str]]:
    """Run a name server; give it and its "address:port". Without TCP, connections to it are refused."""
    server = NameServer(names)
    stream, transport, port = await listen_on_both(server)
    if not over_tcp:
        stream.close()
    try:
        yield server, f"127.0.0.1:{port}"
    finally:
        transport.close()
        stream.close()
