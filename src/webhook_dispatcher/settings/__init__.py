"""All settings: one flat, frozen class, read once from the environment that the caller hands over.

Source: contract 5. Nothing is read at import, from .env files or behind the caller's back. Every problem
becomes one line that names the variable and says what would be right.
"""

from collections.abc import Mapping

from pydantic import ValidationError

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.settings import sources
from webhook_dispatcher.settings.fields import PREFIX, Settings, variable

__all__ = ["Settings", "check_open_files", "load_settings"]

QUOTES = {"'", '"'}
"""Files of variables that Docker, Kubernetes and others read keep them as part of the value."""
OWN_OPEN_FILES = 64
FILES_PER_LANE = 3


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read settings from an environment and its files; ConfigurationError has one line per problem."""
    fields, problems = sources.read(environ)
    try:
        settings = Settings(**fields)
    except ValidationError as error:
        problems += [
            _problem(found["loc"], found["msg"], fields) for found in error.errors(include_input=False)
        ]
    if problems:
        raise ConfigurationError(*problems)
    return settings


def _problem(location: tuple[int | str, ...], message: str, given: Mapping[str, str]) -> str:
    text = " ".join(message.removeprefix("Value error, ").split())
    if not location:
        return text
    name = str(location[0])
    hint = "; there are quotes in it, which only a shell takes away: leave them out"
    return f"{variable(name)}: {text}{hint if QUOTES & set(given.get(name, '')) else ''}"


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
