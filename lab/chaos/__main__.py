"""`make chaos`: load and faults for so many minutes, then the judge; the seed is printed first.

From five minutes on the last fifth is a run of its own, in which the database's clock is set; so is its
report. Exit code 1 when a promise was broken.
"""

import argparse
import asyncio
import gzip
import os
import pickle
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.chaos.faults import (  # noqa: F401 (they register)
    connections,
    daemons,
    failover,
    floods,
    merchants,
    names,
    operators,
    server,
    settings,
)
from lab.chaos.judge import judge
from lab.chaos.kinds import KINDS, Kind
from lab.chaos.report import row, write_report
from lab.chaos.run import run
from lab.chaos.testbed import Scale, Testbed
from tests.servers import programs
from tests.servers.scaled_time import LIBRARY

CLOCK_FROM, CLOCK_PART = 5.0, 0.2
"""Minutes from which on so large a part of them is a run with a clock of the server's own."""


@dataclass(frozen=True, slots=True)
class Part:
    """A run, for so many minutes, and where its report goes. has_clock: the server has a clock of its own."""

    minutes: float
    has_clock: bool
    report: Path


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--report", type=Path, default=Path("chaos-report"))
    parser.add_argument("--daemons", type=int, default=3)
    parser.add_argument("--merchants", type=int, default=200)
    parser.add_argument("--rate", type=float, default=75)
    parser.add_argument("--alone", type=float, default=0.5, help="part of merchants' faults, without others")
    parser.add_argument("--only", action="append", default=[], help="kinds whose names hold this text")
    parser.add_argument("--first", action="append", default=[], help="kinds that come before others")
    parser.add_argument(
        "--notices",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="tell the platform what fails, and suspend who fails for long: a minute more at the end",
    )
    parser.add_argument(
        "--clock",
        action=argparse.BooleanOptionalAction,
        help="set the database's clock all the time, or never; by default in the last fifth of five minutes",
    )
    parser.add_argument("--server-bin", type=Path, default=programs(), help="the folder of another Postgres")
    parser.add_argument(
        "--setting", type=_setting, action="append", default=[], help="NAME=VALUE of the server, e.g. jit=off"
    )
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    kept = [_keeps_promises(asked, part) for part in parts(asked)]
    sys.exit(not all(kept))


def parts(asked: argparse.Namespace) -> Iterator[Part]:
    """Say which runs make up what is asked for."""
    has_both = asked.clock is None and asked.minutes >= CLOCK_FROM and not asked.only and LIBRARY is not None
    with_clock = CLOCK_PART * asked.minutes if has_both else 0.0
    yield Part(asked.minutes - with_clock, bool(asked.clock), asked.report)
    if has_both:
        yield Part(with_clock, True, asked.report / "clock")


def _keeps_promises(asked: argparse.Namespace, part: Part) -> bool:
    """Run a part, write its report, and tell whether no promise was broken.

    With a clock of the server's own nothing is told to the platform, and no lock_timeout expires.
    """
    scale = Scale(
        daemons=asked.daemons,
        merchants=asked.merchants,
        rate=asked.rate,
        alone=asked.alone,
        has_notices=asked.notices and not part.has_clock,
        has_clock=part.has_clock,
        programs=asked.server_bin,
        server_settings=dict(asked.setting),
    )
    start = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - start:7.1f}  {line}", flush=True)

    with tempfile.TemporaryDirectory(prefix="webhook-chaos-") as folder:
        # As root without namespaces the server runs as nobody, who must pass.
        Path(folder).chmod(0o711)
        testbed = Testbed(scale, asked.seed, Path(folder))
        kinds = [kind for kind in KINDS.values() if not asked.only or _is_named(kind, asked.only)]
        first = [
            kind
            for kind in kinds
            if _is_named(kind, asked.first) or (part.has_clock and kind.needs == "clock")
        ]
        outcome = asyncio.run(run(testbed, kinds, part.minutes * 60, tell, first))
        verdict = judge(outcome.evidence)
        notes = (
            {"server": outcome.server}
            | scale.notes()
            | {
                "minutes": f"{asked.minutes:g}",
                "the database's clock": "set an hour off now and then" if part.has_clock else "the machine's",
                "machine": f"{os.cpu_count()} cores, load average {os.getloadavg()[1]:.1f} at the end",
                "faults that could not be brought about": str(outcome.missed or "none"),
                "kinds left out": ", ".join(outcome.left_out) or "none",
            }
        )
        report = write_report(verdict, outcome.evidence, part.report, notes)
        if verdict.violations or outcome.complaints:
            keep_logs(testbed.folder, part.report)
            with gzip.open(part.report / "logs" / "evidence.pickle.gz", "wb", compresslevel=1) as kept:
                pickle.dump(outcome.evidence, kept)
    for complaint in outcome.complaints:
        print(f"COMPLAINT: {complaint}")
    print(row(verdict, outcome.evidence, _commit()))
    print(f"{len(verdict.violations)} violations, {len(outcome.complaints)} complaints; see {report}")
    return not (verdict.violations or outcome.complaints)


def _commit() -> str:
    """Name the commit of this checkout, as far as there is one."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "unknown"


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _is_named(kind: Kind, texts: Sequence[str]) -> bool:
    return any(text in kind.name for text in texts)


def keep_logs(folder: Path, report: Path) -> None:
    """Keep what daemons and database said in a run that failed."""
    for file in [*folder.glob("*.log"), *folder.glob("database/*.log")]:
        (report / "logs").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, report / "logs" / file.name)


if __name__ == "__main__":
    main()
