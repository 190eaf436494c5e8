"""TLS before the test server: the wheel's Postgres is built without."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Self

import trustme

from tests.servers.database import Database, free_port
from webhook_dispatcher.local.postgres import PORT

SSL_REQUEST = bytes.fromhex("00000008 04d2162f")
"""Its length, and the code of the message that asks for TLS."""


@contextmanager
def listening(serve: Callable[[socket.socket], None], host: str, port: int) -> Iterator[int]:
    """Serve connections in threads while entered; leaving waits for their ends.

    Asyncio's streams do not clean up behind a handshake that the client breaks off.
    """

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                serve(self.request)

    with ThreadingTCPServer((host, port), Handler) as server:
        accepting = threading.Thread(target=server.serve_forever, args=(0.01,))
        accepting.start()
        yield server.server_address[1]
        server.shutdown()
        accepting.join()


class Gate:
    """Listens on 127.0.0.1 and 127.0.0.2 with a certificate for the first, and passes on to the server.

    passed: for each connection that got through, whether it is encrypted.
    """

    def __init__(self, database: Database, folder: Path) -> None:
        self.right_ca, self.wrong_ca = folder / "right.pem", folder / "wrong.pem"
        self.client = folder / "client.pem"
        trustme.CA().cert_pem.write_to_path(self.wrong_ca)
        self.exchange()
        self._database = database
        self.port = free_port()
        self.passed: list[bool] = []

    @contextmanager
    def open(self) -> Iterator[Self]:
        """Listen while entered."""
        with listening(self._admit, "127.0.0.1", self.port), listening(self._admit, "127.0.0.2", self.port):
            yield self

    def exchange(self, *, asks_for_ours: bool = False) -> None:
        """Take a new authority; put it, and a client's certificate of it, into the same files."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.right_ca)
        authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(self.client)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self._context)
        if asks_for_ours:
            authority.configure_trust(self._context)
            self._context.verify_mode = ssl.CERT_REQUIRED

    def url(self, options: str = "", host: str = "127.0.0.1") -> str:
        """Return a URL that leads through it, as the superuser."""
        query = f"?{options}" if options else ""
        return f"postgresql://postgres@{host}:{self.port}/{self._database.name}{query}"

    def _admit(self, client: socket.socket) -> None:
        first = client.recv(8, socket.MSG_WAITALL)
        is_tls = first == SSL_REQUEST
        if is_tls:
            client.sendall(b"S")
            client = self._context.wrap_socket(client, server_side=True)
            first = client.recv(8)
        with client, socket.socket(socket.AF_UNIX) as behind:
            behind.connect(str(self._database.server.log_file.parent / "socket" / f".s.PGSQL.{PORT}"))
            self.passed.append(is_tls)
            behind.sendall(first)
            returning = threading.Thread(target=_pass_on, args=(behind, client))
            returning.start()
            _pass_on(client, behind)
            returning.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while some := source.recv(65536):
            target.sendall(some)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
