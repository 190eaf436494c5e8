"""Which tests a mutation is tried with, and in which order."""

import functools
import itertools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from coverage import CoverageData

from lab.mutations import sources
from lab.mutations.entries import Mutation

MAX_TESTS, MAX_SECONDS = 40, 60.0
"""What the first batch holds; each further one holds twice as much."""
BEHIND = {"unit": 0.0, "integration": 5.0}
"""So many seconds of each unit module come before other folders' tests."""
FURTHER_BEHIND = 20.0


class Report:
    """What `make test-report` measured: the tests that ran each line, and how long each test takes."""

    def __init__(self, folder: Path) -> None:
        self._data = CoverageData(str(folder / ".coverage"))
        self._data.read()
        tests = json.loads((folder / "tests.json").read_text(encoding="utf-8"))
        self.seconds = {test: float(told["seconds"]) for test, told in tests.items()}
        self._modules = by_module(self.seconds)

    def tests_of(self, lines: Iterable[sources.Line]) -> set[str]:
        """Return the tests that ran one of these lines; what a module's fixture ran, all its tests did."""
        ran = {context for file, number in lines for context in self._contexts(file).get(number, ())}
        return {test for context in ran for test in self._modules.get(context, [context] * ("::" in context))}

    @functools.cache  # noqa: B019 - one object for the whole run
    def _contexts(self, file: str) -> dict[int, list[str]]:
        found = [path for path in self._data.measured_files() if f"/{path}".endswith(f"/{file}")]
        lines = self._data.contexts_by_lineno(found[0]) if found else {}
        return {number: [sys.intern(context) for context in contexts] for number, contexts in lines.items()}


def by_module(tests: Iterable[str]) -> dict[str, list[str]]:
    """Group tests by their file."""
    modules = defaultdict[str, list[str]](list)
    for test in tests:
        modules[test.partition("::")[0]].append(test)
    return modules


def batches(mutation: Mutation, report: Report, on_postgres: Callable[[], set[str]]) -> Iterator[list[str]]:
    """Return a mutation's tests in batches. on_postgres: returns the integration tests that use a server."""
    given = set[str]()
    for tests in _tiers(mutation, report, on_postgres):
        ordered = iter(in_order(tests - given, report.seconds, Path(mutation.file).stem))
        size = 1
        while batch := list(_up_to(ordered, report.seconds, size)):
            yield batch
            size *= 2
        given |= tests


def _tiers(mutation: Mutation, report: Report, on_postgres: Callable[[], set[str]]) -> Iterator[set[str]]:
    """Return sets of tests, the likelier to fail first."""
    text = sources.text_of(mutation.file)
    before = text[: text.index(mutation.old) + len(mutation.old)]
    if mutation.file in sources.FILES:
        yield from _tiers_of_module(mutation.file, mutation.changed_lines(text), report.tests_of)
    elif mutation.file.startswith(sources.STATEMENTS):
        yield _tests_of_statements(sources.STATEMENT.findall(before)[-1:], report) or on_postgres()
    else:
        yield _tests_of_statements(sources.statements_using(before), report)
        yield on_postgres()


def _tiers_of_module(
    file: str, numbers: Iterable[int], ran: Callable[[Iterable[sources.Line]], set[str]]
) -> Iterator[set[str]]:
    around = ran(line for number in numbers for line in sources.function_lines(file, number))
    yield ran(line for number in numbers for line in sources.lines_run_for(file, number)) or around
    # No coverage tells who uses what an import runs: the module's other tests follow.
    if not around:
        yield ran(sources.function_lines(file)) or ran((file, number) for number in range(1, 10_000))


def _tests_of_statements(names: Iterable[str], report: Report) -> set[str]:
    if not (any_name := "|".join(names)):
        return set()
    cases = {test for test in report.seconds if re.search(rf"\[.*\b({any_name})\b", test)}
    return cases | report.tests_of(sources.lines_naming(rf'"({any_name})"'))


def in_order(tests: Iterable[str], seconds: dict[str, float], subject: str) -> list[str]:
    """Order tests by what the cheaper ones of their module take, which is a mixture of all modules.

    One that the subject names comes four times as early.
    """
    found = list[tuple[float, str]]()
    for module, own in by_module(sorted(tests, key=lambda test: (seconds.get(test, 1.0), test))).items():
        behind, speed = BEHIND.get(module.split("/")[1], FURTHER_BEHIND), 4 if subject in module else 1
        spent = itertools.accumulate(seconds.get(test, 1.0) for test in own)
        found += [(behind + total / speed, test) for total, test in zip(spent, own, strict=True)]
    return [test for _, test in sorted(found)]


def _up_to(tests: Iterator[str], seconds: dict[str, float], size: int) -> Iterator[str]:
    """Take tests until a batch of a size is full."""
    spent = 0.0
    for test in itertools.islice(tests, size * MAX_TESTS):
        yield test
        spent += seconds.get(test, 1.0)
        if spent > size * MAX_SECONDS:
            return
