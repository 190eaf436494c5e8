"""What clients make of an answer: our senders, over real sockets, and h11, in memory.

It shares no code with llhttp. A `Reading` is what each tells whoever sends the requests.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address, ip_network
from random import Random

import h11

from tests.integration.senders import SENDERS
from tests.network.raw_receiver import OK, status
from webhook_dispatcher.domain.ports import Sender
from webhook_dispatcher.domain.verdict import Answer, Failure
from webhook_dispatcher.transport.guard import EgressPolicy, Guard


@dataclass(frozen=True)
class Reading:
    """One client's reading of an answer.

    status: of the final answer; None where there is none, cut off or malformed.
    is_kept: another request may follow on the connection.
    is_silence: nothing was answered at all, so that a request on a kept connection may be sent again.
    """

    status: int | None
    is_kept: bool = False
    is_silence: bool = False

    def __str__(self) -> str:
        shown = "no answer" if self.status is None else str(self.status)
        return f"{shown}, kept" if self.is_kept else shown


def read_by_h11(pieces: Sequence[bytes]) -> Reading:
    """Read as h11 does, piece by piece, to the end of the connection."""
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    client.send(h11.Request(method="POST", target="/", headers=[("Host", "h"), ("Content-Length", "0")]))
    client.send(h11.EndOfMessage())
    status: int | None = None
    try:
        for piece in filter(None, pieces):
            client.receive_data(piece)
            for event in iter(client.next_event, h11.NEED_DATA):
                if event is h11.PAUSED:
                    break
                if isinstance(event, h11.Response):
                    status = event.status_code
    except h11.RemoteProtocolError:
        return Reading(status)
    is_over = client.their_state is h11.DONE
    return Reading(status, is_over and not client.trailing_data[0], is_silence=not any(pieces))


ENOUGH = timedelta(seconds=30)
LAST = status("200 OK", "Connection: close")
WARMING, ASKING, AFTER = b"warming", b"asking.", b"after.."
MAX_PIECES = 5


def cut(answer: bytes, random: Random) -> list[bytes]:
    """Cut at up to four random places."""
    places = sorted(random.randrange(len(answer) + 1) for _ in range(random.randrange(MAX_PIECES)))
    return [answer[start:end] for start, end in itertools.pairwise((0, *places, len(answer)))]


class Receiver:
    """Answers ASKING with the pieces of its address, WARMING and AFTER with 200.

    closes: whether the connection ends behind the pieces.
    """

    def __init__(self) -> None:
        self.answers: dict[str, tuple[Sequence[bytes], bool]] = {}
        self.has_answered: dict[str, asyncio.Event] = {}
        self.asked: list[tuple[str, bytes, int]] = []
        self._numbers = itertools.count()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, number = writer.get_extra_info("sockname")[0], next(self._numbers)
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(len(ASKING))
                self.asked.append((host, body, number))
                if body == AFTER:
                    writer.write(LAST)
                    break
                if body == WARMING:
                    writer.write(OK)
                    continue
                pieces, closes = self.answers[host]
                for piece in pieces:
                    writer.write(piece)
                    await asyncio.sleep(0)  # most pieces arrive alone
                self.has_answered[host].set()
                if closes:
                    break
        except (OSError, EOFError, RuntimeError):  # uvloop's, for what was closed
            pass
        finally:
            if host in self.has_answered:
                self.has_answered[host].set()
            writer.close()

    def connections(self, host: str, body: bytes) -> list[int]:
        return [number for other, said, number in self.asked if (other, said) == (host, body)]


class Asking:
    """One sender, and a receiver whose every address answers differently: no connection is shared."""

    def __init__(self, sender: Sender, receiver: Receiver, port: int) -> None:
        self._sender, self._receiver, self._port = sender, receiver, port
        self._hosts = (str(IPv4Address("127.1.0.0") + number) for number in itertools.count(1))

    async def read(self, pieces: Sequence[bytes], *, closes: bool) -> Reading:
        """Ask on a fresh connection, and once more on whatever is left of it.

        The next request must get its own answer, whatever came before.
        """
        host = self._add(pieces, closes)
        seen = await self._post(host, ASKING)
        await self._receiver.has_answered[host].wait()
        after = await self._post(host, AFTER)
        assert after == Answer(200), f"the next request got {after}"
        [asked], [following] = (self._receiver.connections(host, body) for body in (ASKING, AFTER))
        return Reading(seen.status, asked == following)

    async def is_resent(self, pieces: Sequence[bytes]) -> bool:
        """Ask on a kept connection that ends behind these pieces; tell whether the request came twice."""
        host = self._add(pieces, closes=True)
        assert await self._post(host, WARMING) == Answer(200)
        await self._post(host, ASKING)
        connections = self._receiver.connections(host, ASKING)
        assert connections[0] in self._receiver.connections(host, WARMING)
        return len(connections) > 1

    def _add(self, pieces: Sequence[bytes], closes: bool) -> str:
        host = next(self._hosts)
        self._receiver.answers[host] = (pieces, closes)
        self._receiver.has_answered[host] = asyncio.Event()
        return host

    async def _post(self, host: str, body: bytes) -> Answer | Failure:
        return await self._sender.post(f"http://{host}:{self._port}/", {}, body)


@asynccontextmanager
async def asking(kind: str) -> AsyncIterator[Asking]:
    """Set up a sender of this kind and its receiver."""
    guard = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "0.0.0.0", 0)
    async with server, SENDERS[kind](guard, ENOUGH, "test") as sender:
        yield Asking(sender, receiver, server.sockets[0].getsockname()[1])
