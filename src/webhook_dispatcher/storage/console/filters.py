"""What a page may be asked for: refused in words here, before it reaches the database."""

from datetime import UTC, datetime
from enum import StrEnum

from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.domain.lane import merchant_of

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)
"""Instants that a filter may name: those that an event may have."""
MAX_TEXT = 255


class Refusal(StrEnum):
    """Why a filter is refused; the console has a text for each in its languages."""

    INSTANT_BEYOND = "instant_beyond"
    RANGE_IS_EMPTY = "range_is_empty"
    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"
    NOT_A_CURSOR = "not_a_cursor"
    WHOSE = "whose"


_SAID = {
    Refusal.INSTANT_BEYOND: "must be an instant in the years 2000 to 2099, with its offset",
    Refusal.RANGE_IS_EMPTY: "must be later than since",
    Refusal.TOO_LONG: f"must have at most {MAX_TEXT} characters",
    Refusal.UNREADABLE: "must be text that the database can store",
    Refusal.UNKNOWN: "must be one of those that there are",
    Refusal.NOT_A_CURSOR: "is no place in this list: begin at its first page",
    Refusal.WHOSE: "goes with a merchant",
}


class FilterRefused(DispatcherError):
    """A page is asked for what cannot be. Reaction: say it beside the field.

    field: its name, as in the filter. refusal: what is wrong with it.
    """

    def __init__(self, field: str, refusal: Refusal) -> None:
        super().__init__(f"{field}: {_SAID[refusal]}")
        self.field = field
        self.refusal = refusal


def check_instant(field: str, instant: datetime | None) -> None:
    """Refuse an instant outside of the years 2000 to 2099, or without an offset."""
    if instant is not None and (instant.tzinfo is None or not EARLIEST <= instant < LATEST):
        raise FilterRefused(field, Refusal.INSTANT_BEYOND)


def check_range(since: datetime | None, until: datetime | None) -> None:
    """Refuse a range of time that nothing can be in."""
    check_instant("since", since)
    check_instant("until", until)
    if since is not None and until is not None and since >= until:
        raise FilterRefused("until", Refusal.RANGE_IS_EMPTY)


def check_text(field: str, text: str | None) -> None:
    """Refuse text that is too long, or that no column can hold, or that names a lane and no merchant."""
    if text is None:
        return
    if len(text) > MAX_TEXT:
        raise FilterRefused(field, Refusal.TOO_LONG)
    if "\0" in text or merchant_of(text) != text or not _is_encodable(text):
        raise FilterRefused(field, Refusal.UNREADABLE)


def check_choice(field: str, text: str | None, known: frozenset[str]) -> None:
    """Refuse a word that is none of those that there are."""
    if text is not None and text not in known:
        raise FilterRefused(field, Refusal.UNKNOWN)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
