"""Instants and counts as people read them on a screen; database time, UTC, English."""

from datetime import UTC, datetime

from webhook_dispatcher.diagnosis import amounts


def at(instant: datetime) -> str:
    """Write an instant with its year, to the second."""
    return amounts.at(instant, UTC)


def short(instant: datetime | None) -> str:
    """Write an instant without its year, to the second; a dash for none."""
    return "-" if instant is None else f"{instant.astimezone(UTC):%m-%d %H:%M:%S}"


def many(count: int, most: int) -> str:
    """Write a number that was counted up to a limit."""
    return amounts.many(count, most, "en")
