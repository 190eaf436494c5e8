"""What a run covered: totals, and what one test alone does, or one function's cases, or one module."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from coverage import Coverage

CONFIGURATION = Path(__file__).parent / "coverage.toml"
DATA = ".coverage"
_ALONE = """
SELECT file.path, arc.fromno, arc.tono, min(owner.name), max(owner.name)
FROM arc JOIN file ON file.id = arc.file_id JOIN temp.owner ON owner.context_id = arc.context_id
GROUP BY arc.file_id, arc.fromno, arc.tono
"""
"""The first and the last of those who went from one line to another; if these are one, nobody else did.

Source: coverage's documentation, "Coverage.py database schema".
"""


@dataclass
class Alone:
    """How many lines and branches each of some tests covers that no other does."""

    lines: Counter[str] = field(default_factory=Counter)
    branches: Counter[str] = field(default_factory=Counter)


class Covered:
    """The statements and branches of the product that were executed, and in `totals` how many there are.

    folder: the report's; the data of all its processes become one file there.
    """

    def __init__(self, folder: Path) -> None:
        self._data = folder / DATA
        recorded = Coverage(data_file=str(self._data), config_file=str(CONFIGURATION))
        recorded.combine([str(folder / "parts")])
        recorded.save()
        written = folder / "coverage.json"
        recorded.json_report(outfile=str(written))
        report = json.loads(written.read_text())
        self.totals: dict[str, int] = report["totals"]
        root = Path.cwd()
        self._lines = {str(root / path): set(of["executed_lines"]) for path, of in report["files"].items()}
        self._branches = {
            str(root / path): set(map(tuple, of["executed_branches"])) for path, of in report["files"].items()
        }

    def alone(self, owner_of: Callable[[str], str]) -> Alone:
        """Count what only one owner covers. owner_of: whose a context is."""
        found, owners = Alone(), dict[tuple[str, int], set[str]]()
        for path, start, end, first, last in self._steps(owner_of):
            if first == last and (start, end) in self._branches[path]:
                found.branches[first] += 1
            for line in {start, end} & self._lines[path]:
                owners.setdefault((path, line), set()).update((first, last))
        found.lines.update(next(iter(each)) for each in owners.values() if len(each) == 1)
        return found

    def _steps(self, owner_of: Callable[[str], str]) -> Iterator[tuple[str, int, int, str, str]]:
        with closing(sqlite3.connect(self._data)) as database:
            contexts = list(database.execute("SELECT id, context FROM context"))
            database.execute("CREATE TEMP TABLE owner (context_id INTEGER PRIMARY KEY, name TEXT)")
            owners = ((number, owner_of(context)) for number, context in contexts)
            database.executemany("INSERT INTO temp.owner VALUES (?, ?)", owners)
            yield from database.execute(_ALONE)
