"""A scenario without kept connections: every event goes to another host, over HTTPS."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.contest import Figure, Run, Section, by_turns
from benchmarks.drains import BARE, CONCURRENCY, OURS, bare, ours
from benchmarks.naming import DNS_PORT, name_server
from benchmarks.rig import Rig, names
from benchmarks.rivals.posting import url_of
from benchmarks.sets import Bench

DOMAIN = "hooks.example.com"


def fresh_hosts(bench: Bench) -> Section:
    """Drain merchants with a host and one event each."""
    events = bench.events(4_000)
    ca_file = bench.rig.folder / "fresh.pem"
    receiver = ("--ca-file", str(ca_file), "--names", f"*.{DOMAIN}")
    with name_server(bench.rig.folder, port=DNS_PORT) as within, bench.rig.another_receiver(*receiver):
        runs = by_turns(bench.rounds, _contestants(bench.rig, events, ca_file, within), bench.tell)
    return Section(
        "Drain: a fresh host for each event, 1 KB, HTTPS",
        f"{events:,} events; a look-up, a connection and a TLS handshake each.",
        runs,
        (
            Figure("fresh hosts: drain ÷ bare loop", runs.ratio(OURS, "rate", BARE)),
            Figure("fresh hosts: daemon CPU ÷ bare loop's", runs.ratio(OURS, "worker", BARE)),
        ),
    )


def _contestants(rig: Rig, events: int, ca_file: Path, within: Sequence[str]) -> dict[str, Callable[[], Run]]:
    root = f"https://*.{DOMAIN}:{rig.receiver.ports['https']}/hook/"
    urls = {merchant_id: url_of(root, merchant_id) for merchant_id in names(events)}
    template = rig.make_template("fresh", urls, events)
    options = ("--ca-file", str(ca_file), "--concurrency", str(CONCURRENCY))

    def connecting(run: Callable[[], Run]) -> Run:
        """Run, and see that no connection was used twice."""
        before = rig.receiver.stats()["connections"]
        done = run()
        made = rig.receiver.stats()["connections"] - before
        if made < events:
            raise SystemExit(f"{made} connections for {events} events")
        return done

    return {
        BARE: lambda: connecting(lambda: bare(rig, events, events, *options, url=root, within=within)),
        OURS: lambda: connecting(
            lambda: ours(rig, template, events, events, within=within, EGRESS_CA_FILE=str(ca_file))
        ),
    }
