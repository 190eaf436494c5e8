"""Breaks the product in the ways of a list, one at a time, and says which of them no test notices.

Each is applied in a private copy of the tree; the tests that ran the mutated lines when `make test-report`
measured are run until one fails, and fails again alone, and passes without the mutation.
"""

import argparse
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.mutations.choice import Report, batches
from lab.mutations.copies import Copy, Outcome
from lab.mutations.entries import LIST, ROOT, Mutation, faults, read


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutation. last: the last batch; where nothing failed in it, the mutation survived."""

    mutation: Mutation
    last: Outcome
    tests: int
    is_capped: bool
    seconds: float

    def __str__(self) -> str:
        """Say it in a few words."""
        if self.last.failed:
            return f"killed by {self.last.failed}" + " (hung)" * self.last.is_hung
        return f"survived ({self.tests} tests{', capped' * self.is_capped})"


class Judge:
    """Tries mutations, each in a copy that is free."""

    def __init__(self, report: Report, copies: Sequence[Copy], cap: float) -> None:
        self._report, self._cap, self._choosing = report, cap, threading.Lock()
        self._free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            self._free.put(copy)
        self._passes: dict[str, bool] = {}
        """Whether a test passes without a mutation."""

    def try_one(self, mutation: Mutation) -> Verdict:
        """Try one mutation, and print what became of it."""
        copy = self._free.get()
        try:
            verdict = self._try_in(copy, mutation)
        finally:
            self._free.put(copy)
        print(f"{mutation.name}: {verdict}, {verdict.seconds:.0f} s", flush=True)
        return verdict

    def _try_in(self, copy: Copy, mutation: Mutation) -> Verdict:
        with self._choosing:
            left = list(batches(mutation, self._report, copy.on_postgres))
        began, tests, last = time.monotonic(), 0, Outcome()
        while left and not last.failed and time.monotonic() < began + self._cap:
            last = self._run(copy, mutation, left.pop(0))
            tests += last.tests
        return Verdict(mutation, last, tests, bool(left), time.monotonic() - began)

    def _run(self, copy: Copy, mutation: Mutation, batch: list[str]) -> Outcome:
        """Run a batch; a test that fails without the mutation, too, or not again with it, is left out."""
        while batch := [test for test in batch if self._passes.get(test, True)]:
            with copy.mutated(mutation):
                outcome = copy.run(batch, self._report.seconds)
            if not outcome.failed:
                return outcome
            failed = [test for test in batch if f"{test}::".startswith(f"{outcome.failed}::")] or batch
            if self._pass_unmutated(copy, failed):
                with copy.mutated(mutation):
                    if outcome.is_hung or copy.run(failed, self._report.seconds).failed:
                        return outcome
                batch = [test for test in batch if test not in failed]
        return Outcome()

    def _pass_unmutated(self, copy: Copy, tests: Sequence[str]) -> bool:
        if not all(test in self._passes for test in tests):
            do_pass = not copy.run(tests, self._report.seconds).failed
            self._passes.update(dict.fromkeys(tests, do_pass))
            if not do_pass:
                more = f" and {len(tests) - 1} more" * (len(tests) > 1)
                print(f"fails without a mutation, too, and does not count: {tests[0]}{more}", flush=True)
        return all(self._passes[test] for test in tests)


def judge(mutations: Sequence[Mutation], report: Report, asked: argparse.Namespace) -> list[Verdict]:
    """Try all mutations, several at a time."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder, ThreadPoolExecutor(asked.jobs) as pool:
        expression = "" if asked.all else "not slow"
        copies = [Copy(Path(folder, f"copy-{number}"), expression) for number in range(asked.jobs)]
        try:
            return list(pool.map(Judge(report, copies, asked.cap).try_one, mutations))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.stop()
            raise


def as_markdown(verdicts: Sequence[Verdict]) -> str:
    """Write a table of all, the score, and what survived."""
    survived = [verdict for verdict in verdicts if not verdict.last.failed]
    lines = ["# Mutations", "", f"Killed: {len(verdicts) - len(survived)}/{len(verdicts)}", ""]
    lines += ["| mutation | file | what became of it | seconds |", "|---|---|---|---|"]
    for verdict in verdicts:
        said, mutation = str(verdict).replace("|", "\\|"), verdict.mutation
        lines.append(f"| {mutation.name} | {mutation.file} | {said} | {verdict.seconds:.0f} |")
    lines += ["", "## Survivors", ""]
    lines += [f"- {verdict.mutation.name}: {verdict.mutation.breaks} {verdict}" for verdict in survived]
    return "\n".join([*lines, ""])


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.mutations", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", default=[], metavar="NAME", help="try these alone")
    add("--names", type=Path, metavar="FILE", help="try those alone that a file names, one in a line")
    add("--all", action="store_true", help="run tests outside of `make test`, too")
    add("--jobs", type=int, default=2, help="how many to try at a time (2)")
    add("--cap", type=float, default=600.0, help="seconds for one mutation; then it has survived (600)")
    add("--list", type=Path, default=LIST, help="another list of mutations")
    add("--report", type=Path, default=ROOT / "build/test-report", help="another report's folder")
    return parser.parse_args()


def main() -> None:
    """Read the list and the report, try what is asked for, and write build/mutations.md."""
    asked = arguments()
    mutations = read(asked.list)
    names = {*asked.only, *(asked.names.read_text(encoding="utf-8").split() if asked.names else ())}
    unknown = names - {mutation.name for mutation in mutations}
    if wrong := [*faults(mutations), *(f"{name}: is not in it" for name in sorted(unknown))]:
        sys.exit("\n".join([f"{asked.list} is broken:", *wrong]))
    if not (asked.report / "tests.json").is_file():
        sys.exit(f"{asked.report} holds no report: `make test-report` makes it")
    chosen = [mutation for mutation in mutations if not names or mutation.name in names]
    text = as_markdown(judge(chosen, Report(asked.report), asked))
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build/mutations.md").write_text(text, encoding="utf-8")
    print(text[text.index("Killed:") :])


if __name__ == "__main__":
    main()
