"""A plugin of pytest: runs the tests that a file names, and writes down which began and which failed.

Tests are not named on the command line: one that a mutation makes vanish would be an error of usage.
"""

import json
import os
import sys
from pathlib import Path

import pytest

import webhook_dispatcher


def _note(what: str, test: str, why: str = "") -> None:
    with open(os.environ["MUTATIONS_RECORD"], "a", encoding="utf-8") as record:
        print(json.dumps([what, test, why]), file=record)


def pytest_configure(config: pytest.Config) -> None:
    """See that the product is the copy's, and so is the interpreter, which says what subprocesses import."""
    for place in (webhook_dispatcher.__file__, sys.executable):
        if not Path(place).is_relative_to(config.rootpath):
            raise pytest.UsageError(f"{place} is not in the copy {config.rootpath}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that are wanted; note which of all use a Postgres."""
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            _note("on postgres", item.nodeid)
    wanted = set(Path(os.environ["MUTATIONS_WANTED"]).read_text(encoding="utf-8").splitlines())
    items[:] = [item for item in items if item.nodeid in wanted]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note that a test begins."""
    _note("began", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Note what failed: a test, or the import of a module."""
    if report.failed:
        _note("failed", report.nodeid, report.longreprtext)


def pytest_sessionfinish() -> None:
    """Note that nothing has ended the interpreter before."""
    _note("finished", "")


pytest_collectreport = pytest_runtest_logreport
