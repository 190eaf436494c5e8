"""Leaves out lines about successes, as many as the settings say: at 1,000 a second they are 26 GB a day.

Every line that is written next says how many were left out before it (`left_out`), whatever it is about; the
last of a process is that it stopped. `webhook_attempts_total` counts all attempts all the same.
"""

from math import ceil

from structlog import DropEvent
from structlog.typing import EventDict, WrappedLogger

from webhook_dispatcher.domain.verdict import Outcome


class Sampling:
    """A processor of structlog; share: of the lines about successes, how many are written, from 0 to 1."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._successes = 0
        self._left_out = 0

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Let a line through, or raise DropEvent. Of every ten successes the first is written, at 0.1."""
        if event["event"] == "delivery.attempted" and event.get("outcome") is Outcome.DELIVERED:
            written = ceil(self._successes * self._share)
            self._successes += 1
            if ceil(self._successes * self._share) == written:
                self._left_out += 1
                raise DropEvent
        if self._left_out:
            event["left_out"] = self._left_out
            self._left_out = 0
        return event
