"""The list of mutations: what each changes, and whether the list still fits the sources."""

import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutations.toml")
SCHEMA = "migrations/schema.sql"
"""What migrations make, for people; a test holds both equal, and others would never see it mutated alone."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one file. breaks: what the product does wrong then; old: stands once in the file."""

    name: str
    file: str
    breaks: str
    old: str
    new: str

    def files(self, root: Path) -> list[Path]:
        """Return the files of a tree that it changes: with the schema's file the migrations that make it."""
        also = (root / "migrations" / "versions").glob("*.sql") if self.file == SCHEMA else ()
        return [root / self.file, *(path for path in also if self.old in path.read_text(encoding="utf-8"))]

    def changed_lines(self, text: str) -> range:
        """Return the numbers of the lines that it replaces; where it only adds some, of those around them."""
        before, after = text.splitlines(), text.replace(self.old, self.new).splitlines()
        steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        places = [(first, end) for kind, first, end, *_ in steps if kind != "equal"]
        first, end = places[0][0], places[-1][1]
        return range(first + 1, end + 1) if end > first else range(first, first + 2)


def read(file: Path) -> list[Mutation]:
    """Read a list, which is one array of tables. Errors: ValueError, TypeError or OSError."""
    [entries] = tomllib.loads(file.read_text(encoding="utf-8")).values()
    return [Mutation(**entry) for entry in entries]


def faults(mutations: Sequence[Mutation]) -> Iterator[str]:
    """Say of each entry that cannot be applied what is wrong with it."""
    names = Counter(mutation.name for mutation in mutations)
    yield from (f"{name}: {count} entries have this name" for name, count in names.items() if count > 1)
    yield from (f"{mutation.name}: {fault}" for mutation in mutations if (fault := _fault(mutation)))


def _fault(mutation: Mutation) -> str:
    path = ROOT / mutation.file
    if not path.is_file():
        return f"there is no file {mutation.file}"
    text = path.read_text(encoding="utf-8")
    if (count := text.count(mutation.old)) != 1:
        return f"old occurs {count} times in {mutation.file}"
    if mutation.file == SCHEMA and len(mutation.files(ROOT)) == 1:
        return "old stands in no migration"
    try:
        if path.suffix == ".py":
            with warnings.catch_warnings(action="ignore"):
                compile(text.replace(mutation.old, mutation.new), mutation.file, "exec")
    except SyntaxError as error:
        return f"{mutation.file} does not compile: {error.msg} in line {error.lineno}"
    return "" if mutation.old != mutation.new else "old and new are the same"
