"""What is forwarded has one effect for each key, though the charge service is asked outside any transaction.

A process claims the key for as long as asking may take, asks without a database connection, and settles the
claim: an answer is kept; a request that had no effect is forgotten; where nobody knows, the key is in doubt.
While a key is in doubt, and when a claim has run out because its process died, a request with the same key
and body asks the charge service again. It gets the same derived key, by which the charge service recognizes
the request; another body is refused. A process whose claim was taken over meanwhile writes nothing.
Source: docs/producers/charge-service.md, "Idempotency".
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeGuard
from uuid import UUID

import structlog

from webhook_dispatcher.api.calls import ApiError, Request, Response
from webhook_dispatcher.api.catalogue import (
    INVALID_URL,
    KEY_REUSED,
    NOT_JSON,
    STILL_RUNNING,
    VALIDATION_FAILED,
    WRONG_CONTENT_TYPE,
    entry_of,
)
from webhook_dispatcher.api.charge_service import forwarded
from webhook_dispatcher.api.charge_service.upstream import derived_key
from webhook_dispatcher.api.idempotency import (
    KeyedRequest,
    Outcome,
    kept_answer,
    key_of,
    keyed,
    refuse_unless_free,
    repeat,
)
from webhook_dispatcher.api.operations.commands import response_of
from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.storage.api.database import transaction
from webhook_dispatcher.storage.api.requests import KnownRequest, Requests

Forward = Callable[[Request, str | None], Awaitable[Response]]
"""Asks the charge service to carry a request out, by the key that it gets for it, if the request has one."""
MENDABLE = (VALIDATION_FAILED, NOT_JSON, WRONG_CONTENT_TYPE, INVALID_URL)
"""Refusals that are not kept: the client may mend its request and send it with the same key."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to ask, and to write what came of it. was_in_doubt: the charge service was asked before."""

    id: UUID
    identity: KeyedRequest
    was_in_doubt: bool


class OnceUpstream:
    """Has each request carried out once. patience: how long a claim lasts: longer than asking can take."""

    def __init__(self, forward: Forward, patience: timedelta) -> None:
        self._forward = forward
        self._patience = patience

    async def once(self, request: Request) -> Response:
        """Have it carried out, or say what came of it before."""
        key = key_of(request.head)
        outcome = await (self._forward(request, None) if key is None else self._keyed(request, key))
        if isinstance(outcome, ApiError):
            raise outcome
        return await response_of(request.caller, outcome)

    async def _keyed(self, request: Request, key: str) -> Outcome:
        method, target = request.head.operation.method, forwarded.target(request.head)
        claim = await self._claim(request, keyed(method, target, key, request.body))
        if not isinstance(claim, Claim):
            return claim
        derived = derived_key(request.caller.bearer.client_id, method, target, key)
        try:
            outcome: Outcome = await self._forward(request, derived)
        except ApiError as refused:
            outcome = refused
        try:
            await _settle(request, claim, outcome)
        except DispatcherError as error:
            # The client gets its answer all the same. Nothing is kept of it: the claim stays until it has run
            # out, and then the same key asks the charge service again.
            _log.error("claim.unsettled", error=str(error))
        return outcome

    async def _claim(self, request: Request, identity: KeyedRequest) -> Claim | Outcome:
        """Claim the key, or say what came of it before."""
        async with transaction(request.caller.database) as connection:
            requests = Requests(connection, request.caller.bearer)
            begun = await requests.begin(identity.hash)
            if begun.known is not None and not _is_in_doubt(begun.known, identity):
                return repeat(begun.known, identity)
            refuse_unless_free(request.caller, begun)
            claim = await requests.claim(identity.hash, identity.body_hash, self._patience)
        return Claim(claim, identity, begun.known is not None)


def _is_in_doubt(known: KnownRequest, identity: KeyedRequest) -> bool:
    return known.asked_for == timedelta() and known.body_hash == identity.body_hash


async def _settle(request: Request, claim: Claim, outcome: Outcome) -> None:
    """Write what came of asking.

    A key that was in doubt stays so until there is an answer to keep: that a request had no effect now does
    not say that the one before had none.
    """
    requests, request_hash = Requests(request.caller.database, request.caller.bearer), claim.identity.hash
    if _is_final(outcome):
        await requests.answer(request_hash, claim.id, kept_answer(outcome, request.head.language))
    elif claim.was_in_doubt or _may_have_acted(outcome):
        await requests.doubt(request_hash, claim.id)
    else:
        await requests.forget(request_hash, claim.id)


def _is_final(outcome: Outcome) -> TypeGuard[Response | ApiError]:
    """Tell whether this is kept, so that the same key gets it again."""
    if not isinstance(outcome, ApiError):
        return isinstance(outcome, Response)
    may_be_mended = outcome.code in forwarded.VALIDATION or outcome.code in (KEY_REUSED, STILL_RUNNING)
    return is_kept(outcome) and not may_be_mended


def is_kept(refused: ApiError) -> bool:
    """Tell whether the same key gets this refusal of the charge service's again.

    Not where it is a failure (5xx), where it may be over by itself (a new token, a limit, Retry-After), nor
    where the client can mend its request.
    """
    status = entry_of(refused.code).status or refused.status or 0
    is_for_now = status in (401, 429) or "Retry-After" in refused.headers
    return 400 <= status < 500 and not is_for_now and refused.code not in MENDABLE


def _may_have_acted(outcome: Outcome) -> bool:
    """Tell whether there may be an effect: nobody knows, or the charge service is still working on it."""
    return isinstance(outcome, forwarded.OutcomeUnknown) or (
        isinstance(outcome, ApiError) and outcome.code == STILL_RUNNING
    )
