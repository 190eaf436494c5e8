"""The part of `make test-report` that is in pytest: it tells coverage which test runs, and what each takes.

A process that runs tests puts what they took into their reports; the one that the user started collects it.
What a fixture of a wider scope does as it is made counts for its module, or for `SHARED`, and not for the
test that happens to come first.
"""

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import coverage
import pytest

from tests.spent import PURPOSES, seconds_spent

CONTEXT = "TEST_CONTEXT"
"""The variable that tells a process for which test its coverage counts."""
FOLDER = "TEST_REPORT"
"""The variable that names the report's folder."""
MEASURED = "measured.json"
SHARED = "fixtures of several modules"
COLUMNS = ("seconds", *PURPOSES, "working", "cpu", "cpu_children")
_PROPERTY = "spent"


def pytest_configure(config: pytest.Config) -> None:
    """Measure in this process; collect in the one that the user started."""
    config.pluginmanager.register(Measuring())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collecting(Path(os.environ[FOLDER]) / MEASURED))


class Measuring:
    """Counts what this process takes and covers for one owner: a test, or all who share a fixture."""

    def __init__(self) -> None:
        self._owner = ""
        self._last = _taken()
        self._spent: dict[str, dict[str, float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count for a test; the time since the last one counts for nobody."""
        self._count_for(item.nodeid)
        self._spent.clear()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Count for all who share a fixture."""
        if fixturedef.scope == "function":
            return (yield)
        with self._counting_for(request.node.nodeid.partition("::")[0].strip(".") or SHARED):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put what a phase of a test took into its report."""
        report = yield
        self._count_for(self._owner)
        report.user_properties.append((_PROPERTY, dict(self._spent)))
        self._spent.clear()
        return report

    @contextmanager
    def _counting_for(self, owner: str) -> Generator[None]:
        before = self._owner
        self._count_for(owner)
        try:
            yield
        finally:
            self._count_for(before)

    def _count_for(self, owner: str) -> None:
        now = _taken()
        _add(self._spent.setdefault(self._owner, {}), {name: now[name] - self._last[name] for name in now})
        self._last = now
        if owner != self._owner:
            self._owner = os.environ[CONTEXT] = owner
            if (recorded := coverage.Coverage.current()) is not None:
                recorded.switch_context(owner)


class Collecting:
    """Writes down what all tests took."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began_at = time.perf_counter()
        self._outcomes: dict[str, str] = {}
        self._phases: dict[str, dict[str, dict[str, float]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Read one phase of one test."""
        if not report.passed or report.when == "call":
            self._outcomes[report.nodeid] = report.outcome
        properties: dict[str, Any] = dict(report.user_properties)
        for owner, taken in properties.get(_PROPERTY, {}).items():
            _add(self._phases.setdefault(owner, {}).setdefault(report.when, {}), taken)

    def pytest_sessionfinish(self) -> None:
        """Write everything, if there is anything."""
        if not self._outcomes:
            return
        wall = time.perf_counter() - self._began_at
        run: dict[str, Any] = {"wall": wall, "outcomes": self._outcomes, "phases": self._phases}
        self._file.write_text(json.dumps(run))


def _taken() -> dict[str, float]:
    """Return what this process has taken so far, and those of its children that it has waited for."""
    own, children = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    now, by_purpose = time.perf_counter(), seconds_spent()
    return {
        "seconds": now,
        **by_purpose,
        "working": now - sum(by_purpose.values()),
        "cpu": own.ru_utime + own.ru_stime,
        "cpu_children": children.ru_utime + children.ru_stime,
    }


def _add(total: dict[str, float], more: dict[str, float]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + amount
