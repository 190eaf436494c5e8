"""Requests with an Idempotency-Key: the statements of api_requests.sql, bound.

What is ours is done in one transaction: begin, effect, keep. What is forwarded takes two, and the charge
service is asked between them: a claim names who may write what became of it.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg

from webhook_dispatcher.storage.api.database import Database, ask
from webhook_dispatcher.storage.api.tokens import Bearer
from webhook_dispatcher.storage.statements import load

LIFETIME = timedelta(hours=24)
"""How long an answer is kept. Source: contract 7."""

_STATEMENTS = load("api_requests")


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What a request was answered. text: JSON, the `data` of a status below 400 and the `error` of others."""

    status: int
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class KeptCommand:
    """A command that a request gave, and the language in which it is answered."""

    id: int
    language: str


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """A request that came before, and what became of it: an answer, a command, or upstream is being asked.

    asked_for: how much longer upstream is asked; zero where that is over, and nobody knows what came of it.
    """

    body_hash: bytes
    answer: KeptAnswer | None = None
    command: KeptCommand | None = None
    asked_for: timedelta | None = None


class Begun(NamedTuple):
    """What was found when a request began.

    is_ours: whether we keep equal ones out; False: one is being carried out now. known: None: it is new.
    full_for: how long its API key may keep nothing new, because of all that is kept for it; None: it may.
    """

    is_ours: bool
    known: KnownRequest | None
    full_for: timedelta | None


class Requests:
    """Works for a bearer, on a connection within a transaction; settles what is forwarded also on a pool.

    Requests are named by a hash of what was asked; whose they are, the database finds by the token.
    """

    def __init__(self, database: Database, bearer: Bearer, lifetime: timedelta = LIFETIME) -> None:
        self._database = database
        self._bearer = bearer
        self._lifetime = lifetime

    async def begin(self, request_hash: bytes) -> Begun:
        """Keep equal requests out until the transaction ends, and find what is known of it. TokenEnded."""
        row = await self._row("begin_request", self._bearer.token_hash, request_hash)
        return Begun(row["is_ours"], _known(row), row["full_for"])

    async def keep_answer(self, request_hash: bytes, body_hash: bytes, answer: KeptAnswer) -> None:
        """Keep what was answered, in the transaction that has the effect. TokenEnded."""
        await self._keep(request_hash, body_hash, None, answer.status, answer.language, answer.text)

    async def keep_command(
        self, request_hash: bytes, body_hash: bytes, command_id: int, language: str
    ) -> None:
        """Bind the request to the command that it gave, in the same transaction. TokenEnded."""
        await self._keep(request_hash, body_hash, command_id, None, language, None)

    async def claim(self, request_hash: bytes, body_hash: bytes, patience: timedelta) -> UUID:
        """Note that upstream is asked, for so long at most; return the claim to settle it by. TokenEnded."""
        return await self._keep(request_hash, body_hash, None, None, None, None, patience=patience)

    async def answer(self, request_hash: bytes, claim: UUID, answer: KeptAnswer) -> None:
        """Keep what upstream answered, also where the token has ended meanwhile."""
        await self._settle(request_hash, claim, answer.status, answer.language, answer.text)

    async def doubt(self, request_hash: bytes, claim: UUID) -> None:
        """Let the same key and body ask upstream again: what came of it is not known."""
        await self._settle(request_hash, claim, None, None, None)

    async def forget(self, request_hash: bytes, claim: UUID) -> None:
        """Forget a request that had no effect."""
        await self._row("forget_request", self._bearer.api_key_id, request_hash, claim)

    async def _keep(
        self, request_hash: bytes, body_hash: bytes, *became: object, patience: timedelta | None = None
    ) -> UUID:
        asked = (self._bearer.token_hash, request_hash, body_hash)
        row = await self._row("keep_request", *asked, *became, patience, self._lifetime)
        claim: UUID = row["claim"]
        return claim

    async def _settle(self, request_hash: bytes, claim: UUID, *became: object) -> None:
        await self._row("settle_request", self._bearer.api_key_id, request_hash, claim, *became)

    async def _row(self, name: str, *arguments: object) -> asyncpg.Record:
        [row] = await ask(self._database, _STATEMENTS[name], *arguments)
        found: asyncpg.Record = row
        return found


def _known(row: asyncpg.Record) -> KnownRequest | None:
    if row["body_hash"] is None:
        return None
    if row["answer"] is not None:
        return KnownRequest(row["body_hash"], KeptAnswer(row["status"], row["language"], row["answer"]))
    if row["command_id"] is not None:
        return KnownRequest(row["body_hash"], command=KeptCommand(row["command_id"], row["language"]))
    return KnownRequest(row["body_hash"], asked_for=timedelta(seconds=max(0.0, row["seconds_left"])))
