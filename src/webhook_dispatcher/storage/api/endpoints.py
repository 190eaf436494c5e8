"""A merchant's own endpoints and commands, by its token: api_endpoints.sql and command.sql, bound and mapped.

Which endpoint, its id says; None is number 1.

No merchant's id is ever given: the database finds it by the token, again for each statement. What a merchant
may be told comes back as a value; a StorageError says that the database did not do it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, Self
from uuid import UUID

from webhook_dispatcher.domain.command import CommandName, CommandView
from webhook_dispatcher.domain.endpoint import Order
from webhook_dispatcher.domain.errors import ConfigurationError, StatementRefused
from webhook_dispatcher.domain.signing import SealedSecret, SealingKey
from webhook_dispatcher.storage.api.database import Database, ask, ask_own
from webhook_dispatcher.storage.api.held_rotation import raise_unless_held
from webhook_dispatcher.storage.command import read_command
from webhook_dispatcher.storage.statements import PARTNER_API, load

_STATEMENTS = {**load("api_endpoints"), **load("command", PARTNER_API)}
MAX_COUNTED = 10_000
AS_IT_IS: Sequence[str] = ()
"""In place of the types that an endpoint wants: those that it has, or all of a new one. None: all."""
_TOO_MANY = "WH409"
"""What own_command() raises of its own."""


class AddOutcome(StrEnum):
    """What became of a further endpoint. SENDING: its merchant's lane was recalled: commit, and ask again."""

    CREATED = "created"
    TOO_MANY = "too_many"
    KEY_IS_OLD = "key_is_old"
    SENDING = "sending"


class PutOutcome(StrEnum):
    """What became of an endpoint's URL. KEY_IS_OLD: seal with the current public half, and ask again."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    KEY_IS_OLD = "key_is_old"
    NOT_CONFIGURED = "not_configured"


class Rotation(StrEnum):
    """What became of an endpoint's secret. KEY_IS_OLD: as for Put."""

    ROTATED = "rotated"
    KEY_IS_OLD = "key_is_old"
    NOT_CONFIGURED = "not_configured"


class Removal(StrEnum):
    """What became of an endpoint."""

    REMOVED = "removed"
    NOT_CONFIGURED = "not_configured"


class CommandOutcome(StrEnum):
    """What became of a command that a merchant gave. TOO_MANY: of its commands have not ended."""

    GIVEN = "given"
    NOT_FOUND = "not_found"
    TOO_MANY = "too_many"


class OwnEndpoint(NamedTuple):
    """A merchant's endpoint as it is shown to the merchant. A tuple: made for each request for it."""

    url: str
    paused: bool
    created_at: datetime
    updated_at: datetime
    secret_created_at: datetime
    last_success_at: datetime | None
    failing_since: datetime | None
    failures_in_a_row: int
    suspended_at: datetime | None
    types: Sequence[str] | None
    at_once: int | None
    number: int
    id: UUID
    name: str | None

    @property
    def order(self) -> Order:
        """Return whose order is kept."""
        return Order.of(self.at_once)


