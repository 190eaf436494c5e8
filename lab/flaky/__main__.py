"""`make test-flaky`: runs the suite several times beside busy loops, and says what was not always the same.

Exit codes: 0 when all runs passed and were alike, 1 when a test failed or differed, 130 when interrupted.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lab.flaky.busy import busy_loops
from lab.flaky.crossings import clock_set, crossing_of, library, time_before
from lab.flaky.outcomes import differences
from lab.flaky.run import HEADING, Run, run_suite

FOLDER = Path("build") / "flaky"


def main() -> None:
    """Read the command line, run, and report; what was run before an interruption is reported as well."""
    options = _options()
    # SIGINT, too: who starts us in the background may have it ignored, by us and by pytest.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    FOLDER.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    is_interrupted = False
    print(HEADING, flush=True)
    try:
        with busy_loops(options.busy):
            for run in _runs(options):
                runs.append(run)
                print(run.row(), flush=True)
    except KeyboardInterrupt:
        is_interrupted = True
    is_sound = _report(runs)
    sys.exit(130 if is_interrupted else not is_sound)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.flaky", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how often the suite is run (10)")
    parser.add_argument("--busy", type=int, default=2, help="processes that spin beside it (2)")
    parser.add_argument(
        "--across-midnight", action="store_true", help="each run crosses a midnight or a change of the clock"
    )
    parser.add_argument(
        "--before", type=int, default=90, help="seconds before it, at least, a run begins (90)"
    )
    parser.add_argument("arguments", nargs="*", metavar="-- arguments", help="arguments for pytest")
    options = parser.parse_args()
    if options.across_midnight and library() is None:
        parser.error("datefudge is missing: apt-get install datefudge")
    return options


def _runs(options: argparse.Namespace) -> Iterator[Run]:
    """Run the suite as often as asked for, each time when the one before is over."""
    first_took = timedelta()
    for number in range(1, options.runs + 1):
        if datefudge := options.across_midnight and library():
            before = time_before(number, options.runs, timedelta(seconds=options.before), first_took)
            run = _run_across(number, before, options.arguments, datefudge)
        else:
            run = run_suite(number, options.arguments, FOLDER, {})
        first_took = first_took or timedelta(seconds=run.wall)
        yield run


def _run_across(number: int, before: timedelta, arguments: Sequence[str], datefudge: Path) -> Run:
    """Run the suite so that it crosses the moment that is this run's."""
    crossing = crossing_of(number)
    environment = clock_set(before, crossing, datefudge, datetime.now(UTC))
    clock = f"{before.total_seconds():.0f} s before {crossing}"
    # Where its clock is years ahead, pytest takes the folders of runs beside it for old, and removes them.
    with tempfile.TemporaryDirectory(prefix="flaky-", ignore_cleanup_errors=True) as root:
        return run_suite(number, arguments, FOLDER, {**environment, "PYTEST_DEBUG_TEMPROOT": root}, clock)


def _report(runs: Sequence[Run]) -> bool:
    """Print what was not the same in all runs, and whether that is nothing."""
    for run in runs:
        if run.exit_code:
            print(f"run {run.number} ended with {run.exit_code}: {run.output}")
    compared = {run.number: run.outcomes for run in runs if run.outcomes}
    found = differences(compared)
    for difference in found:
        print("\n".join(difference.lines()))
    tests = {test for outcomes in compared.values() for test in outcomes}
    print(f"Of {len(tests)} tests, {len(found)} failed or were not the same in all of {len(runs)} runs.")
    return bool(runs) and not found and all(run.exit_code == 0 for run in runs)


if __name__ == "__main__":
    main()
