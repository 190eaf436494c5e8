"""A process that was frozen sends nothing, when it wakes, that another may have sent meanwhile.

uvloop is the daemon's loop. The receiver has a thread of its own, and goes on while that loop stands still.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import uvloop

from webhook_dispatcher.domain.verdict import NOT_SENT, Answer
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@dataclass
class ThreadedReceiver:
    """Answers each request. connected: somebody has connected; arrived: a request has come."""

    url: str
    arrived: threading.Event = field(default_factory=threading.Event)
    connected: threading.Event = field(default_factory=threading.Event)

    def serve(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        with suppress(OSError):  # until the listener is closed
            while True:
                self.talk(listener.accept()[0], context)

    def talk(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        self.connected.set()
        # A sender that sends nothing resets the connection, in the middle of a handshake perhaps.
        with connection, suppress(OSError):
            speaking = connection if context is None else context.wrap_socket(connection, server_side=True)
            while speaking.recv(65_536):
                self.arrived.set()
                speaking.sendall(OK)
            speaking.close()


@contextmanager
def receiving(ca_file: Path | None) -> Iterator[ThreadedReceiver]:
    context = None if ca_file is None else server_context(ca_file)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        scheme = "http" if context is None else "https"
        receiver = ThreadedReceiver(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/")
        thread = threading.Thread(target=receiver.serve, args=(listener, context))
        thread.start()
        yield receiver
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


Exchange = Callable[[Sender, ThreadedReceiver], Coroutine[Any, Any, None]]


def run(exchange: Exchange, ca_file: Path | None) -> None:
    guard = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))

    async def main() -> None:
        with receiving(ca_file) as receiver:
            async with Sender(guard, timedelta(seconds=10), "test", ca_file) as sender:
                await exchange(sender, receiver)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.fixture(params=["http", "https"])
def ca_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "ca.pem" if request.param == "https" else None


def test_a_request_has_left_before_anything_else_happens(ca_file: Path | None) -> None:
    async def exchange(sender: Sender, receiver: ThreadedReceiver) -> None:
        assert await sender.post(receiver.url, {}, b"{}") == Answer(200)
        receiver.arrived.clear()
        has_arrived = []
        attempt = asyncio.create_task(sender.post(receiver.url, {}, b"{}"))
        # Right after the attempt's first step the loop stands still, until the request is there.
        asyncio.get_running_loop().call_soon(lambda: has_arrived.append(receiver.arrived.wait(5)))
        assert await attempt == Answer(200)
        assert has_arrived == [True]

    run(exchange, ca_file)


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_might_not_be_sent_any_more_is_not_sent(ca_file: Path | None, is_kept: bool) -> None:
    async def exchange(sender: Sender, receiver: ThreadedReceiver) -> None:
        if is_kept:
            assert await sender.post(receiver.url, {}, b"{}") == Answer(200)
            receiver.arrived.clear()
        assert await sender.post(receiver.url, {}, b"{}", lambda: False) is NOT_SENT
        assert receiver.connected.wait(5)
        assert not receiver.arrived.is_set()
        assert await sender.post(receiver.url, {}, b"{}", lambda: True) == Answer(200)

    run(exchange, ca_file)
