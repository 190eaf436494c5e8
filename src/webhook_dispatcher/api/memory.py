"""The memory that bodies and answers take: bounded in bytes for a process, and for each client.

A body counts while it is read and its request carried out, an answer of the charge service's while it comes,
and every answer until its client has read it.
"""

from typing import Self

from webhook_dispatcher.api.calls import ApiError
from webhook_dispatcher.api.catalogue import UNAVAILABLE
from webhook_dispatcher.api.fair_share import FairShare

MAX_BYTES = 64 * 1_048_576
"""Bytes that all bodies which are being read may take together; as many again may all unread answers take."""
MAX_SHARE = MAX_BYTES // 8
"""Bytes of each that one client may take while the others take none: who is slow leaves room to them."""
MAX_UNCOUNTED = 16_384
"""Bytes up to which an answer is not counted: the number of connections, one answer each, bounds these."""


def new_share() -> FairShare:
    """Return the bytes that bodies, or answers, may take together."""
    return FairShare(MAX_BYTES, MAX_SHARE)


class Reservation:
    """What one body takes, or one answer, until it is left or released: nothing at first."""

    def __init__(self, share: FairShare, client: str) -> None:
        self._share = share
        self._client = client
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release all that was taken, if anything was."""
        if self.size:
            self._share.release(self._client, self.size)
            self.size = 0

    def grow(self, size: int) -> None:
        """Take so many bytes more, or refuse."""
        if not self._share.take(self._client, size):
            raise ApiError(UNAVAILABLE, headers={"Retry-After": "1"}, closes=True)
        self.size += size

    def cover(self, size: int) -> None:
        """Take so many bytes altogether, or refuse; up to MAX_UNCOUNTED are not counted."""
        if size > max(self.size, MAX_UNCOUNTED):
            self.grow(size - self.size)
