"""Claiming retries when some row among them is refused: unreadable.sql, bound and mapped.

The transaction of `claim_retries` with savepoints: lanes are halved until one that is refused is alone, and
of that one the rows are claimed one by one. Its locks stand all the while, so nobody else decides about them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.claim import UnreadableRow
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.events import to_event
from webhook_dispatcher.storage.statements import load

_RETRYING = load("retrying")
_UNREADABLE = load("unreadable")

SPARE = 20
"""Rows of one lane that may be in the way, and are passed over to find others that can be claimed."""
LOOK_AGAIN = timedelta(seconds=15)
"""How long a lane waits whose due row can be neither claimed nor finished."""


@dataclass(slots=True)
class Search:
    """One transaction's way through refused rows, and what it found.

    most: rows that may still be claimed. may_close: unreadable rows that may still be finished.
    blocked: merchants whose due rows cannot even be named, and why.
    """

    connection: PoolConnectionProxy
    places: int
    lease: timedelta
    most: int
    may_close: int
    claimed: list[asyncpg.Record] = field(default_factory=list)
    unreadable: list[UnreadableRow] = field(default_factory=list)
    blocked: dict[str, str] = field(default_factory=dict)

    async def claim(self, merchants: Sequence[str]) -> None:
        """Claim due rows of locked lanes, whatever is among them."""
        if not merchants or self.most <= 0:
            return
        try:
            claimed = await self._try("claim_retries", list(merchants), self.places, self.most, self.lease)
        except StatementRefused as error:
            if not error.blames_the_row:
                raise
            if len(merchants) == 1:
                await self._claim_each(merchants[0])
                return
            half = len(merchants) // 2
            await self.claim(merchants[:half])
            await self.claim(merchants[half:])
        else:
            self._take(claimed)

    async def _claim_each(self, merchant_id: str) -> None:
        try:
            rows = await self._try("lock_due_rows", merchant_id, self.places, self.places + SPARE)
        except StatementRefused as error:
            if not error.blames_the_row:
                raise
            self.blocked[merchant_id] = str(error)
            return
        places = rows[0]["places_left"] if rows else 0
        for row in rows:
            if places <= 0 or self.most <= 0:
                return
            try:
                self._take(await self._try("claim_row", row["seq"], self.lease))
                places -= 1
            except StatementRefused as error:
                if not error.blames_the_row:
                    raise
                event = to_event(row, row["attempts"])
                self.unreadable.append(UnreadableRow(event, str(error), await self._close(event.seq)))

    async def _close(self, seq: int) -> bool:
        """Finish a row, with its object if that can be moved; False when it cannot be touched at all."""
        if self.may_close <= 0:
            return False
        for is_object_lost in (False, True):
            try:
                await self._try("close_row", seq, is_object_lost)
            except StatementRefused as error:
                if not error.blames_the_row:
                    raise
            else:
                self.may_close -= 1
                return True
        return False

    async def _try(self, name: str, *arguments: object) -> list[asyncpg.Record]:
        """Run one statement; refused, it leaves the transaction as it was."""
        statement = _RETRYING[name] if name in _RETRYING else _UNREADABLE[name]
        with translated():
            async with self.connection.transaction():
                rows: list[asyncpg.Record] = await self.connection.fetch(statement.text, *arguments)
        return rows

    def _take(self, claimed: list[asyncpg.Record]) -> None:
        self.claimed += claimed
        self.most -= len(claimed)

    async def plan(self, merchants: Sequence[str]) -> None:
        """Say when each lane must be looked at again."""
        await self.connection.execute(_RETRYING["plan_retries"].text, list(merchants), self.places)
        stuck = {found.event.merchant_id for found in self.unreadable if not found.is_closed}
        if stuck or self.blocked:
            await self.connection.execute(_UNREADABLE["look_later"].text, [*stuck, *self.blocked], LOOK_AGAIN)
