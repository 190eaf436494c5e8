"""Instants, spans of time and counts as people read them; database time, UTC."""

from datetime import UTC, datetime, timedelta

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def at(instant: datetime) -> str:
    """Write an instant with its year, to the second."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def short(instant: datetime | None) -> str:
    """Write an instant without its year, to the second; a dash for none."""
    return "-" if instant is None else f"{instant.astimezone(UTC):%m-%d %H:%M:%S}"


def span(duration: timedelta) -> str:
    """Write how long something takes, by its two largest units; tenths where it is short."""
    seconds = max(duration.total_seconds(), 0)
    if seconds < 20:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    return " ".join(_parts(int(seconds))[:2])


def _parts(seconds: int) -> list[str]:
    """Split seconds into units, from the first that is not nought on; what is nought is left out."""
    parts = []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        parts.append(f"{count} {unit}" if count else "")
    while parts and not parts[0]:
        parts.pop(0)
    return [part for part in parts[:2] if part]


def many(count: int, most: int) -> str:
    """Write a number that was counted up to a limit."""
    return f"{most:,}+" if count > most else f"{count:,}"


def plural(count: int, one: str, several: str | None = None) -> str:
    """Write a number of things."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def listed(words: list[str]) -> str:
    """Write a list as in a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
