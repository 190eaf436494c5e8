"""As much of Postgres's protocol as it takes to lose one reply on purpose.

Source: https://www.postgresql.org/docs/current/protocol-message-formats.html. The client waits for each
reply before it asks again, as asyncpg does.
"""

import asyncio
from collections.abc import Iterator

SSL_REQUEST, GSS_REQUEST = 80877103, 80877104


class Messages:
    """Cuts what follows the startup packet into whole messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give the messages that are complete now: type, and the bytes behind type and length."""
        self._rest += data
        start = 0
        while len(self._rest) >= start + 5:
            end = start + 1 + int.from_bytes(self._rest[start + 1 : start + 5])
            if len(self._rest) < end:
                break
            yield bytes(self._rest[start : start + 1]), bytes(self._rest[start + 5 : end])
            start = end
        del self._rest[:start]


def packed(kind: bytes, body: bytes) -> bytes:
    """Write a message as it came."""
    return kind + (len(body) + 4).to_bytes(4) + body


class Loss:
    """A reply that is to be lost: the one that says that a statement's effects are committed.

    happened: True once it was; False when it was given up before that.
    """

    def __init__(self, statement: str) -> None:
        self._text = statement.encode()
        self.happened: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def concerns(self, sql: bytes) -> bool:
        """Tell whether this SQL is what we wait for."""
        return not self.happened.done() and self._text in sql

    def settle(self, has_happened: bool) -> None:
        """Say how it ended; a later word does not count."""
        if not self.happened.done():
            self.happened.set_result(has_happened)


class Conversation:
    """What one connection's client has asked, and which reply to it must not arrive.

    losses: those wanted at the moment; the first connection that runs the statement takes one out, and puts
    it back if nothing was committed.
    is_cut_off: a reply was lost; nothing more may reach the client.
    """

    def __init__(self, losses: list[Loss]) -> None:
        self._losses = losses
        self._loss: Loss | None = None
        self._requests, self._replies = Messages(), Messages()
        self._statements: dict[bytes, bytes] = {}
        self._portals: dict[bytes, bytes] = {}
        self._held = b""
        self._holds = False
        self._is_undone = False
        self.is_cut_off = False

    def asked(self, data: bytes) -> None:
        """Read what the client sends."""
        for kind, body in self._requests.feed(data):
            match kind:
                case b"P":  # Parse
                    name, sql, _ = body.split(b"\0", 2)
                    self._statements[name] = sql
                case b"B":  # Bind
                    portal, name, _ = body.split(b"\0", 2)
                    self._portals[portal] = self._statements.get(name, b"")
                case b"E":  # Execute
                    self._runs(self._portals.get(body.partition(b"\0")[0], b""))
                case b"Q":  # Query
                    self._runs(body)

    def answered(self, data: bytes) -> bytes:
        """Read what the server sends; return what of it may reach the client, in whole messages."""
        passed = b""
        for kind, body in self._replies.feed(data):
            if not self._holds:
                passed += packed(kind, body)
                continue
            self._held += packed(kind, body)
            if kind == b"E" or (kind == b"C" and body == b"ROLLBACK\0"):
                self._is_undone = True
            if kind == b"Z":  # ReadyForQuery: I outside a transaction, T in one, E in a failed one
                passed += self._concluded(body)
        return passed

    def ended(self) -> None:
        """Let another connection lose what this one was to lose."""
        if self._loss is not None:
            self._losses.append(self._loss)
            self._loss = None

    def _runs(self, sql: bytes) -> None:
        if self._loss is None:
            self._loss = next((loss for loss in self._losses if loss.concerns(sql)), None)
            if self._loss is not None:
                self._losses.remove(self._loss)
                self._is_undone = False
        self._holds = self._loss is not None

    def _concluded(self, status: bytes) -> bytes:
        reply, self._held, self._holds = self._held, b"", False
        if self._is_undone:
            self.ended()
        elif status == b"I" and self._loss is not None:
            self._loss.settle(True)
            self._loss = None
            self.is_cut_off = True
            return b""
        return reply
