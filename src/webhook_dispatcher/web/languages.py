"""Which of our languages a client reads best, by Accept-Language (RFC 9110, 12.5.4)."""

import re
from functools import lru_cache

from webhook_dispatcher.domain.language import DEFAULT, LANGUAGES, Language

MAX_RANGES = 32
"""Ranges of languages that are looked at; what follows them is not."""

_RANGE = re.compile(
    r"[ \t]*(?P<tag>\*|[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,8})"
    r"(?:[ \t]*;[ \t]*[qQ]=(?P<weight>0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?[ \t]*"
)


@lru_cache(maxsize=128)
def choose(header: str | None) -> Language:
    """Return the language with the greatest weight, of equal ones the first; English if none fits."""
    weights: dict[Language, float] = {}
    for item in (header or "").split(",", MAX_RANGES)[:MAX_RANGES]:
        language, weight = _read(item)
        if language is not None:
            weights[language] = max(weight, weights.get(language, 0.0))
    best = max(weights, key=lambda language: weights[language], default=DEFAULT)
    return best if weights.get(best) else DEFAULT


def _read(item: str) -> tuple[Language | None, float]:
    """Read one range: `ru-RU` is Russian, and `*` is what we choose."""
    match = _RANGE.fullmatch(item)
    if match is None:
        return None, 0.0
    named = match["tag"].partition("-")[0].lower()
    found = next((language for language in LANGUAGES if language == named), None)
    return DEFAULT if named == "*" else found, float(match["weight"] or 1)
