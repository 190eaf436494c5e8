"""What people are told, in three languages: texts by their keys, out of compiled catalogues.

Texts are written in `words.pot` (English) and `ru.po`, `uz.po`; a key is a text's context there. `make words`
compiles them, with the keys in the place of the English: here it is a language like the others.
"""

from functools import cache
from gettext import GNUTranslations
from importlib.resources import files

from webhook_dispatcher.domain.language import Language


def template(key: str, language: Language, count: int | None = None) -> str:
    """Return a text with `{name}` for facts; count: which form of it is taken, where it has a plural.

    Errors: KeyError, where there is no such text.
    """
    found = find(key, language, count)
    if found is None:
        raise KeyError(key)
    return found


def find(key: str, language: Language, count: int | None = None) -> str | None:
    """Return the same; None where there is no such text."""
    words = _catalogue(language)
    found = key if count is None else words.ngettext(key, key, count)
    if found == key:
        found = words.gettext(key)
    return None if found == key else found


@cache
def _catalogue(language: Language) -> GNUTranslations:
    """Read a language when something is first said in it: most commands say nothing of this."""
    with (files(__package__) / f"{language}.mo").open("rb") as compiled:
        return GNUTranslations(compiled)
