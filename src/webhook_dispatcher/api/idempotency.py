"""The same request twice has one effect and one answer: what `Idempotency-Key` promises.

What we do ourselves is done in one transaction with what is kept of it, so that a process that dies leaves
both or nothing. A request that gives a command is bound to that command: a repeat waits for what becomes of
it, as the first request does, and gives another only where that one was rejected. A refusal has no effect
and is not kept: the same key may be used again.

What is forwarded to the charge service can be in no transaction of ours: `charge_service.claims`.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import orjson

from webhook_dispatcher.api.calls import (
    IDEMPOTENCY_KEY,
    REPLAYED,
    ApiError,
    Caller,
    CommandAccepted,
    Detail,
    Head,
    MerchantOperation,
    Request,
    Response,
)
from webhook_dispatcher.api.catalogue import KEY_MISSING, KEY_REUSED, LIMIT_EXCEEDED, STILL_RUNNING, entry_of
from webhook_dispatcher.api.operations.commands import response_of, when_held
from webhook_dispatcher.domain.command import CommandStatus
from webhook_dispatcher.domain.errors import StillSending
from webhook_dispatcher.domain.language import LANGUAGES, Language
from webhook_dispatcher.storage.api.database import transaction
from webhook_dispatcher.storage.api.endpoints import Endpoints
from webhook_dispatcher.storage.api.requests import Begun, KeptAnswer, KnownRequest, Requests

_KEY = re.compile(r"[\x20-\x7e]{1,255}")
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')

Outcome = Response | CommandAccepted | ApiError
CarryOut = Callable[[Request], Awaitable[Response | CommandAccepted | StillSending]]


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """What tells one request of an API key from its others.

    hash: of the method, the path with query and the Idempotency-Key. body_hash: of the body; the same key
    with another body is refused.
    """

    hash: bytes
    body_hash: bytes


async def once(operation: MerchantOperation[Any], request: Request, carry_out: CarryOut) -> Response:
    """Carry a request of an operation of our own out once, or say what came of it before."""
    key = key_of(request.head)
    outcome = await when_held(request, partial(_carry_out, operation, request, key, carry_out))
    if isinstance(outcome, ApiError):
        raise outcome
    return await response_of(request.caller, outcome, operation.outcome)


async def _carry_out(
    operation: MerchantOperation[Any], request: Request, key: str | None, carry_out: CarryOut
) -> Outcome:
    if operation.idempotency == "none":
        outcome: Outcome | StillSending = await carry_out(request)
    else:
        async with transaction(request.caller.database) as connection:
            within = request._replace(caller=request.caller._replace(database=connection))
            outcome = await (carry_out(within) if key is None else _keyed(operation, within, key, carry_out))
    if isinstance(outcome, StillSending):
        # Raised within, it would undo the recall.
        raise outcome
    return outcome


async def _keyed(
    operation: MerchantOperation[Any], request: Request, key: str, carry_out: CarryOut
) -> Outcome | StillSending:
    """Carry it out within the transaction that keeps its outcome, or return the outcome that was kept."""
    head, caller = request.head, request.caller
    identity = keyed(operation.method, head.target, key, request.body)
    requests = Requests(caller.database, caller.bearer)
    begun = await requests.begin(identity.hash)
    if begun.known is not None and not await _was_rejected(operation, caller, begun.known, identity):
        return repeat(begun.known, identity)
    refuse_unless_free(caller, begun)
    outcome = await carry_out(request)
    if isinstance(outcome, StillSending):
        return outcome
    if isinstance(outcome, CommandAccepted):
        await requests.keep_command(identity.hash, identity.body_hash, outcome.command_id, head.language)
    else:
        await requests.keep_answer(identity.hash, identity.body_hash, kept_answer(outcome, head.language))
    return outcome


async def _was_rejected(
    operation: MerchantOperation[Any], caller: Caller, known: KnownRequest, identity: KeyedRequest
) -> bool:
    """Tell whether the command of an equal request had no effect, and its client was or would be told so."""
    if known.command is None or known.body_hash != identity.body_hash or operation.outcome is None:
        return False
    command = await Endpoints(caller.database).command(caller.token, known.command.id)
    return command is not None and command.status == CommandStatus.REJECTED


def refuse_unless_free(caller: Caller, begun: Begun) -> None:
    """Refuse what is being carried out now, what a limit forbids, and what could not be kept."""
    if caller.full is not None:
        raise caller.full
    if not begun.is_ours:
        raise ApiError(STILL_RUNNING, headers={"Retry-After": "1"})
    if begun.full_for is not None:
        seconds = max(1, ceil(begun.full_for.total_seconds()))
        raise ApiError(LIMIT_EXCEEDED, headers={"Retry-After": str(seconds)})


def kept_answer(outcome: Response | ApiError, language: Language) -> KeptAnswer:
    """Return an answer or a refusal in the form in which the database keeps it."""
    if isinstance(outcome, Response):
        data = outcome.data if outcome.kept is None else outcome.kept
        return KeptAnswer(outcome.status, language, data.decode())
    error = {
        "code": outcome.code,
        "details": [[detail.field, detail.message] for detail in outcome.details],
        "extra": dict(outcome.extra),
    }
    status = entry_of(outcome.code).status or outcome.status or 422
    return KeptAnswer(status, language, orjson.dumps(error).decode())


def repeat(known: KnownRequest, identity: KeyedRequest) -> Outcome:
    """Return the outcome of an equal request before, in the language in which it was told first.

    ApiError where the body is another, or where that request is still being carried out.
    """
    if known.body_hash != identity.body_hash:
        raise ApiError(KEY_REUSED)
    if known.command is not None:
        return CommandAccepted(known.command.id, _language(known.command.language), REPLAYED)
    if known.answer is None:
        raise ApiError(STILL_RUNNING, headers={"Retry-After": "1"})
    answer, language = known.answer, _language(known.answer.language)
    if answer.status < 400:
        return Response(answer.text.encode(), answer.status, REPLAYED, language=language)
    error = orjson.loads(answer.text)
    details = tuple(Detail(field, message) for field, message in error["details"])
    return ApiError(error["code"], details, REPLAYED, error["extra"], status=answer.status, language=language)


def keyed(method: str, target: str, key: str, body: bytes) -> KeyedRequest:
    """Return what tells a request from others: its key counts for one method and path with query alone."""
    digest = hashlib.sha256()
    for part in (method, target, key):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4) + encoded)
    return KeyedRequest(digest.digest(), hashlib.sha256(body).digest())


def key_of(head: Head) -> str | None:
    """Read the key, if the operation takes one; a quoted string means the same as a bare one.

    ApiError where it is none, or two, or is missing though it is required.
    """
    rule = head.operation.idempotency
    values = head.headers.getall(IDEMPOTENCY_KEY, []) if rule != "none" else []
    if not values:
        if rule == "required":
            raise ApiError(KEY_MISSING)
        return None
    text = values[0].strip(" \t")
    if (quoted := _QUOTED.fullmatch(text)) is not None:
        text = re.sub(r"\\(.)", r"\1", quoted[1])
    if len(values) > 1 or not _KEY.fullmatch(text):
        raise ApiError(KEY_MISSING)
    return text


def _language(text: str) -> Language | None:
    return next((language for language in LANGUAGES if language == text), None)
