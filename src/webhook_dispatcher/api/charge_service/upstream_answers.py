"""What an answer of the charge service means; no I/O.

Every answer becomes a value. The body of a success goes to the client byte for byte, within our envelope. So
it is parsed first: text that is no JSON (NaN and infinities are none) would break the envelope. An object in
which a name occurs twice passes, as in the `object` of an event: the operation has taken place, and the
client had better learn that.

Of an error, only the fields that are chosen here reach the client.
Source: docs/producers/charge-service.md, "What is answered".
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import orjson

SUCCESSES = frozenset({HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED})
ABOUT_OUR_CREDENTIALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED})
"""It refuses the credentials of this program, not those of the client, which were checked before."""
AWAY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
"""A proxy or load balancer before the charge service answers so where it cannot reach it."""
MALFORMED_COMMAND = -14005
"""The one published code that only a mistake of this program can cause: clients are not told it."""
MAX_RETRY_AFTER_SECONDS = 86_400
_OURS = frozenset({"code", "type", "message", "details"})
_FIELDS = frozenset({"field", "message"})


@dataclass(frozen=True, slots=True)
class KnownCodes:
    """The part of the catalogue that decides what passes.

    statuses: of the codes of the table; ranges: those that are published; validation: the one with details.
    """

    statuses: Mapping[int, int]
    ranges: Sequence[Container[int]]
    validation: Container[int]

    def may_pass(self, code: int) -> bool:
        """Tell whether a client may learn this code from the charge service."""
        is_about_credentials = self.statuses.get(code) == HTTPStatus.UNAUTHORIZED
        is_published = any(code in codes for codes in self.ranges)
        return is_published and not is_about_credentials and code != MALFORMED_COMMAND


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A success. data: one JSON value, byte for byte."""

    status: int
    data: bytes


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field. field: a dotted path with numeric indexes."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class UpstreamError:
    """An error for the client. extra: further fields of `error`; retry_after: seconds, where it says so."""

    code: int
    status: int
    details: tuple[FieldProblem, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict)
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class UpstreamAway:
    """It could not be reached, or broke off. may_have_acted: false where it cannot have had the request."""

    detail: str
    may_have_acted: bool


@dataclass(frozen=True, slots=True)
class UpstreamTooSlow:
    """It had the request, or part of it, and gave no complete answer in time; it may have acted."""

    detail: str


@dataclass(frozen=True, slots=True)
class UpstreamBroken:
    """It answered what must not reach the client, who gets the internal error; it may have acted.

    detail: for the log; holds none of its bytes.
    """

    detail: str


Reply = Forwarded | UpstreamError | UpstreamAway | UpstreamTooSlow | UpstreamBroken


def judge(status: int, body: bytes, codes: KnownCodes, retry_after: str | None = None) -> Reply:
    """Say what a complete answer means."""
    if status == HTTPStatus.NO_CONTENT:
        return Forwarded(HTTPStatus.OK, b"null")
    if status in SUCCESSES:
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError:
            return UpstreamBroken(f"it answered {status} with what is no JSON")
        return Forwarded(status, body)
    if 400 <= status <= 599 and status not in ABOUT_OUR_CREDENTIALS:
        return _error(status, _parsed(body), codes, retry_after)
    return UpstreamBroken(f"it answered with status {status}")


def _error(status: int, error: Mapping[str, object], codes: KnownCodes, retry_after: str | None) -> Reply:
    code = error.get("code")
    if isinstance(code, int) and codes.may_pass(code):
        known = codes.statuses.get(code)
        # With a status of 5xx only a code of the table passes: it says what became of the request.
        if known is not None or status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return _passed(code, known or status, error, codes, retry_after)
    if status in AWAY:
        return UpstreamAway(f"it answered with status {status}", may_have_acted=True)
    said = f"the code {code}" if isinstance(code, int) else "no code"
    return UpstreamBroken(f"it answered with status {status} and {said}")


def _passed(
    code: int, status: int, error: Mapping[str, object], codes: KnownCodes, retry_after: str | None
) -> UpstreamError:
    details = _details(error.get("details")) if code in codes.validation else ()
    extra = {name: value for name, value in error.items() if name not in _OURS}
    return UpstreamError(code, status, details, extra, _seconds(retry_after, status))


def _details(value: object) -> tuple[FieldProblem, ...]:
    """Take the details that have the published form, and drop others: clients branch on the code alone."""
    items = value if isinstance(value, list) else []
    return tuple(
        FieldProblem(item["field"], item["message"])
        for item in items
        if isinstance(item, dict) and all(isinstance(item.get(name), str) for name in _FIELDS)
    )


def _seconds(retry_after: str | None, status: int) -> int | None:
    """Read Retry-After in its form of seconds; a refusal for too many requests has one in any case."""
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 9:
        return min(max(int(retry_after), 1), MAX_RETRY_AFTER_SECONDS)
    return 1 if status == HTTPStatus.TOO_MANY_REQUESTS else None


def _parsed(body: bytes) -> Mapping[str, object]:
    """Return the object of an error's body, or an empty one."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}
