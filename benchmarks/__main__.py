"""`make bench`: a set of scenarios for us and for what one would use instead, by turns, on this machine.

Prints and writes tables, figures beside what is wanted of them, and pictures: `benchmarks/results/`.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import (
    api,
    becoming,
    collusion,
    console,
    costs,
    drains,
    filters,
    fresh,
    hindered,
    isolation,
    lags,
    large,
    quiet_hour,
    recording,
    replays,
    routes,
    shapes,
    stock,
    versions,
)
from benchmarks.contest import Section, Unmeasurable
from benchmarks.report import server_facts, write
from benchmarks.rig import Rig
from benchmarks.sets import Bench

Scenario = Callable[[Bench], Section]
STANDARD: Mapping[str, Scenario] = {
    "many-merchants": drains.many_merchants,
    "https": drains.over_tls,
    "one-merchant": drains.one_merchant,
    "by-charge": drains.by_charge,
    "steady-load": lags.steady,
    "recording": recording.recording,
    "isolation": isolation.isolation,
    "inserts": lags.inserts,
    "wal": drains.write_ahead_log,
    "stock": stock.stock,
}
LARGE: Mapping[str, Scenario] = {
    "shapes": shapes.shapes,
    "fresh-hosts": fresh.fresh_hosts,
    "processes": drains.processes,
    "costs": costs.costs,
    "hindered": hindered.hindered,
    "large": large.large,
    "replay": replays.replays,
}
PLANS: Mapping[str, Scenario] = {
    "quiet-hour": quiet_hour.quiet_hour,
    "two-processes": quiet_hour.two_processes,
}
API: Mapping[str, Scenario] = {
    "api": api.webhook,
    "api-list": api.deliveries,
    "idle-api": api.idle_api,
}
ASKED_FOR: Mapping[str, Scenario] = {
    "becoming": becoming.becoming,
    "collusion": collusion.collusion,
    "console": console.console,
    "console-pages": console.pages,
    "filters": filters.filters,
    "routes": routes.routes,
    "versions": versions.versions,
}
"""Those of no set."""
SETS = {"standard": STANDARD, "large": LARGE, "plans": PLANS, "api": API}
SCENARIOS = {**STANDARD, **LARGE, **PLANS, **API, **ASKED_FOR}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="the part of the events that are used")
    parser.add_argument("--set", choices=SETS, default="standard", help="which scenarios")
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="this scenario; may be repeated")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--name", help="of the files in the results (default: the set's)")
    parser.add_argument(
        "--before", type=Path, metavar="PYTHON", help="measure this interpreter's programs as well"
    )
    parser.add_argument("--server-bin", type=Path, metavar="DIR", help="the programs of another PostgreSQL")
    options = parser.parse_args()
    start = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {line}", flush=True)

    sections = []
    with tempfile.TemporaryDirectory(prefix="webhook-bench-") as folder:
        ca_file = Path(folder) / "ca.pem"
        with Rig(Path(folder), receiver=("--ca-file", str(ca_file)), bin_dir=options.server_bin) as rig:
            server = server_facts(rig.postgres.dsn())
            tell(server)
            bench = Bench(rig, ca_file, options.rounds, options.scale, tell, options.before)
            for name in options.only or SETS[options.set]:
                tell(name)
                try:
                    section = SCENARIOS[name](bench)
                except Unmeasurable as missing:
                    tell(f"  left out: {missing}")
                    continue
                sections.append(section)
                print("\n".join(["", section.title, "", *section.runs.table(), ""]), flush=True)
    if not sections:
        raise SystemExit("nothing was measured")
    print(write(sections, options.results, options.name or options.set, server))


if __name__ == "__main__":
    main()
