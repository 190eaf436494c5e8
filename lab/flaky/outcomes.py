"""What became of each test in a run, read from pytest's JUnit XML, and which tests differ between runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple
from xml.etree import ElementTree

State = Literal["passed", "skipped", "failed", "error", "missing"]

# The worst first: a test can fail, and its teardown as well.
_STATES: Mapping[str, State] = {"failure": "failed", "error": "error", "skipped": "skipped"}


class Outcome(NamedTuple):
    """What became of a test. reason: the first line of why it failed."""

    state: State
    reason: str = ""


PASSED = Outcome("passed")
MISSING = Outcome("missing")
Outcomes = Mapping[str, Outcome]
"""By the ids of tests, as pytest takes them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A test that was not the same in all runs, or failed. outcomes: one for each run that left results."""

    test: str
    outcomes: Mapping[int, Outcome]

    def lines(self) -> Iterator[str]:
        """Say how often it came to each outcome, in which runs, and why."""
        yield self.test
        ordered = sorted(self.outcomes, key=lambda run: (self.outcomes[run], run))
        for outcome, found in groupby(ordered, key=self.outcomes.__getitem__):
            runs = list(found)
            which = f" ({', '.join(map(str, runs))})" if len(runs) < len(self.outcomes) else ""
            yield f"  {outcome.state} in {_times(len(runs))}{which}" + f": {outcome.reason}" * bool(
                outcome.reason
            )


def _times(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def read(junit: Path) -> Outcomes:
    """Read what became of the tests of a run; nothing where pytest did not get as far as writing it."""
    try:
        cases = ElementTree.parse(junit).iter("testcase")
        return {_id(case): _outcome(case) for case in cases}
    except (FileNotFoundError, ElementTree.ParseError):
        return {}


def _id(case: ElementTree.Element) -> str:
    file, within, name = (case.get(key, "") for key in ("file", "classname", "name"))
    module = file.removesuffix(".py").replace("/", ".")
    return "::".join(filter(None, (file, within.removeprefix(module).strip("."), name)))


def _outcome(case: ElementTree.Element) -> Outcome:
    for tag, state in _STATES.items():
        if (found := case.find(tag)) is not None:
            reason = "" if state == "skipped" else found.get("message", "").partition("\n")[0]
            return Outcome(state, reason)
    return PASSED


def differences(runs: Mapping[int, Outcomes]) -> Sequence[Difference]:
    """Find the tests that were not the same in all of these runs, or failed. Missing is an outcome, too."""
    tests = sorted({test for outcomes in runs.values() for test in outcomes})
    found = (
        Difference(test, {number: outcomes.get(test, MISSING) for number, outcomes in runs.items()})
        for test in tests
    )
    return [difference for difference in found if _is_worth_telling(difference)]


def _is_worth_telling(difference: Difference) -> bool:
    states = {outcome.state for outcome in difference.outcomes.values()}
    return len(states) > 1 or not states <= {"passed", "skipped"}
