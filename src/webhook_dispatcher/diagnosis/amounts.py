"""Instants, spans, numbers and lists, as people of each language write them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo

from webhook_dispatcher import words
from webhook_dispatcher.domain.language import Language

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_POINT: Mapping[Language, str] = {"en": ".", "ru": ",", "uz": ","}


def number(count: int, language: Language) -> str:
    """Write a whole number, its digits in groups of three."""
    return f"{count:,}" if language == "en" else f"{count:,}".replace(",", "\N{NO-BREAK SPACE}")


def tenths(amount: float, language: Language) -> str:
    """Write a number with one decimal."""
    whole, _, decimal = f"{amount:.1f}".partition(".")
    return f"{number(int(whole), language)}{_POINT[language]}{decimal}"


def many(count: int, most: int, language: Language) -> str:
    """Write a number that was counted up to a limit."""
    return f"{number(most, language)}+" if count > most else number(count, language)


def at(instant: datetime, zone: tzinfo) -> str:
    """Write an instant with its year, to the second: alike in every language, so that it can be searched."""
    return f"{instant.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def span(duration: timedelta, language: Language) -> str:
    """Write how long something takes, by its two largest units; tenths where it is short."""
    seconds = max(duration.total_seconds(), 0)
    units = [(size, words.template(f"amount.{name}", language)) for size, name in _UNITS]
    if seconds < 20:
        short = f"{seconds:.1f}".removesuffix(".0").replace(".", _POINT[language])
        return f"{short} {units[-1][1]}"
    return " ".join(_parts(int(seconds), units))


def _parts(seconds: int, units: Sequence[tuple[int, str]]) -> list[str]:
    """Split seconds into units, two from the first that is not nought on; what is nought is left out."""
    parts = []
    for size, unit in units:
        count, seconds = divmod(seconds, size)
        parts.append(f"{count} {unit}" if count else "")
    while parts and not parts[0]:
        parts.pop(0)
    return [part for part in parts[:2] if part]


def joined(count: int, language: Language) -> list[str]:
    """Return what stands before each item of a list of so many, as in a sentence."""
    between = [""] + [", "] * (count - 2) + [f" {words.template('amount.and', language)} "]
    return between if count > 1 else [""] * count


def printable(text: str) -> str:
    """Replace control characters, which could drive a terminal, or turn the direction of a line."""
    # Where a lane's name came to be shown all the same.
    named = text.replace("\x1f", ", endpoint ")
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in named)
