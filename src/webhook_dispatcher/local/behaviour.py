"""What a receiver does with a request, and how that changes from one request to the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One request's fate: after the delay an answer, unless the receiver hangs or disconnects.

    raw: sent instead of an answer, verbatim.
    """

    status: int = 200
    delay: timedelta = timedelta()
    hangs: bool = False
    disconnects: bool = False
    raw: bytes | None = None

    @classmethod
    def parse(cls, values: Mapping[str, float | bool]) -> Self:
        """Read a behaviour as given on a command line; the delay in seconds."""
        return cls(
            status=int(values.get("status", 200)),
            delay=timedelta(seconds=values.get("delay", 0)),
            hangs=bool(values.get("hangs", False)),
            disconnects=bool(values.get("disconnects", False)),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Behaviours in turn; the last one stays, unless it begins again.

    per_event: each event has turns of its own, instead of the merchant.
    """

    behaviours: Sequence[Behaviour]
    per_event: bool = False
    repeat: bool = False

    def behaviour(self, turn: int) -> Behaviour:
        """Return the behaviour of the given turn, numbered from 0."""
        count = len(self.behaviours)
        return self.behaviours[turn % count if self.repeat else min(turn, count - 1)]
