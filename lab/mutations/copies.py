"""Private copies of the tree, in which a file is mutated and tests are run.

A copy has an interpreter of its own: packages come from ours, the product from the copy alone. PYTHONPATH
would not do, since some tests set it for the daemons that they start.
"""

import compileall
import functools
import json
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.mutations.entries import ROOT, Mutation

MIN_TIMEOUT, MAX_TIMEOUT = 30.0, 300.0
"""Seconds, for one test."""
SCRIPT = "schemathesis"
"""A program that imports tests, and the product with them."""
PASSED, INTERRUPTED = (0, 5), 2
"""Exit codes of pytest; 5 where no test was left to run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch. failed: a test, or a module that was not imported; tests: how many began."""

    failed: str = ""
    is_hung: bool = False
    tests: int = 0


class Copy:
    """A copy of the tree without what Git ignores. expression: pytest's -m.

    on_postgres: collects the integration tests that use a server, once.
    """

    def __init__(self, root: Path, expression: str) -> None:
        self.root, self._expression = root, expression
        self._record, self._wanted = root.with_suffix(".record"), root.with_suffix(".wanted")
        _copy_tree(root)
        self._python = _make_interpreter(root)
        self._running: subprocess.Popen[bytes] | None = None
        self.on_postgres = functools.cache(self._collect)
        if self._pytest([], ["--collect-only", "tests/unit/test_mutations.py"], MAX_TIMEOUT) not in PASSED:
            raise RuntimeError(f"no tests run in a copy of the tree: {root.with_suffix('.log').read_text()}")

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """Apply a mutation for as long as the block runs."""
        before = {path: path.read_text(encoding="utf-8") for path in mutation.files(self.root)}
        try:
            for path, text in before.items():
                path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
            yield
        finally:
            for path, text in before.items():
                path.write_text(text, encoding="utf-8")

    def run(self, tests: Sequence[str], seconds: Mapping[str, float]) -> Outcome:
        """Run tests until the first fails."""
        costs = [seconds.get(test, 1.0) for test in tests]
        timeout = min(max(MIN_TIMEOUT, 5 * max(costs)), MAX_TIMEOUT)
        modules = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        if not (there := [module for module in modules if (self.root / module).exists()]):
            return Outcome()
        code = self._pytest(tests, [f"--timeout={timeout:.0f}", *there], 60 + 3 * sum(costs) + timeout)
        notes = self._notes()
        began = [test for what, test, _ in notes if what == "began"]
        for what, test, why in notes:
            if what == "failed":
                return Outcome(test, "Timeout (>" in why, len(began))
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code in PASSED and notes and notes[-1][0] == "finished":
            return Outcome(tests=len(began))
        # Ended after its deadline, or without a report: by a crash, or a conftest that could not be imported.
        return Outcome(began[-1] if began else modules[0], code is None, len(began))

    def _collect(self) -> set[str]:
        self._pytest([], ["--collect-only", "tests/integration"], MAX_TIMEOUT)
        return {test for what, test, _ in self._notes() if what == "on postgres"}

    def stop(self) -> None:
        """End what runs: let pytest take down what its tests have set up, then end all that is left."""
        if process := self._running:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(15)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _pytest(self, tests: Sequence[str], arguments: Sequence[str], deadline: float) -> int | None:
        """Run pytest; return its exit code, None where it had to be ended."""
        self._record.write_text("")
        self._wanted.write_text("\n".join(tests), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
            "PYTHONDONTWRITEBYTECODE": "1",
            "MUTATIONS_RECORD": str(self._record),
            "MUTATIONS_WANTED": str(self._wanted),
        }
        command = [self._python, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        command += ["-p", "lab.mutations.recorder", "-m", self._expression, *arguments]
        with self.root.with_suffix(".log").open("wb") as log:
            self._running = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            return self._running.wait(deadline)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.stop()

    def _notes(self) -> list[tuple[str, str, str]]:
        return [tuple(json.loads(line)) for line in self._record.read_text(encoding="utf-8").splitlines()]


def _copy_tree(root: Path) -> None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    for modules in (*ROOT.glob("tests/*/node_modules"), *ROOT.glob("tests/*/*/node_modules")):
        (root / modules.relative_to(ROOT)).symlink_to(modules)
    # Checked by content: a mutated file of the same size and second is compiled anew.
    checked = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(root / "src", quiet=2, invalidation_mode=checked)


def _make_interpreter(root: Path) -> str:
    """Make an environment of our packages and the copy's sources; return its interpreter."""
    venv.create(root / ".venv", symlinks=True)
    packages, [site] = sysconfig.get_path("purelib"), (root / ".venv").glob("lib/*/site-packages")
    # A folder that a .pth file names is searched; .pth files in it are not read: one would name our sources.
    (site / "copy.pth").write_text(f"{root / 'src'}\n{packages}\n")
    ours, its = Path(sys.prefix, "bin"), root / ".venv/bin"
    for program in ours.iterdir():
        if program.is_file() and not (its / program.name).exists():
            (its / program.name).symlink_to(program)
    script = (ours / SCRIPT).read_text().replace(str(ours), str(its))
    (its / SCRIPT).unlink()
    (its / SCRIPT).write_text(script)
    (its / SCRIPT).chmod(0o755)
    return str(its / "python")
