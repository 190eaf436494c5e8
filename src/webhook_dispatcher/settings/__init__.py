"""All settings: one flat, frozen class, read once from the environment that the caller hands over.

Source: contract 5. Nothing is read at import, from .env files or behind the caller's back; an empty value
counts as unset. Every problem becomes one line that names the variable and says what would be right.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.settings.fields import PREFIX, Settings

__all__ = ["Settings", "check_open_files", "load_settings"]

IGNORED_PREFIX = "WEBHOOK_DISPATCHER_"
QUOTES = {"'", '"'}
"""Files of variables that Docker, Kubernetes and others read keep them as part of the value."""
OWN_OPEN_FILES = 64
FILES_PER_LANE = 3


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read settings from the given environment; ConfigurationError has one line per problem."""
    given = {
        name: text
        for name, text in environ.items()
        if name.startswith(PREFIX) and not name.startswith(IGNORED_PREFIX)
    }
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    fields: dict[str, Any] = {
        name.removeprefix(PREFIX).lower(): given[name] for name in known & given.keys() if given[name].strip()
    }
    problems = [_unknown(name, known) for name in sorted(given.keys() - known)]
    try:
        settings = Settings(**fields)
    except ValidationError as error:
        problems += [
            _problem(found["loc"], found["msg"], fields) for found in error.errors(include_input=False)
        ]
    if problems:
        raise ConfigurationError(*problems)
    return settings


def _unknown(name: str, known: set[str]) -> str:
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f"{name}: no such setting" + (f"; did you mean {nearest[0]}?" if nearest else "")


def _problem(location: tuple[int | str, ...], message: str, given: Mapping[str, str]) -> str:
    text = " ".join(message.removeprefix("Value error, ").split())
    if not location:
        return text
    name = str(location[0])
    hint = "; there are quotes in it, which only a shell takes away: leave them out"
    return f"{PREFIX}{name.upper()}: {text}{hint if QUOTES & set(given.get(name, '')) else ''}"


def check_open_files(max_lanes: int, limit: int) -> None:
    """Refuse more lanes than open files allow.

    Each may have a first attempt, a retry and a kept connection open; the rest is our own.
    """
    needed = max_lanes * FILES_PER_LANE + OWN_OPEN_FILES
    if limit < needed:
        possible = (limit - OWN_OPEN_FILES) // FILES_PER_LANE
        fewer = f" or set it to {possible} or less" if possible >= 1 else ""
        raise ConfigurationError(
            f"{PREFIX}MAX_LANES: {max_lanes} lanes need {needed} open files, but the limit is {limit}",
            remedy=f"raise it (ulimit -n, LimitNOFILE){fewer}",
        )
