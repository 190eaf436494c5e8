"""Runs the tests, and reports what their time goes to and what each alone covers (`make test-report`).

The arguments are pytest's. TIMES_ONLY=1 records no coverage, which slows everything down.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab.report.covered import CONFIGURATION, Covered
from lab.report.measured import Measured
from lab.report.plugin import FOLDER, MEASURED
from lab.report.written import as_json, as_markdown

REPORT = Path(__file__).parents[2] / "build" / "test-report"


def main(arguments: list[str]) -> int:
    """Run the tests, write the report, and return pytest's exit code."""
    is_covering = not os.environ.get("TIMES_ONLY")
    shutil.rmtree(REPORT, ignore_errors=True)
    (REPORT / "parts").mkdir(parents=True)
    os.environ[FOLDER] = str(REPORT)
    code = _run(arguments, is_covering)
    if not (REPORT / MEASURED).exists():
        return code
    measured = Measured(REPORT / MEASURED)
    covered = Covered(REPORT) if is_covering else None
    (REPORT / "report.md").write_text(as_markdown(measured, covered))
    (REPORT / "tests.json").write_text(as_json(measured, covered))
    sys.stdout.write(f"{REPORT / 'report.md'} says where the time went.\n")
    return code


def _run(arguments: list[str], is_covering: bool) -> int:
    environment = dict(os.environ)
    if is_covering:
        environment["COVERAGE_PROCESS_START"] = str(CONFIGURATION)
    command = [sys.executable, "-m", "pytest", "-p", "lab.report.plugin", *arguments]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
