"""A merchant's endpoint."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self
from uuid import UUID

from webhook_dispatcher.domain.event import (
    CHARGE_TYPES,
    NOTICE_TYPES,
    PLATFORM,
    TEST_EVENT_TYPE,
    Event,
    Trigger,
)
from webhook_dispatcher.domain.signing import SealedSecret

OLDER_DISPATCHER = "55000"
"""The SQLSTATE of what is refused, since a dispatcher works that does not know such."""
END_OLDER = "end them, and give it again (half a minute later, where they were killed)"
"""What is done about dispatchers that do not know what is wanted."""
MAX_TYPES = 64
"""A filter names no more (types_are_1_to_64_names)."""


def choices(merchant_id: str, own: Iterable[str]) -> tuple[str, ...]:
    """Return the types that a merchant's filter may name. own: the installation's.

    Tests are sent whatever it names.
    """
    return NOTICE_TYPES if merchant_id == PLATFORM else (*CHARGE_TYPES, *own)


MAX_AT_ONCE = 32
"""How many of an endpoint's events may be attempted at once, where order is kept by charge."""
DEFAULT_AT_ONCE = 8
"""As many where that is not said."""


class Order(StrEnum):
    """Whose events are sent one after the other."""

    MERCHANT = "merchant"
    CHARGE = "charge"

    @classmethod
    def of(cls, at_once: int | None) -> Self:
        """Return whose order is kept where so many events are attempted at once."""
        return cls.MERCHANT if at_once is None else cls.CHARGE

    def at_once(self, given: int | None, known: int | None) -> int | None:
        """Return how many are attempted at once: as given, else as before; None: order is the merchant's."""
        return None if self is Order.MERCHANT else given or known or DEFAULT_AT_ONCE


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a merchant is reached, as read with its lane; secrets newest first, still sealed.

    types: its filter; None: it wants all. at_once: how many attempts may be under way where order is kept by
    charge; 1: it is kept by merchant.
    """

    lane: str
    url: str
    secrets: tuple[SealedSecret, ...]
    types: frozenset[str] | None = None
    at_once: int = 1

    def wants(self, event: Event) -> bool:
        """Tell whether an event is sent when its turn comes: tests are, and what was asked for by hand.

        A copy is too: it was wanted when it was routed, and thereby promised.
        """
        return (
            self.types is None
            or event.copy_of is not None
            or event.type in self.types
            or event.type == TEST_EVENT_TYPE
            or event.trigger is not Trigger.SCHEDULE
        )


@dataclass(frozen=True, slots=True)
class EndpointView:
    """An endpoint as shown to people: no secret.

    next_try_at: of one that is suspended. types: its filter; None: it wants all. at_once: how many events are
    attempted at once, in the order of each charge; None: one, in the order of the merchant. number: among its
    merchant's.
    """

    merchant_id: str
    url: str
    paused: bool
    created_at: datetime
    updated_at: datetime
    secret_created_at: datetime
    suspended_at: datetime | None = None
    next_try_at: datetime | None = None
    types: Sequence[str] | None = None
    at_once: int | None = None
    number: int = 1
    id: UUID | None = None
    name: str | None = None

    @property
    def order(self) -> Order:
        """Return whose order is kept."""
        return Order.of(self.at_once)


@dataclass(frozen=True, slots=True)
class EndpointChange:
    """A row of the audit about one endpoint. person: None where nobody was named.

    command_id: where a command was asked for; its url_after is what was asked for. endpoint: its number.
    """

    id: int
    at: datetime
    role: str
    person: str | None
    action: str
    command_id: int | None
    url_before: str | None
    url_after: str | None
    endpoint: str | None = None
