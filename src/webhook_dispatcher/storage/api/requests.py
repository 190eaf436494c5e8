"""Requests with an Idempotency-Key: the statements of api_requests.sql, bound.

What is ours is done in one transaction: lock, read, effect, keep. What is forwarded takes two, and the charge
service is asked between them: a claim names who may write what became of it.
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import asyncpg

from webhook_dispatcher.storage.api.database import Database, ask
from webhook_dispatcher.storage.statements import load

LIFETIME = timedelta(hours=24)
"""How long an answer is kept (partner-api.md leaves it open; the issue's choice)."""

_STATEMENTS = load("api_requests")


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What a request was answered. text: JSON, the `data` of a status below 400 and the `error` of others."""

    status: int
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class GivenBefore:
    """A command that a request gave, and the language in which it is answered."""

    id: int
    language: str


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """A request that came before, and what became of it: an answer, a command, or upstream is being asked.

    asked_for: how much longer; zero where that is over, and nobody knows what came of it.
    """

    body_hash: bytes
    answer: KeptAnswer | None = None
    command: GivenBefore | None = None
    asked_for: timedelta | None = None


class Requests:
    """Works on a connection within a transaction; what is forwarded also on a pool."""

    def __init__(self, database: Database, lifetime: timedelta = LIFETIME) -> None:
        self._database = database
        self._lifetime = lifetime

    async def lock(self, request_hash: bytes) -> bool:
        """Keep equal requests out until the transaction ends; False while another is being carried out."""
        row = await self._row("lock_request", request_hash)
        assert row is not None
        return bool(row["is_ours"])

    async def read(self, request_hash: bytes) -> KnownRequest | None:
        """Return what became of a request; None where it is new."""
        row = await self._row("read_request", request_hash)
        if row is None:
            return None
        body_hash: bytes = row["body_hash"]
        if row["answer"] is not None:
            return KnownRequest(body_hash, KeptAnswer(row["status"], row["language"], row["answer"]))
        if row["command_id"] is not None:
            return KnownRequest(body_hash, command=GivenBefore(row["command_id"], row["language"]))
        return KnownRequest(body_hash, asked_for=timedelta(seconds=max(0.0, row["seconds_left"])))

    async def keep_answer(self, request_hash: bytes, body_hash: bytes, answer: KeptAnswer) -> None:
        """Keep what was answered, in the transaction that has the effect."""
        await self._keep(request_hash, body_hash, None, answer.status, answer.language, answer.text)

    async def keep_command(
        self, request_hash: bytes, body_hash: bytes, command_id: int, language: str
    ) -> None:
        """Bind the request to the command that it gave, in the same transaction."""
        await self._keep(request_hash, body_hash, command_id, None, language, None)

    async def claim(self, request_hash: bytes, body_hash: bytes, patience: timedelta) -> UUID:
        """Say that upstream is being asked, for so long at most; the claim settles it."""
        row = await self._row("claim_request", request_hash, body_hash, patience, self._lifetime)
        assert row is not None
        claim: UUID = row["claim"]
        return claim

    async def answer(self, request_hash: bytes, claim: UUID, answer: KeptAnswer) -> None:
        """Keep what upstream answered."""
        await self._row("answer_request", request_hash, claim, answer.status, answer.language, answer.text)

    async def doubt(self, request_hash: bytes, claim: UUID) -> None:
        """Let the same key and body ask upstream again: what came of it is not known."""
        await self._row("doubt_request", request_hash, claim)

    async def forget(self, request_hash: bytes, claim: UUID) -> None:
        """Forget a request that had no effect."""
        await self._row("forget_request", request_hash, claim)

    async def _keep(self, *arguments: object) -> None:
        await self._row("keep_request", *arguments, self._lifetime)

    async def _row(self, name: str, *arguments: object) -> asyncpg.Record | None:
        rows = await ask(self._database, _STATEMENTS[name], *arguments)
        return rows[0] if rows else None
