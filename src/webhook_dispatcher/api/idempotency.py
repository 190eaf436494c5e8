"""The same request twice has one effect and one answer: what `Idempotency-Key` promises.

What we do ourselves is done in one transaction with what is kept of it, so that a process that dies leaves
both or nothing. A request that gives a command is bound to that command: a repeat waits for what becomes of
it, as the first request does, and never gives another. What is not kept has had no effect: credentials and
limits that were refused, fields that are not valid, our own failures.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import orjson

from webhook_dispatcher.api.calls import Answer, Asked, Detail, Given, Refused
from webhook_dispatcher.api.catalogue import (
    INVALID_URL,
    KEY_MISSING,
    KEY_REUSED,
    NOT_JSON,
    STILL_RUNNING,
    VALIDATION_FAILED,
    WRONG_CONTENT_TYPE,
    entry_of,
)
from webhook_dispatcher.api.operations.commands import answer_of
from webhook_dispatcher.domain.language import LANGUAGES, Language
from webhook_dispatcher.storage.api.database import transaction
from webhook_dispatcher.storage.api.requests import KeptAnswer, KnownRequest, Requests

HEADER = "Idempotency-Key"
REPLAYED = {"Idempotent-Replayed": "true"}
MENDABLE = (VALIDATION_FAILED, NOT_JSON, WRONG_CONTENT_TYPE, INVALID_URL)
_KEY = re.compile(r"[\x20-\x7e]{1,255}")
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')

Outcome = Answer | Given | Refused
CarryOut = Callable[[Asked], Awaitable[Answer | Given]]


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request as its API key's are known again. hash: of what, by which key; body_hash: what was sent."""

    hash: bytes
    body_hash: bytes


class OnceForEachKey:
    """Carries each request out once."""

    async def once(self, asked: Asked, carry_out: CarryOut) -> Answer:
        """Carry it out, or say what came of it before."""
        outcome = await self._carry_out(asked, key_of(asked), carry_out)
        if isinstance(outcome, Refused):
            raise outcome
        return await answer_of(asked, outcome)

    async def _carry_out(self, asked: Asked, key: str | None, carry_out: CarryOut) -> Outcome:
        if asked.operation.idempotency == "none":
            return await carry_out(asked)
        async with transaction(asked.database) as connection:
            within = replace(asked, admitted=asked.admitted._replace(database=connection))
            return await (carry_out(within) if key is None else _keyed(within, key, carry_out))


async def _keyed(asked: Asked, key: str, carry_out: CarryOut) -> Outcome:
    """Do it within the transaction that keeps what came of it, or say what came of it before."""
    request = keyed(asked, key)
    requests = Requests(asked.database, asked.bearer)
    is_ours, known = await requests.begin(request.hash)
    if known is not None:
        return repeat(known, request)
    if not is_ours:
        raise Refused(STILL_RUNNING, headers={"Retry-After": "1"})
    outcome = await _effect(asked, carry_out)
    await _keep(requests, request, outcome, asked.language)
    return outcome


async def _effect(asked: Asked, carry_out: CarryOut) -> Outcome:
    """Do it within a savepoint, which a refusal rolls back: the transaction goes on to keep the refusal."""
    try:
        async with transaction(asked.database):
            return await carry_out(asked)
    except Refused as refused:
        if not is_kept(refused):
            raise
        return refused


def is_kept(refused: Refused) -> bool:
    """Whether the same key gets this refusal again: not what the client can mend, or what passes."""
    status = entry_of(refused.code).status or refused.status or 0
    passes = status in (401, 429) or "Retry-After" in refused.headers
    return 400 <= status < 500 and not passes and refused.code not in MENDABLE


async def _keep(requests: Requests, request: KeyedRequest, outcome: Outcome, language: Language) -> None:
    if isinstance(outcome, Given):
        await requests.keep_command(request.hash, request.body_hash, outcome.command_id, language)
    else:
        await requests.keep_answer(request.hash, request.body_hash, kept_answer(outcome, language))


def kept_answer(outcome: Answer | Refused, language: Language) -> KeptAnswer:
    """Write down what was answered."""
    if isinstance(outcome, Answer):
        data = outcome.data if outcome.kept is None else outcome.kept
        return KeptAnswer(outcome.status, language, data.decode())
    error = {
        "code": outcome.code,
        "details": [[detail.field, detail.message] for detail in outcome.details],
        "extra": dict(outcome.extra),
    }
    status = entry_of(outcome.code).status or outcome.status or 422
    return KeptAnswer(status, language, orjson.dumps(error).decode())


def repeat(known: KnownRequest, request: KeyedRequest) -> Outcome:
    """Say again what came of a request, as it was said first."""
    if known.body_hash != request.body_hash:
        raise Refused(KEY_REUSED)
    if known.command is not None:
        return Given(known.command.id, _language(known.command.language), REPLAYED)
    if known.answer is None:
        raise Refused(STILL_RUNNING, headers={"Retry-After": "1"})
    answer, language = known.answer, _language(known.answer.language)
    if answer.status < 400:
        return Answer(answer.text.encode(), answer.status, REPLAYED, language=language)
    error = orjson.loads(answer.text)
    details = tuple(Detail(field, message) for field, message in error["details"])
    return Refused(error["code"], details, REPLAYED, error["extra"], status=answer.status, language=language)


def keyed(asked: Asked, key: str) -> KeyedRequest:
    """Say by what an API key's request is known again: its key, for one operation on one thing."""
    digest = hashlib.sha256()
    for part in (asked.operation.method, asked.target, key):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4) + encoded)
    return KeyedRequest(digest.digest(), hashlib.sha256(asked.raw_body).digest())


def key_of(asked: Asked) -> str | None:
    """Read the key, if the operation takes one; a quoted string means the same as a bare one.

    Refused where it is none, or two, or is missing though it is required.
    """
    rule = asked.operation.idempotency
    given = asked.headers.getall(HEADER, []) if rule != "none" else []
    if not given:
        if rule == "required":
            raise Refused(KEY_MISSING)
        return None
    text = given[0].strip(" \t")
    if (quoted := _QUOTED.fullmatch(text)) is not None:
        text = re.sub(r"\\(.)", r"\1", quoted[1])
    if len(given) > 1 or not _KEY.fullmatch(text):
        raise Refused(KEY_MISSING)
    return text


def _language(text: str) -> Language | None:
    return next((language for language in LANGUAGES if language == text), None)
