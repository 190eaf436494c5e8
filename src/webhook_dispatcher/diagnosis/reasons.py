"""What a program said in English, read back as data: the guard, dispatchers, and commands that were rejected.

They write for logs and into the database, which people of all languages read. A sentence that is known is
recognised by its English text; what a newer version or another program says is shown as it stands.
"""

import re
from collections.abc import Iterator
from functools import cache
from string import Formatter

from webhook_dispatcher.diagnosis.said import Said, said
from webhook_dispatcher.diagnosis.texts.reasons import TEXTS

MAX_READ = 500
"""Characters: whatever is longer was not written by us."""
OTHER = "as_written"
REASON = "reason"
"""A fact of this name is such a sentence itself."""
NAMES = frozenset({"command", "name"})
"""Facts of these names are of small letters and underscores alone."""


def read(text: str) -> Said:
    """Return what was said; in English it is said by the same letters."""
    if len(text) <= MAX_READ:
        for key, pattern in _patterns():
            if (found := pattern.fullmatch(text)) is not None:
                return said(key, **{name: _fact(name, part) for name, part in found.groupdict().items()})
    return said(OTHER, text=text)


def _fact(name: str, text: str) -> Said | str:
    return read(text) if name == REASON else text


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((key, re.compile("".join(_pattern(key)))) for key in TEXTS if key != OTHER)


def _pattern(key: str) -> Iterator[str]:
    english = TEXTS[key]["en"]
    assert isinstance(english, str)
    for words, name, _, _ in Formatter().parse(english):
        yield re.escape(words)
        if name is not None:
            yield f"(?P<{name}>{'[a-z_]+' if name in NAMES else '.+'})"
