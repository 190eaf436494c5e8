"""What the tests of a run took, each by itself and added up."""

import json
from collections.abc import Callable
from pathlib import Path

from lab.report.plugin import COLUMNS

Spent = dict[str, float]
"""Seconds, and seconds of processor time, by the names in COLUMNS."""


class Measured:
    """A run. phases: what each phase of each test took, and what fixtures of a wider scope took in it."""

    def __init__(self, file: Path) -> None:
        run = json.loads(file.read_text())
        self.wall: float = run["wall"]
        self.outcomes: dict[str, str] = run["outcomes"]
        self.phases: dict[str, dict[str, Spent]] = run["phases"]

    def longest(self, group_of: Callable[[str], str]) -> list[tuple[str, Spent]]:
        """Add up what groups of tests took; the longest first."""
        groups: dict[str, Spent] = {}
        for owner, phases in self.phases.items():
            total = groups.setdefault(group_of(owner), dict.fromkeys(COLUMNS, 0.0))
            for phase in phases.values():
                for name, amount in phase.items():
                    total[name] += amount
        return sorted(groups.items(), key=lambda each: -each[1]["seconds"])
