"""Mutated answers against the real sender, over loopback sockets: nothing escapes, nothing is followed."""

import asyncio
import socket
import struct
from collections import Counter
from datetime import timedelta
from ipaddress import ip_network
from random import Random
from typing import Any, cast

from tests.fuzz.mutation import mutated
from tests.integration.senders import SENDERS
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.addresses import Address
from webhook_dispatcher.transport.aiohttp_sender import AiohttpSender
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

AT_ONCE = 64
TIMEOUT = timedelta(seconds=0.25)
MARK = b"receivers-bytes"
BODY = b"{}"

_GZIP = bytes.fromhex("1f8b08000000000000036360180500b9eb8d5400020000")
CORPUS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2;x=y\r\nok\r\n0\r\nX: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 23\r\n\r\n" + _GZIP,
    b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:@TRAP@/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 307 Go\r\nLocation: //127.0.0.1:@TRAP@/\r\nRefresh: 0; url=http://127.0.0.1:@TRAP@/\r\n\r\n",
    b"HTTP/1.1 401 No\r\nWWW-Authenticate: Digest realm=x, nonce=y\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: <http://127.0.0.1:@TRAP@/>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello",
    b"HTTP/1.1 500 " + MARK + b"\r\nX: " + MARK + b"\r\nContent-Length: 3\r\n\r\nno!",
    b"HTTP/1.1 429 Too Many\r\nRetry-After: 999999999999\r\nContent-Length: 0\r\n\r\n",
    b'HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Domain=127.0.0.1\r\nAlt-Svc: h2=":@TRAP@"\r\n\r\n',
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n" + b"x" * 5000,
    b"HTTP/1.1 500 a\0b\r\n\r\n",
    b"HTTP/1.1 200 caf\xe9\r\nX: \xff\xfe\r\n obs: fold\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 500 No\r\n\r\n",
    b"HTTP/2.0 200\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"ICY 200 OK\r\n\r\n",
    b"220 mail ESMTP\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"<html>" + MARK + b"</html>",
    b"HTTP/1.1 999 " + MARK + b"\r\n\r\n",
    b"",
]
TOKENS = [
    *(bytes([value]) for value in range(0, 256, 5)),
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"\0",
        b": ",
        b" ",
        b"\t",
        b",",
        b";",
        b"HTTP/1.1 ",
        b"200",
        b"-1",
        b"+2",
    ),
    *(
        b"0x10",
        b"1e3",
        b"99999999999999999999",
        b"\xd9\xa4\xd9\xa4",
        b"\xef\xbb\xbf",
        b"Content-Length: 2\r\n",
    ),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Content-Encoding: br\r\n",
    ),
    *(
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"Content-Encoding: gzip\r\n",
        b"ffffffffffffffff\r\n",
    ),
    *(
        b"Location: http://127.0.0.1:@TRAP@/\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        MARK,
    ),
    *(b"X" * 70_000, b"X: y\r\n" * 1100, b"HTTP/1.1 102 Processing\r\n\r\n" * 50),
]


class _Hostile(asyncio.Protocol):
    """Answer POST /<number> with that number's mutation, in pieces, and end the connection in some way."""

    def __init__(self, seed: int, trap: int) -> None:
        self._seed = seed
        self._trap = str(trap).encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or len(body) < len(BODY):
            return
        self._received = b""
        number = int(head.split()[1].removeprefix(b"/"))
        random = Random(f"{self._seed}/{number}")
        answer = mutated(CORPUS, TOKENS, random).replace(b"@TRAP@", self._trap)
        cut = random.randrange(len(answer) + 1)
        self._transport.write(answer[:cut])
        self._transport.write(answer[cut:])
        match random.randrange(10):
            case 0 | 1:
                sock = self._transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._transport.abort()
            case 2 | 3:
                pass  # kept open, for the next request or until the sender gives up
            case _:
                self._transport.close()


async def fuzz_responses(count: int, seed: int, kind: str = "llhttp") -> Counter[str]:
    """Send so many requests; AssertionError names the number whose answer was taken wrongly."""
    loop = asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
    dialled: set[str] = set()
    sprung: list[object] = []

    class Noting(Guard):
        def check_address(
            self, address: object, is_trusted: bool = False, is_proxys: bool = False
        ) -> Address:
            dialled.add(str(address))
            return super().check_address(address, is_trusted, is_proxys)

    def spring() -> asyncio.Protocol:
        sprung.append(None)
        return asyncio.Protocol()

    guard = Noting(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))
    trap = await loop.create_server(spring, "127.0.0.1", 0)
    trap_port = trap.sockets[0].getsockname()[1]
    server = await loop.create_server(lambda: _Hostile(seed, trap_port), "127.0.0.1", 0, backlog=512)
    port = server.sockets[0].getsockname()[1]
    seen: Counter[str] = Counter()
    numbers = iter(range(count))

    async def work(sender: Sender | AiohttpSender) -> None:
        for number in numbers:
            try:
                result = await sender.post(f"http://127.0.0.1:{port}/{number}", {}, BODY)
            except Exception as error:
                raise AssertionError(f"seed {seed}: answer {number} raised {error!r}") from error
            wrong = _wrong(result)
            assert wrong is None, f"seed {seed}: answer {number} was taken wrongly: {wrong}"
            seen[result.outcome] += 1

    async with SENDERS[kind](guard, TIMEOUT, "fuzz") as sender:
        workers = [asyncio.create_task(work(sender)) for _ in range(AT_ONCE)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for listener in (server, trap):
                listener.close()
    assert not sprung, f"seed {seed}: something was followed"
    assert dialled == {"127.0.0.1"}, f"seed {seed}: {dialled}"
    assert not complaints, f"seed {seed}: {complaints[:3]}"
    return seen


def _wrong(result: Answer | Failure) -> str | None:
    """Say what must not have come out of the sender."""
    if isinstance(result, Answer):
        return (
            None
            if type(result.status) is int and 100 <= result.status <= 999
            else f"status {result.status!r}"
        )
    if result.outcome in (
        Outcome.DELIVERED,
        Outcome.STATUS,
        Outcome.BLOCKED,
        Outcome.UNSENDABLE,
        Outcome.DNS,
    ):
        return f"outcome {result}"
    if result.is_ours or MARK.decode() in result.detail or not result.detail.isprintable():
        return f"{result}"
    return None
