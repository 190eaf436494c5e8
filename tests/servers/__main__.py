"""`make test-postgres`: what depends on the server, on every major version, with each kind of settings.

15 is Debian's, which has JIT; 16 is the wheel's other one; 17 and 18 are servers from npm, with extensions.
The wheel's 18 is what `make test` runs on. With JIT and awkward settings slow tests are left out: another one
stands for each, and its variants of plans and settings are tried on the stock server. Awkward settings are
tried on the oldest and the newest, unless they are asked for.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.servers import SETTINGS, has_jit
from webhook_dispatcher.local.binaries import wheel_programs

ROOT = Path(__file__).parents[2]
MODULES = Path(__file__).parent / "node_modules"
ARCHITECTURE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PROGRAMS = {
    "15": Path("/usr/lib/postgresql/15/bin"),
    "16": wheel_programs().parents[1] / "pginstall" / "bin",
    "17": MODULES / f"postgres-17-{ARCHITECTURE}" / "native" / "bin",
    "18": MODULES / f"postgres-18-{ARCHITECTURE}" / "native" / "bin",
}
WITH_JIT = "15"
"""The version that has JIT wherever it comes from: Debian builds it in."""
OLDEST_AND_NEWEST = (min(PROGRAMS), max(PROGRAMS))
ALL = ("tests/integration", "tests/acceptance")
QUICK = (
    "tests/integration/test_plan*.py",
    "tests/integration/test_claim_cost.py",
    "tests/integration/test_statement_shapes.py",
    "tests/integration/test_server_settings.py",
    "tests/integration/test_migrating_anywhere.py",
)
"""What depends on plans and settings."""
QUICK_JIT = (
    "tests/acceptance/test_order.py",
    "tests/acceptance/test_schedule.py",
    "tests/acceptance/test_bytes.py",
)


def main() -> None:
    """Read the command line, and run what it asks for; a failure ends nothing but the exit code."""
    parser = argparse.ArgumentParser(prog="make test-postgres", description=__doc__)
    parser.add_argument("--only", choices=PROGRAMS, action="append", help="this version; may be repeated")
    parser.add_argument("--settings", choices=SETTINGS, action="append", help="these; may be repeated")
    parser.add_argument(
        "--quick", action="store_true", help="what depends on plans and settings, stock and jit"
    )
    options, further = parser.parse_known_args()
    asked = options.settings or (("stock", "jit") if options.quick else ())
    rounds = list(_rounds(options.only or list(PROGRAMS), asked))
    if not rounds:
        raise SystemExit("nothing to run: of these versions none is built with JIT")
    results = {
        f"{version}, {settings}": _run(bin_dir, settings, _chosen(options.quick, settings), further)
        for version, bin_dir, settings in rounds
    }
    print("\n".join(["", *(f"PostgreSQL {name}: {result}" for name, result in results.items())]))
    sys.exit(any(result.startswith("FAILED") for result in results.values()))


def _rounds(versions: Sequence[str], asked: Sequence[str]) -> Iterator[tuple[str, Path, str]]:
    """Name what is run; JIT is tried where there is one."""
    for version in versions:
        bin_dir = PROGRAMS[version]
        if not (bin_dir / "postgres").is_file():
            raise SystemExit(f"PostgreSQL {version} is missing: there is no {bin_dir / 'postgres'}")
        if "jit" in (asked or SETTINGS) and version == WITH_JIT and not has_jit(bin_dir):
            raise SystemExit(
                f"PostgreSQL {version} is here without JIT: there is no llvmjit.so beside {bin_dir}"
            )
        for settings in asked or SETTINGS:
            if settings == "jit" and not has_jit(bin_dir):
                continue
            if asked or settings != "awkward" or version in OLDEST_AND_NEWEST:
                yield version, bin_dir, settings


def _chosen(quick: bool, settings: str) -> list[str]:
    if not quick:
        return list(ALL)
    patterns = QUICK_JIT if settings == "jit" else QUICK
    return [str(path.relative_to(ROOT)) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def _run(bin_dir: Path, settings: str, paths: Sequence[str], further: Sequence[str]) -> str:
    """Run tests on one server, and say how that went and how long it took."""
    named = {"TEST_POSTGRES_BIN": str(bin_dir), "TEST_POSTGRES_SETTINGS": settings}
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile"]
    command += ["--no-loadscope-reorder", "--of-the-server"]
    command += [] if settings == "stock" else ["-m", "not slow"]
    start = time.monotonic()
    code = subprocess.run([*command, *paths, *further], cwd=ROOT, env=os.environ | named).returncode
    return f"{'FAILED' if code else 'passed'} in {time.monotonic() - start:.0f} s"


if __name__ == "__main__":
    main()
