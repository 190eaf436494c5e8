"""Whom a page is rendered for: language, time zone and theme, by their own choice or by the browser's."""

from dataclasses import dataclass
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from webhook_dispatcher.domain.language import LANGUAGES, Language
from webhook_dispatcher.storage.console.sessions import Preferences
from webhook_dispatcher.web import languages

THEMES = ("light", "dark")
OWN_NAMES: tuple[tuple[Language, str], ...] = (("en", "English"), ("ru", "Русский"), ("uz", "O‘zbekcha"))
UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class Reader:
    """Whom a page is rendered for. theme: empty: as the system."""

    language: Language
    zone: ZoneInfo
    theme: str


def reader_of(preferences: Preferences | None, accept_language: str | None) -> Reader:
    """Return whom a page is for; preferences: of who is signed in."""
    chosen = preferences or Preferences()
    language = next((known for known in LANGUAGES if known == chosen.language), None)
    return Reader(
        language or languages.choose(accept_language),
        zone_of(chosen.time_zone or "") or UTC,
        chosen.theme if chosen.theme in THEMES else "",
    )


def zone_of(name: str) -> ZoneInfo | None:
    """Return a time zone by its name; None where there is none.

    Only known names get to ZoneInfo, which would look for a file of that name.
    """
    if name not in zone_names():
        return None
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        return None


@lru_cache(maxsize=1)
def zone_names() -> tuple[str, ...]:
    """Return the names of all time zones that people live in."""
    named = (
        name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/"))
    )
    return ("UTC", *sorted(named))
