"""Brings the catalogues of words up to their English, and compiles them.

`python -m docs.words` does it (`make words`): a new text gets a row without words in each language, and one
whose English changed is marked fuzzy, until a translator has looked at it. With `--check` it only says what
is wrong (`make check`): also of placeholders, and of keys that nothing says or that are not there.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from string import Formatter
from typing import get_args

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from pydantic_core.core_schema import ErrorType

from webhook_dispatcher.api.catalogue import CATALOGUE, CAUSES, NOT_FOUND_BEHIND, RANGES, STATE
from webhook_dispatcher.api.validation import INSTANTS, SAME_AS
from webhook_dispatcher.diagnosis.reasons import KEYS, OTHER
from webhook_dispatcher.domain.language import DEFAULT, LANGUAGES, Language

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "webhook_dispatcher"
WORDS = PACKAGE / "words"
ENGLISH = "words.pot"
HEADER = """\
# A key is a msgctxt. Read glossary.md before you change words, and run `make words` then.
msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: {plural}\\n"

"""
EPOCH = datetime.fromtimestamp(0, UTC)
"""Stands in compiled catalogues, which are to be the same whenever they are made."""
NO_KEY = re.compile(r"^[^.]*$|[._]$|\.html$|^request\.")
"""What is no key though it begins as one: a group, templates, events of the log."""
COUNT = "count"
"""The fact that decides a plural's form: a form that is for one number need not show it."""


def read(path: Path, language: Language) -> Catalog:
    """Read a catalogue."""
    with path.open("rb") as file:
        return read_po(file, locale=language, abort_invalid=True)


def rows(catalogue: Catalog) -> Iterator[tuple[str, Message]]:
    """Return the texts of a catalogue by their keys."""
    yield from ((message.context or "", message) for message in catalogue if message.id)


def merged(english: Catalog, found: Catalog, language: Language) -> Catalog:
    """Take over the words that there are for each English text."""
    known, new = dict(rows(found)), Catalog(locale=language)
    for key, message in rows(english):
        old = known.get(key)
        flags = {*message.flags, *(["fuzzy"] if old and (old.fuzzy or old.id != message.id) else [])}
        is_fit = old is not None and old.pluralizable == message.pluralizable
        new.add(
            message.id,
            old.string if old and is_fit else "",
            user_comments=old.user_comments if old else (),
            flags=flags,
            context=key,
        )
    return new


def written(catalogue: Catalog, language: Language) -> bytes:
    """Write a catalogue, a text a line."""
    buffer = BytesIO()
    write_po(buffer, catalogue, width=0, omit_header=True)
    return HEADER.format(language=language, plural=catalogue.plural_forms).encode() + buffer.getvalue()


def texts_of(message: Message, language: Language) -> tuple[str, ...]:
    """Return a text's forms in a language; English has them for ids."""
    said = message.id if language == DEFAULT else message.string
    return (said,) if isinstance(said, str) else tuple(said or ())


def compiled(catalogue: Catalog, language: Language) -> bytes:
    """Compile a catalogue, with the keys in the place of the English."""
    keyed = Catalog(locale=language, creation_date=EPOCH, revision_date=EPOCH)
    for key, message in rows(catalogue):
        said = texts_of(message, language)
        keyed.add((key, key) if message.pluralizable else key, said if message.pluralizable else said[0])
    buffer = BytesIO()
    write_mo(buffer, keyed)
    return buffer.getvalue()


def faults(folder: Path = WORDS) -> Iterator[str]:
    """Say what is wrong with the catalogues in a folder."""
    english = read(folder / ENGLISH, DEFAULT)
    keys = [key for key, _ in rows(english)]
    yield from (
        f"{ENGLISH}: {key} is there more than once" for key, count in Counter(keys).items() if count > 1
    )
    for language in LANGUAGES:
        path = _source(folder, language)
        if not path.exists():
            yield f"{path.name} is missing"
            continue
        found = read(path, language)
        yield from (f"{path.name}: {fault}" for fault in _faults_of(english, found, language))
        wanted = english if language == DEFAULT else merged(english, found, language)
        if path.read_bytes() != written(wanted, language):
            yield f"{path.name} is not as make words writes it"
        made = folder / f"{language}.mo"
        if not made.exists() or made.read_bytes() != compiled(found, language):
            yield f"{made.name} is stale: run make words"


def _source(folder: Path, language: Language) -> Path:
    return folder / (ENGLISH if language == DEFAULT else f"{language}.po")


