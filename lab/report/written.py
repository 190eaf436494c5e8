"""The report as people and programs read it."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from lab.report.covered import Alone, Covered
from lab.report.measured import Measured, Spent
from lab.report.plugin import COLUMNS

SHOWN = 100
DISTURBED = """
Coverage was recorded, which slows everything down, and programs most of all: each starts in a fresh
interpreter, and has time to save what it executed. `TIMES_ONLY=1 make test-report` measures without.
"""
ALONE = """
The cases of one function count as one test. Nobody alone covers what was imported before the first test.
What a fixture does for a whole module counts for the module: any of its tests may be the one that judges it.
"""


def module_of(owner: str) -> str:
    """Return the file of a test."""
    return owner.partition("::")[0]


def function_of(owner: str) -> str:
    """Return a test without the name of its case."""
    return owner.partition("[")[0]


def as_json(measured: Measured, covered: Covered | None) -> str:
    """Return what is known of each test, by its node id."""
    alone = covered.alone(str) if covered else Alone()
    found = {
        test: {
            "outcome": measured.outcomes[test],
            "seconds": spent["seconds"],
            "categories": {name: spent[name] for name in COLUMNS[1:-2]},
            "cpu": spent["cpu"],
            "cpu_children": spent["cpu_children"],
            "alone": {"lines": alone.lines[test], "branches": alone.branches[test]},
            "phases": measured.phases[test],
        }
        for test, spent in measured.longest(str)
        if test in measured.outcomes
    }
    return json.dumps(found, indent=1)


def as_markdown(measured: Measured, covered: Covered | None) -> str:
    """Return the report with its tables."""
    longest = [[test, *_figures(spent)] for test, spent in measured.longest(str)[:SHOWN]]
    parts = [
        "# Where the tests' time goes, and what each alone covers",
        *_totals(measured, covered),
        "## Modules",
        _modules(measured, covered.alone(module_of) if covered else Alone()),
        f"## The {SHOWN} longest tests",
        _table(["test", *COLUMNS], longest),
        *(_alone(measured, covered) if covered else []),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _totals(measured: Measured, covered: Covered | None) -> Iterable[str]:
    outcomes = Counter(measured.outcomes.values()).most_common()
    told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes)
    yield f"{len(measured.outcomes)} tests in {measured.wall:.0f} s: {told}."
    if covered:
        yield f"Lines covered: {_share(covered.totals, 'covered_lines', 'num_statements')}"
        yield f"Branches covered: {_share(covered.totals, 'covered_branches', 'num_branches')}"
        yield DISTURBED


def _share(totals: dict[str, int], part: str, whole: str) -> str:
    return f"{totals[part]} of {totals[whole]} ({100 * totals[part] / totals[whole]:.1f} %)."


def _modules(measured: Measured, alone: Alone) -> str:
    tests = Counter(map(module_of, measured.outcomes))
    [(_, total)] = measured.longest(lambda _: "all")
    rows = [
        [name, tests[name], *_figures(spent), alone.lines[name], alone.branches[name]]
        for name, spent in measured.longest(module_of)
    ]
    heads = ["module", "tests", *COLUMNS, "lines alone", "branches alone"]
    return _table(heads, [["all together", tests.total(), *_figures(total), "", ""], *rows])


def _alone(measured: Measured, covered: Covered) -> list[str]:
    alone, cases = covered.alone(function_of), Counter(map(function_of, measured.outcomes))
    owners = alone.lines.keys() | alone.branches.keys()
    something = sorted(owners - {""}, key=lambda name: (-alone.lines[name], -alone.branches[name], name))
    nothing = [
        [name, cases[name], *_figures(spent), alone.lines[module_of(name)]]
        for name, spent in measured.longest(function_of)
        if name in cases.keys() - owners
    ]
    return [
        "## What only one test covers",
        ALONE,
        _table(
            ["test", "lines", "branches"],
            [[name, alone.lines[name], alone.branches[name]] for name in something],
        ),
        f"## The {SHOWN} longest of {len(nothing)} tests that alone cover nothing",
        _table(["test", "cases", *COLUMNS, "lines alone by its module's fixtures"], nothing[:SHOWN]),
    ]


def _figures(spent: Spent) -> list[str]:
    return [f"{spent[name]:.2f}" for name in COLUMNS]


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines: list[Sequence[object]] = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |" for line in lines)
