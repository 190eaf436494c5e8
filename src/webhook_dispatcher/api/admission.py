"""Who asks, and how often: the credentials and limits of all operations but the token's own.

A token says by its name which database its merchant is in; whatever is asked with it is asked there.
"""

import re
from collections.abc import Mapping

from webhook_dispatcher.api.calls import Admitted, Asked, Refused
from webhook_dispatcher.api.catalogue import INVALID_TOKEN, KEY_REVOKED, LIMIT_EXCEEDED, TOKEN_MISSING
from webhook_dispatcher.domain.credentials import AccessToken
from webhook_dispatcher.domain.rate_limit import Limit, RateLimits
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.api.limits import Taken
from webhook_dispatcher.storage.api.tokens import Admission, Tokens

MAX_AUTHORIZATION = 512
"""Characters of the header that are looked at: a token has at most 76."""
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)


class Databases:
    """The databases by their names; None is the name of a single one without."""

    def __init__(self, pools: Mapping[str | None, Database]) -> None:
        self._pools = pools

    def named(self, shard: str | None) -> Database | None:
        """Return the database that a token or client id names; None where there is no such."""
        return self._pools.get(shard)

    @property
    def first(self) -> Database:
        """Where those are counted who name no database of ours."""
        return next(iter(self._pools.values()))


class ByToken:
    """Lets in whose token is live and whose key has requests left."""

    def __init__(self, databases: Databases, limits: RateLimits) -> None:
        self._databases = databases
        self._limit = limits.key

    async def admit(self, asked: Asked) -> Admitted:
        """Say whose request it is, or refuse it; one statement, and a second once a minute."""
        if asked.operation.limit in ("none", "token"):
            return Admitted()
        token = _token_of(asked)
        database = self._databases.named(token.shard)
        if database is None:
            raise Refused(INVALID_TOKEN)
        tokens = Tokens(database)
        admission = await tokens.admit(token.hash, self._limit, with_endpoint=asked.operation.shows_endpoint)
        admitted = self._admitted(admission, database, token.shard)
        if admission.is_use_due and admitted.bearer is not None:
            await tokens.note_use(admitted.bearer.api_key_id)
        return admitted

    def _admitted(self, admission: Admission, database: Database, shard: str | None) -> Admitted:
        if admission.state == "revoked":
            raise Refused(KEY_REVOKED)
        if admission.bearer is None or admission.taken is None:
            raise Refused(INVALID_TOKEN)
        headers = limit_headers("key", self._limit, admission.taken)
        if admission.taken.retry_after is not None:
            raise Refused(LIMIT_EXCEEDED, headers=headers)
        return Admitted(admission.bearer, database, shard, headers, admission.endpoint)


def limit_headers(name: str, limit: Limit, taken: Taken) -> dict[str, str]:
    """Tell a client how much is left, and when to come again where nothing is.

    Source: RFC 9110 10.2.3; draft-ietf-httpapi-ratelimit-headers-11.
    """
    if not limit.most:
        return {}
    headers = {"RateLimit-Policy": f'"{name}";q={limit.most};w={int(limit.window.total_seconds())}'}
    if taken.retry_after is None:
        return headers | {"RateLimit": f'"{name}";r={taken.remaining}'}
    seconds = int(taken.retry_after.total_seconds())
    return headers | {"RateLimit": f'"{name}";r=0;t={seconds}', "Retry-After": str(seconds)}


def _token_of(asked: Asked) -> AccessToken:
    """Read the one token that a request brings."""
    given = asked.headers.getall("Authorization", [])
    if not given:
        raise Refused(TOKEN_MISSING)
    match = _BEARER.fullmatch(given[0]) if len(given) == 1 and len(given[0]) <= MAX_AUTHORIZATION else None
    token = AccessToken.parse(match[1]) if match else None
    if token is None:
        raise Refused(INVALID_TOKEN)
    return token
