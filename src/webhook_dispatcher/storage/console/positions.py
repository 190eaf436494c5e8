"""Where a list goes on, as text for a URL. It is not signed: changed, it shows another page of the list."""

import base64
import binascii
import json
from datetime import UTC, datetime, timedelta

from webhook_dispatcher.storage.console.filters import FilterRefused, Refusal

MAX_NUMBER = 2**63 - 1
_MAX_LENGTH = 2_000
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def write(*parts: int | str) -> str:
    """Write a place of some numbers and texts."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def read(text: str, *kinds: type[int] | type[str]) -> list[int | str]:
    """Read a place that has parts of these kinds; FilterRefused where it is none of such a list."""
    parts = _parts(text)
    if len(parts) != len(kinds) or not all(map(_is_part, parts, kinds)):
        raise FilterRefused("after", Refusal.NOT_A_CURSOR)
    return parts


def number_of(instant: datetime) -> int:
    """Make a number of an instant, as a part of a place."""
    return (instant - _EPOCH) // _MICROSECOND


def instant_of(number: int) -> datetime:
    """Make an instant of such a number; FilterRefused where there is none."""
    try:
        return _EPOCH + number * _MICROSECOND
    except OverflowError:
        raise FilterRefused("after", Refusal.NOT_A_CURSOR) from None


def _parts(text: str) -> list[int | str]:
    try:
        padded = text + "=" * (-len(text) % 4)
        parts = (
            json.loads(base64.urlsafe_b64decode(padded.encode("ascii"))) if len(text) < _MAX_LENGTH else None
        )
    except (ValueError, binascii.Error, RecursionError):
        parts = None
    return parts if isinstance(parts, list) else []


def _is_part(part: object, kind: type[int] | type[str]) -> bool:
    if kind is int:
        return isinstance(part, int) and not isinstance(part, bool) and abs(part) <= MAX_NUMBER
    return isinstance(part, str) and len(part) <= 255 and "\0" not in part and part.isprintable()
