"""`POST /v1/auth/token`: credentials are exchanged for an access token.

As JSON, or as RFC 6749's client credentials: a form, the client named in it or by HTTP Basic. Limits come
first, whether or not such a client exists; an unknown client and a wrong secret are asked for, compared and
answered alike. A wrong secret counts against the address that sent it, and not against the client alone: its
id is no secret, and its owner must get tokens while others guess.
"""

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, NamedTuple
from urllib.parse import unquote_plus

from pydantic import ConfigDict, Field

from webhook_dispatcher.api.admission import headers_of_limits
from webhook_dispatcher.api.calls import JSON, ApiError, Head, Response
from webhook_dispatcher.api.catalogue import KEY_REVOKED, LIMIT_EXCEEDED, WRONG_CREDENTIALS
from webhook_dispatcher.api.operations.models import Instant, write
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.api.validation import Model
from webhook_dispatcher.domain.credentials import SECRET_BYTES, AccessToken, ClientId, ClientSecret
from webhook_dispatcher.domain.rate_limit import MAX_LIMIT, Limit, RateLimits
from webhook_dispatcher.storage.api.limits import Subject, Taken
from webhook_dispatcher.storage.api.tokens import Tokens
from webhook_dispatcher.web.clients import Address, subjects_of

LIFETIME = timedelta(hours=1)
"""Source: partner-api.md 5.1."""
MAX_BODY_BYTES = 16_384
"""Little: who asks for a token is not authenticated yet, and must not take memory from those who are."""
WIDE_FACTOR = 10
"""A /48 of IPv6 may ask so many times as often as one address."""
EXAMPLE_ID, EXAMPLE_SECRET = "Qw3rTy7uIoPaSdFgHjKlZx", "a-secret-is-told-once-when-its-key-is-made_"
NOT_KEPT = {"Pragma": "no-cache"}
"""For caches of HTTP/1.0; the others are told by `Cache-Control`. Source: RFC 6749 5.1."""
NOBODY = bytes(32)
"""Stands for the hash of a text that cannot be a secret: no secret has this hash. The database compares it as
any other, so that such a text is answered as a wrong secret is, and as late."""


class TokenRequest(Model):
    """Credentials, as JSON."""

    client_id: str = Field(min_length=1, max_length=128, examples=[EXAMPLE_ID])
    client_secret: str = Field(min_length=1, max_length=128, examples=[EXAMPLE_SECRET])


class TokenForm(Model):
    """Credentials, as RFC 6749 4.4.2 has them; the client may be named by HTTP Basic instead (2.3.1).

    Other fields are passed over, as it says (3.2).
    """

    model_config = ConfigDict(alias_generator=None, extra="ignore")

    grant_type: Literal["client_credentials"]
    client_id: str | None = Field(None, max_length=128, examples=[EXAMPLE_ID])
    client_secret: str | None = Field(None, max_length=128, examples=[EXAMPLE_SECRET])
    scope: str | None = Field(None, max_length=1000)


class TokenAnswer(Model):
    """An access token, for `Authorization: Bearer`."""

    access_token: str
    token_type: Literal["Bearer"]
    expires_in: int
    expires_at: Instant


class OAuthToken(Model):
    """The same as RFC 6749 5.1 has it, for who asked with its form."""

    model_config = ConfigDict(alias_generator=None)

    access_token: str
    token_type: Literal["Bearer"]
    expires_in: int


class OAuthError(Model):
    """A refusal as RFC 6749 5.2 has it, for who asked with its form."""

    model_config = ConfigDict(alias_generator=None)

    error: str = Field(examples=["invalid_client", "invalid_request", "unsupported_grant_type"])
    error_description: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """A client's id and secret as they were sent, right or wrong."""

    client_id: str
    client_secret: str


class _Subjects(NamedTuple):
    """What asking for a token is counted by.

    of_client: tokens that were issued to it, wherever it asked. of_both: how often it was asked for by an
    address. of_address: how often the address asked for any; under the names that clients are told.
    """

    of_client: Subject
    of_both: Subject
    of_address: dict[str, Subject]


