"""Bounds the memory of event bodies, in bytes: runs, requests in flight, and records not yet written."""

from webhook_dispatcher.domain.event import Event

MOST_BYTES = 128 * 1024 * 1024
"""Bodies held before no more are claimed. One claim may overshoot by its lanes' first events."""


class MemoryBudget:
    """Counts the bytes of the events in memory."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self.held = 0

    def hold(self, event: Event) -> None:
        """Count an event that was read."""
        self.held += len(event.object)

    def free(self, event: Event) -> None:
        """Stop counting an event that was written or dropped."""
        self.held -= len(event.object)

    @property
    def fullness(self) -> float:
        """Return the part of the room that is taken; above 1 where a claim overshot."""
        return self.held / self._most

    def has_room(self) -> bool:
        """Tell whether more may be claimed."""
        return self.held < self._most
