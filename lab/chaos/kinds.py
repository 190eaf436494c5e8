"""What a kind of fault is: an async function that does it, holds it, heals it, and notes whom it hit."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lab.chaos.evidence import Repeats

if TYPE_CHECKING:
    from lab.chaos.hit import Hit
    from lab.chaos.testbed import Testbed


class Track(StrEnum):
    """Faults of one track come one after the other; those of different tracks overlap."""

    DAEMONS = "daemons"
    SURROUNDINGS = "surroundings"
    OPERATORS = "operators"
    MERCHANTS = "merchants"


class NotHitError(Exception):
    """The fault could not be brought about this time; it does not count."""


Inject = Callable[["Testbed", "Hit"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault.

    needs: what the machine must offer ("mount", "resolv.conf") or the run ("suspension", "clock"); or empty.
    """

    name: str
    track: Track
    repeats: Repeats
    inject: Inject
    needs: str = ""


KINDS: dict[str, Kind] = {}


def fault(name: str, track: Track, repeats: Repeats, needs: str = "") -> Callable[[Inject], Inject]:
    """Register a kind of fault under a name that a reader of the report understands."""

    def register(inject: Inject) -> Inject:
        KINDS[name] = Kind(name, track, repeats, inject, needs)
        return inject

    return register
