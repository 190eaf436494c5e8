"""Instants, spans of time and counts as people read them on a screen; database time, UTC, English."""

from datetime import UTC, datetime, timedelta

from webhook_dispatcher.diagnosis import amounts


def at(instant: datetime) -> str:
    """Write an instant with its year, to the second."""
    return amounts.at(instant, UTC)


def short(instant: datetime | None) -> str:
    """Write an instant without its year, to the second; a dash for none."""
    return "-" if instant is None else f"{instant.astimezone(UTC):%m-%d %H:%M:%S}"


def span(duration: timedelta) -> str:
    """Write how long something takes, by its two largest units; tenths where it is short."""
    return amounts.span(duration, "en")


def many(count: int, most: int) -> str:
    """Write a number that was counted up to a limit."""
    return amounts.many(count, most, "en")
