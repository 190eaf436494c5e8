"""What a daemon notes of itself in the database, for people who look at all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One note.

    reasons: why it is not ready; empty when it is. faults: of its own, in words.
    attempts: recorded since the last note, by outcome.
    """

    lanes: int
    attempts_in_flight: int
    reasons: Sequence[str]
    faults: Sequence[str]
    attempts: Mapping[str, int]
