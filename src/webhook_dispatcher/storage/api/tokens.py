"""Access tokens: api_tokens.sql, bound.

Only hashes get here, and no hash that is stored leaves the database.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import asyncpg

from webhook_dispatcher.domain.rate_limit import Limit
from webhook_dispatcher.storage.api.database import Database, ask
from webhook_dispatcher.storage.api.endpoints import OwnEndpoint
from webhook_dispatcher.storage.api.limits import Subject, Taken, arrays_of, taken_of
from webhook_dispatcher.storage.statements import load

_TOKENS = load("api_tokens")


class Bearer(NamedTuple):
    """Who asks. token_hash: by which statements find whose rows they may read.

    A tuple, as is all that is made for each request: a tuple costs half as much as a dataclass.
    """

    token_hash: bytes
    api_key_id: int
    client_id: str
    merchant_id: str


class TokenLookup(NamedTuple):
    """Whether a request is let in. bearer, taken: of a live token alone.

    is_use_due: its key's last use was written down more than a minute ago (`note_use`).
    endpoint: the merchant's, where it was asked for and there is one.
    """

    state: Literal["live", "unknown", "expired", "revoked"]
    bearer: Bearer | None = None
    taken: Taken | None = None
    is_use_due: bool = False
    endpoint: OwnEndpoint | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """What came of asking for a token. An unknown client and a wrong secret are both `wrong`.

    taken: of the limits; where one is reached, the secret was not looked at, and the state is `wrong`.
    """

    state: Literal["issued", "wrong", "revoked"]
    expires_at: datetime | None
    taken: Taken


class Tokens:
    """Lets requests in and issues tokens on a pool; errors are ours (`storage.connection.translated`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def admit(self, token_hash: bytes, limit: Limit, *, with_endpoint: bool = False) -> TokenLookup:
        """Look a token up and take one of its key's limit if it is live, in one statement.

        with_endpoint: in which its merchant's endpoint is read, too.
        """
        name = "admit_with_endpoint" if with_endpoint else "admit"
        row = await self._row(name, token_hash, limit.most, limit.window)
        if row["state"] != "live":
            return TokenLookup(row["state"])
        return TokenLookup(
            "live",
            Bearer(token_hash, row["api_key_id"], row["client_id"], row["merchant_id"]),
            Taken(row["retry_after"], row["remaining"] or 0, None, (row["remaining"],)),
            row["is_use_due"],
            _endpoint(row) if with_endpoint else None,
        )

    async def issue(
        self,
        client_id: str,
        secret_hash: bytes,
        token_hash: bytes,
        lifetime: timedelta,
        of_issued: Subject,
        of_attempts: Sequence[Subject],
    ) -> Issued:
        """Keep a new token of a client with that secret, within all limits; it lives an hour at most.

        of_issued: counts tokens that are issued. of_attempts: count wrong secrets, too.
        """
        arrays = arrays_of([of_issued, *of_attempts])
        row = await self._row("issue", client_id, secret_hash, token_hash, lifetime, *arrays)
        left: list[int | None] = row["remaining"]
        if row["is_released"] and left[0] is not None:
            left[0] += 1
        return Issued(row["state"], row["expires_at"], taken_of(row["retry_after"], left))

    async def note_use(self, api_key_id: int) -> None:
        """Write down that a key was used, once a minute at most; never waits for others."""
        await self._row("note_use", api_key_id)

    async def _row(self, name: str, *arguments: object) -> asyncpg.Record:
        [row] = await ask(self._database, _TOKENS[name], *arguments)
        found: asyncpg.Record = row
        return found


def _endpoint(row: asyncpg.Record) -> OwnEndpoint | None:
    return None if row["url"] is None else OwnEndpoint(*map(row.__getitem__, OwnEndpoint._fields))
