"""The memory that bodies and answers take: bounded in bytes for a process, and for each client.

A body counts while it is read and its request carried out, an answer of the charge service's while it comes,
and every answer until its client has read it.
"""

from collections import Counter
from typing import Self

from webhook_dispatcher.api.calls import Refused
from webhook_dispatcher.api.catalogue import UNAVAILABLE

MAX_BYTES = 64 * 1_048_576
"""Bytes that all bodies which are being read may take together; as many again may all unread answers take."""
MAX_SHARE = MAX_BYTES // 8
"""Bytes of each that one client may take: one that sends or reads slowly leaves room to the others."""
MAX_UNCOUNTED = 16_384
"""Bytes up to which an answer is not counted: the number of connections, one answer each, bounds these."""


class MemoryBudget:
    """The bytes that bodies, or answers, may take together."""

    def __init__(self, size: int = MAX_BYTES, share: int = MAX_SHARE) -> None:
        self._left = size
        self._share = share
        self._taken: Counter[str] = Counter()

    def reserved(self, client: str) -> "Reservation":
        """Begin a reservation of a client, empty at first."""
        return Reservation(self, client)

    def take(self, client: str, size: int) -> None:
        """Take bytes, or refuse."""
        if size > self._left or self._taken[client] + size > self._share:
            raise Refused(UNAVAILABLE, headers={"Retry-After": "1"}, closes=True)
        self._left -= size
        self._taken[client] += size

    def release(self, client: str, size: int) -> None:
        """Release what was taken."""
        self._left += size
        self._taken[client] -= size
        if not self._taken[client]:
            del self._taken[client]


class Reservation:
    """One body's part of the budget, or one answer's, until it is left or released."""

    def __init__(self, budget: MemoryBudget, client: str) -> None:
        self._budget = budget
        self._client = client
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release all that was taken, if anything was."""
        if self.size:
            self._budget.release(self._client, self.size)
            self.size = 0

    def grow(self, size: int) -> None:
        """Take so many bytes more, or refuse."""
        self._budget.take(self._client, size)
        self.size += size

    def cover(self, size: int) -> None:
        """Take so many bytes altogether, or refuse; up to MAX_UNCOUNTED are not counted."""
        if size > max(self.size, MAX_UNCOUNTED):
            self.grow(size - self.size)