@dataclass(frozen=True, slots=True)
class Added:
    """A further endpoint; id: where it was created."""

    result: AddOutcome
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Rotated:
    """A change of secret; previous_until: when the one before stops to sign, where it still does.

    waiting: how many deliveries are owed, 10,000 at most; the new secret signs them.
    """

    result: Rotation
    previous_until: datetime | None = None
    waiting: int = 0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Read what a function returned. NotHeld: deliveries were to be held, and are not yet."""
        raise_unless_held(row["result"])
        return cls(Rotation(row["result"]), row["previous_until"], row["waiting"] or 0)


@dataclass(frozen=True, slots=True)
class NewCommand:
    """A command as it was taken; id: None where it was not."""

    result: CommandOutcome
    id: int | None = None


class Endpoints:
    """Works on a pool, or on a connection in a transaction: TokenEnded and TOO_MANY have ended that one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, token: bytes) -> Sequence[OwnEndpoint]:
        """Return the merchant's endpoints by their numbers. TokenEnded."""
        return [OwnEndpoint(**row) for row in await self._own(token, "list_own_endpoints")]

    async def read(self, token: bytes, endpoint: UUID | None = None) -> OwnEndpoint | None:
        """Return one of the merchant's endpoints; None where there is none. TokenEnded."""
        known = await self.list(token)
        return next(
            (each for each in known if (each.number == 1 if endpoint is None else each.id == endpoint)), None
        )

    async def count_owed(self, token: bytes, number: int = 1) -> int:
        """Count what is `pending` or `pending_retry` for an endpoint, 10,000 at most. TokenEnded."""
        [row] = await self._own(token, "count_own_owed", number, MAX_COUNTED)
        waiting: int = row["waiting"]
        return waiting

    async def sealing_key(self) -> SealingKey | None:
        """Return the public half to seal with, for now; None where no dispatcher confirms one."""
        rows = await self._rows("read_current_sealing_key")
        return SealingKey(rows[0]["key_id"], rows[0]["public_half"]) if rows else None

    async def add(
        self,
        token: bytes,
        url: str,
        sealed: SealedSecret,
        types: Sequence[str] | None,
        at_once: int | None,
        name: str | None,
    ) -> Added:
        """Add an endpoint to the merchant's.

        StatementRefused: a dispatcher works that knows no second endpoint, no filters or no such order.
        """
        row = await self._change("own_add_endpoint", token, url, *_columns(sealed), name, types, at_once)
        return Added(AddOutcome(row["result"]), row["id"])

    async def put(
        self,
        token: bytes,
        url: str | None,
        sealed: SealedSecret | None,
        types: Sequence[str] | None = AS_IT_IS,
        name: str | None = None,
        endpoint: UUID | None = None,
    ) -> PutOutcome:
        """Configure number 1 with this secret, or change URL and name (None: stays; "": no name), and types.

        What is so already writes nothing. StatementRefused: a dispatcher works that knows no filters.
        """
        row = await self._change("own_put_endpoint", token, endpoint, url, *put_columns(sealed, types), name)
        return PutOutcome(row["result"])

    async def set_order(self, token: bytes, at_once: int | None, endpoint: UUID | None = None) -> PutOutcome:
        """Have so many events attempted at once, in the order of each charge; None: in the merchant's.

        StatementRefused: a dispatcher works that knows no such order.
        """
        return PutOutcome((await self._change("own_set_order", token, endpoint, at_once))["result"])

    async def rotate(
        self,
        token: bytes,
        sealed: SealedSecret,
        overlap: timedelta | None,
        hold: bool = False,
        endpoint: UUID | None = None,
    ) -> Rotated:
        """Replace an endpoint's secret; with an overlap the one before signs too until that has ended.

        hold: only while nothing is sent there, else NotHeld.
        """
        row = await self._change("own_rotate_secret", token, endpoint, *_columns(sealed), overlap, hold)
        return Rotated.of(row)

    async def remove(self, token: bytes, endpoint: UUID | None = None) -> Removal:
        """Remove an endpoint and its secret."""
        return Removal((await self._change("own_remove_endpoint", token, endpoint))["result"])

    async def ask(
        self,
        token: bytes,
        command: CommandName,
        event_id: UUID | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        endpoint: UUID | None = None,
    ) -> NewCommand:
        """Give a command: `retry` takes `event_id`, `retry_failed` both `since` and `until`.

        The latter is of all endpoints where none is given, others but `retry` of number 1.
        """
        row = await self._change("own_command", token, command, event_id, since, until, endpoint)
        return NewCommand(CommandOutcome(row["result"]), row.get("id"))

    async def command(self, token: bytes, command_id: int) -> CommandView | None:
        """Return what became of a command; None where it is not the merchant's. TokenEnded."""
        return await read_command(partial(self._own, token), command_id)

    async def _change(self, name: str, *arguments: object) -> Mapping[str, Any]:
        """Ask for a change. TokenEnded: nothing was done."""
        try:
            row: Mapping[str, Any] = (await self._rows(name, *arguments))[0]
        except StatementRefused as error:
            if error.sqlstate != _TOO_MANY:
                raise
            return {"result": CommandOutcome.TOO_MANY}
        return row

    async def _own(self, token: bytes, name: str, *arguments: object) -> Sequence[Any]:
        return await ask_own(self._database, _STATEMENTS[name], token, *arguments)

    async def _rows(self, name: str, *arguments: object) -> Sequence[Any]:
        return await ask(self._database, _STATEMENTS[name], *arguments)


async def refuse_powerful(database: Database, role: str) -> None:
    """Raise ConfigurationError for a database user that could read secrets, sealed as they are.

    role: as whom to connect instead.
    """
    [row] = await ask(database, _STATEMENTS["may_read_secrets"])
    if row["may_read_secrets"]:
        raise ConfigurationError(
            "WEBHOOK_DATABASE_URL: this database user may read webhook.endpoint.secret, which a process that "
            "the internet reaches must not",
            remedy=f"connect as {role}",
            separator="; ",
        )


def put_columns(sealed: SealedSecret | None, types: Sequence[str] | None) -> tuple[object, ...]:
    """Return a secret and its key's id, and types, and whether these are kept."""
    is_kept = types is AS_IT_IS
    return (*_columns(sealed), None if is_kept else types, is_kept)


def _columns(sealed: SealedSecret | None) -> tuple[bytes | None, str | None]:
    return (None, None) if sealed is None else (sealed.sealed, sealed.key_id)
