"""What operators change by the console: console_actions.sql, bound.

Each statement brings the session; the database finds the person by it, refuses who may not, and names them
in the audit and as who asked. All raise SessionOver, NotAllowed and IdleTooLong; nothing was done then.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from webhook_dispatcher.domain.command import CommandName
from webhook_dispatcher.domain.signing import SealedSecret, SealingKey
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.api.endpoints import (
    AS_IT_IS,
    Added,
    AddOutcome,
    PutOutcome,
    Removal,
    Rotated,
    put_columns,
)
from webhook_dispatcher.storage.api.held_rotation import raise_unless_held
from webhook_dispatcher.storage.console.database import ask
from webhook_dispatcher.storage.statements import load

_ACTIONS = load("console_actions")


class Actions:
    """Works on a pool, or on a connection in a transaction, which a refusal ends."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sealing_key(self) -> SealingKey | None:
        """Return the public half to seal with, for now; None where no dispatcher confirms one."""
        rows = await ask(self._database, _ACTIONS["read_key_to_seal_with"])
        return SealingKey(rows[0]["key_id"], rows[0]["public_half"]) if rows else None

    async def put_endpoint(
        self,
        session_hash: bytes,
        merchant_id: str,
        url: str | None,
        sealed: SealedSecret | None,
        types: Sequence[str] | None = AS_IT_IS,
        number: int = 1,
    ) -> PutOutcome:
        """Configure a merchant with this secret, or change URL (None: as it is) and types alone.

        number: of the endpoint, here and below; only 1 may be new.

        What is so already writes nothing. StatementRefused: no event can be of such a merchant, or a
        dispatcher works that knows no filters.
        """
        columns = put_columns(sealed, types)
        row = await self._row("put_endpoint", session_hash, merchant_id, url, *columns, number)
        return PutOutcome(row["result"])

    async def add_endpoint(
        self,
        session_hash: bytes,
        merchant_id: str,
        url: str,
        sealed: SealedSecret,
        name: str | None,
        types: Sequence[str] | None,
    ) -> Added:
        """Add an endpoint, or the first, to a merchant's. NotHeld: something is being sent.

        StatementRefused: no event can be of such a merchant, or a dispatcher works that knows no several
        endpoints, or no filters.
        """
        given = session_hash, merchant_id, url, *_columns(sealed), name, types
        result = AddOutcome((await self._row("add_merchants_endpoint", *given))["result"])
        raise_unless_held(result)
        return Added(result)

    async def set_order(
        self, session_hash: bytes, merchant_id: str, at_once: int | None, number: int = 1
    ) -> PutOutcome:
        """Have so many of an endpoint's events attempted at once, in the order of each charge.

        None: one, in the merchant's. StatementRefused: a dispatcher works that knows no such order.
        """
        row = await self._row("set_order_of", session_hash, merchant_id, at_once, number)
        return PutOutcome(row["result"])

    async def rotate_secret(
        self,
        session_hash: bytes,
        merchant_id: str,
        sealed: SealedSecret,
        overlap: timedelta | None,
        hold: bool = False,
        number: int = 1,
    ) -> Rotated:
        """Replace an endpoint's secret; with an overlap the one before signs too until that has ended.

        hold: only while nothing is sent to it, else NotHeld.
        """
        given = session_hash, merchant_id, *_columns(sealed), overlap, hold, number
        return Rotated.of(await self._row("rotate_secret_of", *given))

    async def remove_endpoint(self, session_hash: bytes, merchant_id: str, number: int = 1) -> Removal:
        """Remove an endpoint and its secret; what is owed to it fails as not_configured."""
        return Removal((await self._row("remove_endpoint", session_hash, merchant_id, number))["result"])

    async def give_command(
        self,
        session_hash: bytes,
        command: CommandName,
        *,
        merchant_id: str | None = None,
        event_id: UUID | None = None,
        args: Mapping[str, Any] | None = None,
    ) -> int:
        """Give a command of the control table, and return its id.

        args: JSON; instants in ISO 8601 with an offset (contract 3).
        """
        given = json.dumps(dict(args or {}))
        row = await self._row("give_command", session_hash, command, merchant_id, event_id, given)
        return int(row["id"])

    async def withdraw_command(self, session_hash: bytes, command_id: int) -> bool:
        """Take back a command; False when it was taken up, or withdrawn, before, or there is none."""
        return bool((await self._row("withdraw_given_command", session_hash, command_id))["is_withdrawn"])

    async def stop_command(self, session_hash: bytes, command_id: int) -> bool:
        """End a mass command after its chunk; False where none goes on."""
        return bool((await self._row("stop_given_command", session_hash, command_id))["is_stopped"])

    async def create_api_key(
        self, session_hash: bytes, merchant_id: str, client_id: str, secret_hash: bytes, name: str
    ) -> None:
        """Make a key of the Partner API. StatementRefused: no event can be of such a merchant."""
        await self._row("create_merchants_api_key", session_hash, merchant_id, client_id, secret_hash, name)

    async def revoke_api_key(self, session_hash: bytes, client_id: str) -> bool | None:
        """Revoke a key for good; False when it was revoked before, None when there is none."""
        is_revoked: bool | None = (await self._row("revoke_merchants_api_key", session_hash, client_id))[
            "is_revoked"
        ]
        return is_revoked

    async def _row(self, name: str, *arguments: object) -> Mapping[str, Any]:
        [row] = await ask(self._database, _ACTIONS[name], *arguments)
        found: Mapping[str, Any] = row
        return found


def _columns(sealed: SealedSecret | None) -> tuple[bytes | None, str | None]:
    return (None, None) if sealed is None else (sealed.sealed, sealed.key_id)
