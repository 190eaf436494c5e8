"""Who asks, and how often: the credentials and limits of all operations but the token's own.

A token says by its name which database its merchant is in; whatever is asked with it is asked there.
"""

import re
from collections.abc import Mapping
from datetime import timedelta

from webhook_dispatcher.api import card_attempts
from webhook_dispatcher.api.calls import ApiError, Caller, Head
from webhook_dispatcher.api.catalogue import INVALID_TOKEN, KEY_REVOKED, LIMIT_EXCEEDED, TOKEN_MISSING
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.domain.credentials import AccessToken
from webhook_dispatcher.domain.rate_limit import Limit, RateLimits
from webhook_dispatcher.storage.api.limits import Limits, Subject, Taken
from webhook_dispatcher.storage.api.tokens import Tokens

MAX_AUTHORIZATION = 512
"""Characters of the header that are looked at: a token has at most 76."""
NO_LIMIT = Limit(0, timedelta(minutes=1))
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)


class ByToken:
    """Admission: lets in whose token is live and whose key has requests left, by the request's head alone."""

    def __init__(self, databases: Databases, limits: RateLimits) -> None:
        self._databases = databases
        self._limits = limits

    async def admit(self, head: Head) -> Caller:
        """Say whose request it is, or refuse it; one statement, and a second once a minute.

        One that counts for a card too takes both limits or neither, by a statement more.
        """
        token = _token_of(head)
        shares = self._databases.named(token.shard)
        if shares is None:
            raise ApiError(INVALID_TOKEN)
        token_hash = token.hash
        tokens = Tokens(shares.of_token(token_hash, head.address))
        is_of_card = head.operation.limit == "card"
        limit = NO_LIMIT if is_of_card else self._limits.key
        lookup = await tokens.admit(token_hash, limit, with_endpoint=head.operation.shows_endpoint)
        if lookup.bearer is None or lookup.taken is None:
            shares.forget(token_hash)
            raise ApiError(KEY_REVOKED if lookup.state == "revoked" else INVALID_TOKEN)
        database = shares.note(token_hash, lookup.bearer)
        caller = Caller(lookup.bearer, database, token.shard, endpoint=lookup.endpoint)
        if is_of_card:
            caller = await self._with_card(caller, head.parameters["id"])
        else:
            caller = _with_limits(caller, limit_headers("key", limit, lookup.taken), lookup.taken)
        # What was answered before is told again whatever is full: for 15 minutes, a card's limit would hide
        # whether its last attempt was the right one.
        if caller.full is not None and not head.may_be_known:
            raise caller.full
        if lookup.is_use_due:
            await tokens.note_use(lookup.bearer.api_key_id)
        return caller

    async def _with_card(self, caller: Caller, card_id: str) -> Caller:
        """Take the key's limit and the card's, both or neither."""
        key = Subject(f"key:{caller.bearer.api_key_id}", self._limits.key)
        card = card_attempts.subject_of(caller.bearer.merchant_id, card_id, self._limits.card)
        taken = await Limits(caller.database).take([key, card])
        # Without any limit nothing was counted, and nothing can be released.
        if taken.retry_after is None and taken.at:
            caller = caller._replace(attempt=card_attempts.CardAttempt(caller.database, card, taken.at))
        limits = {"key": self._limits.key, "card": self._limits.card}
        return _with_limits(caller, headers_of_limits(limits, taken), taken)


def _with_limits(caller: Caller, headers: Mapping[str, str], taken: Taken) -> Caller:
    """Note what is left of limits, and whether one is full; Retry-After goes with the refusal alone."""
    if taken.retry_after is None:
        return caller._replace(headers=headers)
    left = {name: text for name, text in headers.items() if name != "Retry-After"}
    return caller._replace(headers=left, full=ApiError(LIMIT_EXCEEDED, headers=headers))


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


def _token_of(head: Head) -> AccessToken:
    """Read the one token that a request brings."""
    values = head.headers.getall("Authorization", [])
    if not values:
        raise ApiError(TOKEN_MISSING)
    match = _BEARER.fullmatch(values[0]) if len(values) == 1 and len(values[0]) <= MAX_AUTHORIZATION else None
    token = AccessToken.parse(match[1]) if match else None
    if token is None:
        raise ApiError(INVALID_TOKEN)
    return token