def _faults_of(english: Catalog, found: Catalog, language: Language) -> Iterator[str]:
    wanted = {key: _placeholders(texts_of(message, DEFAULT)) for key, message in rows(english)}
    said = dict(rows(found))
    yield from (f"{key} is missing" for key in wanted if key not in said)
    for key, message in said.items():
        texts = texts_of(message, language)
        if message.fuzzy or not all(texts):
            yield f"{key} is not translated"
        elif not _has(texts, wanted.get(key, set())):
            yield f"{key} has other placeholders than in English"


def _has(texts: Sequence[str], wanted: set[str]) -> bool:
    """Tell whether all forms of a text have these placeholders."""
    optional = {COUNT} if len(texts) > 1 else set()
    return optional <= wanted and all(wanted - optional <= _placeholders([text]) <= wanted for text in texts)


def _placeholders(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for _, name, _, _ in Formatter().parse(text) if name is not None}


def write(folder: Path = WORDS) -> None:
    """Bring the catalogues up to the English, and compile them."""
    english = read(folder / ENGLISH, DEFAULT)
    for language in LANGUAGES:
        path = _source(folder, language)
        known = read(path, language) if path.exists() else Catalog(locale=language)
        words = english if language == DEFAULT else merged(english, known, language)
        path.write_bytes(written(words, language))
        (folder / f"{language}.mo").write_bytes(compiled(words, language))


def unsaid(keys: Collection[str]) -> Iterator[str]:
    """Say which texts nothing says, and which are said and are not there."""
    console, diagnosis, api = map(Code.of, ("console", "diagnosis", "api"))
    codes = {*map(str, [*CATALOGUE, *NOT_FOUND_BEHIND]), *(known.type for known in RANGES)}
    codes |= {f"{code}.{cause}" for code, causes in CAUSES.items() for cause in causes if cause != STATE}
    is_said: Mapping[str, Callable[[str], object]] = {
        "amount": lambda name: {name, f"amount.{name}"} & diagnosis.literals,
        "api": codes.__contains__,
        "console": console.says,
        "field": lambda name: name in get_args(ErrorType) or {name, f"field.{name}"} & api.literals,
        "label": lambda name: set(re.findall(r"\w+", name)) <= _all_words(),
        "said": lambda name: name in {*KEYS, OTHER} or diagnosis.says(name),
    }
    for key in keys:
        system, _, name = key.partition(".")
        if system not in is_said or not is_said[system](name):
            yield f"{ENGLISH}: nothing says {key}"
    groups = {key.split(".")[1] for key in keys if key.startswith("console.")}
    named = {
        *(
            f"console.{name}"
            for name in console.literals
            if name.split(".")[0] in groups and not NO_KEY.search(name)
        ),
        *(f"api.{name}" for name in codes),
        *(f"field.{name}" for name in {*SAME_AS.values(), *INSTANTS.values()}),
        *(f"said.{name}" for name in {*KEYS, *diagnosis.given}),
    }
    yield from (f"{ENGLISH}: {key} is said, and is not there" for key in sorted(named.difference(keys)))


@cache
def _all_words() -> set[str]:
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sql"), *(ROOT / "migrations").rglob("*.sql")]
    return {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}


class Code:
    """What sources in a folder name: as a whole, or put together of a beginning or an end and some word."""

    @classmethod
    @cache
    def of(cls, folder: str) -> "Code":
        """Read a folder."""
        files = [path for path in (PACKAGE / folder).rglob("*") if path.suffix in (".py", ".html")]
        return cls("\n".join(path.read_text(encoding="utf-8") for path in files))

    def __init__(self, text: str) -> None:
        self.literals = set(re.findall(r"""["'](\w+(?:\.\w+)*)["']""", text))
        given = re.findall(r"""(?:\bsaid\(|\bkey =)\s*"(\w+)"(?: if [^"]* else "(\w+)")?""", text)
        self.given = {name for names in given for name in names if name}
        self._begins = set(re.findall(r"""["']([\w.]+[._])(?:\{|["'] ~)""", text))
        self._ends = set(re.findall(r"""(?:\}|~ ["'])([._]\w+)["']""", text))

    def says(self, name: str) -> bool:
        """Tell whether a key is named here."""
        return (
            name in self.literals
            or any(name.startswith(begin) and name[len(begin) :] in _all_words() for begin in self._begins)
            or any(name.endswith(end) and self.says(name[: -len(end)]) for end in self._ends)
        )


def main(arguments: Sequence[str], folder: Path = WORDS) -> int:
    """Bring the catalogues up to the English and compile them, or with `--check` say what is wrong."""
    if list(arguments) != ["--check"]:
        write(folder)
    found = [*faults(folder), *unsaid([key for key, _ in rows(read(folder / ENGLISH, DEFAULT))])]
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