class Issuing:
    """Issues access tokens."""

    def __init__(self, databases: Databases, limits: RateLimits) -> None:
        self._databases = databases
        self._limits = limits

    async def issue(self, head: Head, body: TokenRequest | TokenForm) -> Response:
        """Issue a token. ApiError: a limit is reached, the credentials are wrong, or the key is revoked."""
        credentials = _credentials(head, body)
        client_id = ClientId.parse(credentials.client_id)
        named = self._databases.named(client_id.shard) if client_id else None
        shares = named or self._databases.first
        share = shares.issuing.of(head.address)
        secret = ClientSecret.parse(credentials.client_secret)
        token = AccessToken.from_random(
            secrets.token_bytes(SECRET_BYTES), client_id.shard if client_id else None
        )
        subjects = self._subjects(head.address, credentials.client_id)
        issued = await Tokens(share).issue(
            str(client_id) if client_id and named else "",
            secret.hash if secret else NOBODY,
            token.hash,
            LIFETIME,
            subjects.of_client,
            [subjects.of_both, *subjects.of_address.values()],
        )
        headers = _headers(subjects, issued.taken)
        if issued.taken.retry_after is not None:
            raise ApiError(LIMIT_EXCEEDED, headers=headers)
        if issued.expires_at is None:
            raise ApiError(KEY_REVOKED if issued.state == "revoked" else WRONG_CREDENTIALS, headers=headers)
        shares.note_issued(token.hash, share)
        fields = {
            "access_token": token.revealed,
            "token_type": "Bearer",
            "expires_in": int(LIFETIME.total_seconds()),
        }
        if isinstance(body, TokenForm):
            return Response(write(OAuthToken, **fields), headers=headers | NOT_KEPT, page=JSON)
        return Response(write(TokenAnswer, **fields, expires_at=issued.expires_at), headers=headers)

    def _subjects(self, address: Address, client_id: str) -> _Subjects:
        client = f"client:{hashlib.sha256(client_id.encode()).hexdigest()}"
        return _Subjects(
            Subject(client, self._limits.client),
            Subject(f"{client}:{subjects_of(address)[0]}", self._limits.client),
            _of_address(address, self._limits.address),
        )


def _headers(subjects: _Subjects, taken: Taken) -> dict[str, str]:
    """Tell a client what is left; of its own limit and that of it and the address, the lesser."""
    of_client, of_both, *of_address = taken.left
    lesser = min(of_client or 0, of_both or 0)
    limits = {"client": subjects.of_client.limit}
    limits |= {name: subject.limit for name, subject in subjects.of_address.items()}
    return headers_of_limits(limits, taken._replace(left=(lesser, *of_address)))


def _of_address(address: Address, limit: Limit) -> dict[str, Subject]:
    """Return what an address is counted by, under the names that clients are told: of IPv6 the /48 too."""
    wide = replace(limit, most=min(limit.most * WIDE_FACTOR, MAX_LIMIT))
    named = zip(subjects_of(address), (("address", limit), ("network", wide)), strict=False)
    return {name: Subject(f"ip:{subject}", each) for subject, (name, each) in named}


def _credentials(head: Head, body: TokenRequest | TokenForm) -> Credentials:
    if isinstance(body, TokenForm):
        basic = _basic(head)
        if basic is not None and body.client_id in (None, basic.client_id):
            return basic
    return Credentials(body.client_id or "", body.client_secret or "")


def _basic(head: Head) -> Credentials | None:
    """Read HTTP Basic; both halves are encoded as forms are (RFC 6749 2.3.1)."""
    values = head.headers.getall("Authorization", [])
    scheme, _, encoded = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    if scheme.lower() != "basic" or len(encoded) > 512:
        return None
    try:
        name, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode("ascii").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Credentials(unquote_plus(name), unquote_plus(secret)) if colon else None
