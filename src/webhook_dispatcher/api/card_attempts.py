"""Attempts to confirm a card: each is counted before it is forwarded, since a code could be guessed.

What was never forwarded is released again, and so is an attempt at another merchant's card. The limit is of a
card and a merchant, so that strangers cannot use up the owner's.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime

import structlog

from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.domain.rate_limit import Limit
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.api.limits import Limits, Subject

_log = structlog.get_logger()


@dataclass(slots=True)
class CardAttempt:
    """An attempt that was counted, at an instant. is_made: the charge service was asked: it stays counted."""

    database: Database
    subject: Subject
    at: datetime
    is_made: bool = False


def subject_of(merchant_id: str, card_id: str, limit: Limit) -> Subject:
    """Name a merchant's card. card_id: decoded, so that each card has one name."""
    digest = hashlib.sha256()
    for part in (merchant_id, card_id):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4) + encoded)
    return Subject(f"card:{digest.hexdigest()}", limit, is_durable=True)


def released_unless_made(attempt: CardAttempt | None) -> AbstractAsyncContextManager[None]:
    """Release an attempt at the end unless it was made, if there is one; where releasing fails, it counts."""
    return nullcontext() if attempt is None else _released_unless_made(attempt)


@asynccontextmanager
async def _released_unless_made(attempt: CardAttempt) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if not attempt.is_made:
            try:
                await Limits(attempt.database).release(attempt.subject, attempt.at)
            except DispatcherError as error:
                _log.warning("card_attempt.not_released", error=str(error))
