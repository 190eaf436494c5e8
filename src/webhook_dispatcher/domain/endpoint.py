"""A merchant's endpoint."""

from dataclasses import dataclass
from datetime import datetime

from webhook_dispatcher.domain.signing import SealedSecret


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a merchant is reached, as read with its lane; secrets newest first, still sealed."""

    merchant_id: str
    url: str
    secrets: tuple[SealedSecret, ...]


@dataclass(frozen=True, slots=True)
class EndpointView:
    """An endpoint as shown to people: no secret. next_try_at: of a merchant that is suspended."""

    merchant_id: str
    url: str
    paused: bool
    created_at: datetime
    updated_at: datetime
    secret_created_at: datetime
    suspended_at: datetime | None = None
    next_try_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EndpointChange:
    """A row of the audit about one endpoint. person: None where nobody was named.

    command_id: where a command was asked for; its url_after is what was asked for.
    """

    id: int
    at: datetime
    role: str
    person: str | None
    action: str
    command_id: int | None
    url_before: str | None
    url_after: str | None
