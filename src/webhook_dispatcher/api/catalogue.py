"""Every error that the Partner API answers with: code, HTTP status, label; its words have its code for a key.

The codes from -1007 to -12004 and the ranges are the charge service's. Our own choice are the
labels, the words, -11004, the statuses of -14001 to -14004 and the range from -16001 on. That range is for
requests that reached no operation, and for our own failures.

A code within a known range that has no row is the charge service's: the client gets it with the charge
service's status and the words of its range. Every other code that has no row is told as an internal error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from webhook_dispatcher import words
from webhook_dispatcher.domain.language import Language

VALIDATION_FAILED = -1007
WRONG_CREDENTIALS = -10001
INVALID_TOKEN = -10002
KEY_REVOKED = -10003
KEY_MISSING = -11001
KEY_REUSED = -11002
STILL_RUNNING = -11003
TOKEN_MISSING = -11004
LIMIT_EXCEEDED = -11005
CARD_OF_ANOTHER = -8006
INVALID_URL = -14001
NOT_CONFIGURED = -14002
DELIVERY_NOT_FOUND = -14003
STATE_FORBIDS = -14004
NO_SUCH_PATH = -16001
METHOD_NOT_ALLOWED = -16002
NOT_JSON = -16003
BODY_TOO_LARGE = -16004
TOO_SLOW = -16005
WRONG_CONTENT_TYPE = -16006
MALFORMED_REQUEST = -16007
HEAD_TOO_LARGE = -16008
UNKNOWN_EXPECTATION = -16009
INTERNAL = -16010
UPSTREAM_AWAY = -16011
UPSTREAM_TOO_SLOW = -16012
UNAVAILABLE = -16013
NOT_FOUND = -16014

STATE, TOO_MANY_COMMANDS, NOT_HELD = "state", "too_many_commands", "not_held"
TOO_MANY_ENDPOINTS, STILL_SENDING = "too_many_endpoints", "still_sending"
REPEATED_NAME, TOO_DEEP, TOO_MANY_MEMBERS = "repeated_name", "too_deep", "too_many_members"
COMPRESSED, CHARSET, BODY_NOT_ALLOWED = "compressed", "charset", "body_not_allowed"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the catalogue. status: None where it is the upstream's. text: the key of its words."""

    status: int | None
    type: str
    text: str


@dataclass(frozen=True, slots=True)
class CodeRange:
    """Codes of one topic, whose label is the key of its words. first: nearest to zero; last: furthest."""

    first: int
    last: int
    type: str

    def __contains__(self, code: int) -> bool:
        return self.last <= code <= self.first


RANGES = (
    CodeRange(-1001, -1009, "validation"),
    CodeRange(-2001, -2009, "shares"),
    CodeRange(-3001, -3007, "charge"),
    CodeRange(-4001, -4004, "business"),
    CodeRange(-5001, -5006, "merchant"),
    CodeRange(-6001, -6007, "recipient"),
    CodeRange(-7001, -7002, "customer"),
    CodeRange(-8001, -8008, "card"),
    CodeRange(-9001, -9009, "provider"),
    CodeRange(-10001, -10003, "authentication"),
    CodeRange(-11001, -11005, "request"),
    CodeRange(-12001, -12004, "fiscal"),
    CodeRange(-14001, -14005, "webhook"),
)

NOT_FOUND_BEHIND = (-3001, -5001, -6001)
"""The charge service's, which have words of their own: a charge, merchant or recipient is not there."""

_ROWS: Mapping[int, tuple[int, str]] = {
    VALIDATION_FAILED: (422, "validation"),
    WRONG_CREDENTIALS: (401, "authentication"),
    INVALID_TOKEN: (401, "authentication"),
    KEY_REVOKED: (401, "authentication"),
    KEY_MISSING: (400, "request"),
    KEY_REUSED: (422, "request"),
    STILL_RUNNING: (409, "request"),
    TOKEN_MISSING: (401, "request"),
    LIMIT_EXCEEDED: (429, "request"),
    -2006: (422, "shares"),
    -3004: (409, "charge"),
    -3006: (422, "charge"),
    -3007: (409, "charge"),
    -6004: (422, "recipient"),
    -8004: (422, "card"),
    CARD_OF_ANOTHER: (403, "card"),
    -9002: (422, "provider"),
    -9004: (422, "provider"),
    -12004: (422, "fiscal"),
    INVALID_URL: (422, "webhook"),
    NOT_CONFIGURED: (404, "webhook"),
    DELIVERY_NOT_FOUND: (404, "webhook"),
    STATE_FORBIDS: (409, "webhook"),
    NO_SUCH_PATH: (404, "service"),
    METHOD_NOT_ALLOWED: (405, "service"),
    NOT_JSON: (400, "service"),
    BODY_TOO_LARGE: (413, "service"),
    TOO_SLOW: (408, "service"),
    WRONG_CONTENT_TYPE: (415, "service"),
    MALFORMED_REQUEST: (400, "service"),
    HEAD_TOO_LARGE: (431, "service"),
    UNKNOWN_EXPECTATION: (417, "service"),
    INTERNAL: (500, "service"),
    UPSTREAM_AWAY: (502, "service"),
    UPSTREAM_TOO_SLOW: (504, "service"),
    UNAVAILABLE: (503, "service"),
    NOT_FOUND: (404, "service"),
}
CATALOGUE: Mapping[int, Entry] = MappingProxyType(
    {code: Entry(status, label, str(code)) for code, (status, label) in _ROWS.items()}
)
"""By code; a row within a range has its range's label."""

CAUSES: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {
        STATE_FORBIDS: (STATE, TOO_MANY_COMMANDS, NOT_HELD, TOO_MANY_ENDPOINTS, STILL_SENDING),
        NOT_JSON: (REPEATED_NAME, TOO_DEEP, TOO_MANY_MEMBERS),
        WRONG_CONTENT_TYPE: (COMPRESSED, CHARSET),
        MALFORMED_REQUEST: (BODY_NOT_ALLOWED,),
    }
)
"""By code: what `error.cause` may say where a code has several meanings; STATE has the code's own words."""


def entry_of(code: int) -> Entry:
    """Return a code's row; in a known range, its own words or the range's; else the internal error's."""
    if (entry := CATALOGUE.get(code)) is not None:
        return entry
    for known in RANGES:
        if code in known:
            return Entry(None, known.type, str(code) if code in NOT_FOUND_BEHIND else known.type)
    return CATALOGUE[INTERNAL]


def message(code: int, language: Language, cause: object = None) -> str:
    """Return what is said of a code, or of a cause of it; it is safe to show to a user."""
    text = entry_of(code).text
    has_words = cause != STATE and cause in CAUSES.get(code, ())
    return words.template(f"api.{text}.{cause}" if has_words else f"api.{text}", language)
