"""Who asks, and how often: the credentials and limits of all operations but the token's own.

A token says by its name which database its merchant is in; whatever is asked with it is asked there.
"""

import re
from collections.abc import Mapping
from datetime import timedelta

from webhook_dispatcher.api import card_attempts
from webhook_dispatcher.api.calls import NOT_ADMITTED, Admitted, ApiError, Request
from webhook_dispatcher.api.catalogue import INVALID_TOKEN, KEY_REVOKED, LIMIT_EXCEEDED, TOKEN_MISSING
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.domain.credentials import AccessToken
from webhook_dispatcher.domain.rate_limit import Limit, RateLimits
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.api.limits import Limits, Subject, Taken
from webhook_dispatcher.storage.api.tokens import Bearer, TokenLookup, Tokens

MAX_AUTHORIZATION = 512
"""Characters of the header that are looked at: a token has at most 76."""
NO_LIMIT = Limit(0, timedelta(minutes=1))
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)


class ByToken:
    """Lets in whose token is live and whose key has requests left, by the request's head alone."""

    def __init__(self, databases: Databases, limits: RateLimits) -> None:
        self._databases = databases
        self._limits = limits

    async def admit(self, request: Request) -> Admitted:
        """Say whose request it is, or refuse it; one statement, and a second once a minute.

        One that counts for a card too takes both limits or neither, by a statement more.
        """
        if request.operation.limit in ("none", "token"):
            return NOT_ADMITTED
        token = _token_of(request)
        shares = self._databases.named(token.shard)
        if shares is None:
            raise ApiError(INVALID_TOKEN)
        token_hash = token.hash
        tokens = Tokens(shares.of_token(token_hash, request.address))
        is_of_card = request.operation.limit == "card"
        limit = NO_LIMIT if is_of_card else self._limits.key
        admission = await tokens.admit(token_hash, limit, with_endpoint=request.operation.shows_endpoint)
        if admission.bearer is None:
            shares.forget(token_hash)
            raise ApiError(KEY_REVOKED if admission.state == "revoked" else INVALID_TOKEN)
        database = shares.note(token_hash, admission.bearer)
        admitted = _admitted(admission, limit, database, token.shard)
        if is_of_card:
            admitted = await self._with_card(admitted, admission.bearer, database, request.parameters["id"])
        # What was answered before is told again whatever is full: for 15 minutes, a card's limit would hide
        # whether its last attempt was the right one.
        if admitted.full is not None and not request.may_be_known:
            raise admitted.full
        if admission.is_use_due:
            await tokens.note_use(admission.bearer.api_key_id)
        return admitted

    async def _with_card(
        self, admitted: Admitted, bearer: Bearer, database: Database, card_id: str
    ) -> Admitted:
        """Take the key's limit and the card's, both or neither."""
        shared = Subject(f"key:{bearer.api_key_id}", self._limits.key)
        card = card_attempts.subject_of(bearer.merchant_id, card_id, self._limits.card)
        taken = await Limits(database).take([shared, card])
        headers = headers_of_limits({"key": self._limits.key, "card": self._limits.card}, taken)
        if taken.retry_after is not None:
            return _full(admitted, headers)
        # Without any limit nothing was counted, and nothing can be released.
        attempt = card_attempts.CardAttempt(database, card, taken.at) if taken.at else None
        return admitted._replace(headers=headers, attempt=attempt)


def _admitted(admission: TokenLookup, limit: Limit, database: Database, shard: str | None) -> Admitted:
    assert admission.taken is not None, "taken of a live token"
    headers = limit_headers("key", limit, admission.taken)
    admitted = Admitted(admission.bearer, database, shard, headers, endpoint=admission.endpoint)
    return admitted if admission.taken.retry_after is None else _full(admitted, headers)


def _full(admitted: Admitted, headers: Mapping[str, str]) -> Admitted:
    """Note that a limit is full. Retry-After goes with the refusal alone."""
    left = {name: text for name, text in headers.items() if name != "Retry-After"}
    return admitted._replace(headers=left, full=ApiError(LIMIT_EXCEEDED, headers=headers))


def limit_headers(name: str, limit: Limit, taken: Taken) -> dict[str, str]:
    """Tell a client how much is left, and when to come again where nothing is.

    Source: RFC 9110 10.2.3; draft-ietf-httpapi-ratelimit-headers-11.
    """
    headers = {}
    left = f'"{name}";r={taken.remaining}'
    if taken.retry_after is not None:
        headers["Retry-After"] = seconds = str(int(taken.retry_after.total_seconds()))
        left = f'"{name}";r=0;t={seconds}'
    if limit.most:
        policy = f'"{name}";q={limit.most};w={int(limit.window.total_seconds())}'
        headers |= {"RateLimit-Policy": policy, "RateLimit": left}
    return headers


def headers_of_limits(limits: Mapping[str, Limit], taken: Taken) -> dict[str, str]:
    """Tell it of several limits that were taken together; Retry-After is the largest."""
    merged: dict[str, list[str]] = {}
    for (name, limit), left in zip(limits.items(), taken.left, strict=True):
        retry_after = None if left else taken.retry_after
        one = taken._replace(remaining=left or 0, retry_after=retry_after)
        for header, text in limit_headers(name, limit, one).items():
            merged.setdefault(header, []).append(text)
    return {
        header: texts[0] if header == "Retry-After" else ", ".join(texts) for header, texts in merged.items()
    }


def _token_of(request: Request) -> AccessToken:
    """Read the one token that a request brings."""
    given = request.headers.getall("Authorization", [])
    if not given:
        raise ApiError(TOKEN_MISSING)
    match = _BEARER.fullmatch(given[0]) if len(given) == 1 and len(given[0]) <= MAX_AUTHORIZATION else None
    token = AccessToken.parse(match[1]) if match else None
    if token is None:
        raise ApiError(INVALID_TOKEN)
    return token
