"""What merchants that fail alike cost the others: the lag of the honest, beside colluders or a dying host.

All bad merchants accept a few events, so that they count as merchants that work, and then fail in one way:
each in a network of its own (colluders), or all on one host. Without, the same merchants go on accepting.
"""

import json
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.contest import Figure, Run, Section, by_turns
from benchmarks.lags import lags_of
from benchmarks.nameserver import ADDRESS
from benchmarks.processes import Child, until
from benchmarks.rig import Daemon, Receiver, Rig, names
from benchmarks.sets import Bench, in_the_past
from benchmarks.turncoats import LOOPBACK, SHARED, apart

HONEST, BAD = (5, 50), (20, 200)
HONEST_RATE = 100
"""Events a second of the honest, in every run."""
BASE, LOADS = 25, (4, 40)
"""Events a second of the bad merchants, times the load."""
ACCEPTED = 3
"""Events that each bad merchant accepts before it fails."""
HEAD_START = 1.0
"""Seconds for which only the bad merchants have events, and fail."""
WARM_UP, SECONDS = 3.0, 6.0
TIMEOUT = "PT2S"
"""What an attempt may take: so that some time out within a run."""
PRODUCER = "benchmarks.ourselves"
PATIENCE = 300.0
"""Seconds after the last event in which all of the honest must have arrived."""
WITHOUT = "well"
CLOSING = "closing"
"""All is well, but each connection is closed after its answer: a handshake an event, as where TLS fails."""
ALONE = (WITHOUT, "503", "refusal")
"""What colluders do, by turns: a status proves that all is well with us, a refusal raises suspicion."""
TOGETHER = (WITHOUT, CLOSING, "503", "401", "time-out", "refusal", "tls", "dns")
"""What merchants of one host do."""
FILL = """
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT merchant_id, 'charge.created', '{}' FROM unnest($1::text[]) AS merchant_id, generate_series(1, $2)
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One run: so many honest and bad merchants, the load of the bad, and what they do."""

    honest: int
    bad: int
    load: int
    is_one_host: bool
    how: str

    def __str__(self) -> str:
        where = "on one host" if self.is_one_host else "colluders"
        return f"{self.honest} honest, {self.bad} {where} x{self.load}: {self.how}"

    @property
    def has_before(self) -> bool:
        """Tell whether the daemon of another checkout is measured as well, which may take minutes."""
        is_typical = self.how == "503" if self.is_one_host else self.honest == HONEST[0]
        return self.load == LOADS[0] and self.bad == BAD[0] and (is_typical or self.how == WITHOUT)

    @property
    def without(self) -> str:
        """The same, while all merchants are well; with as many handshakes, where each attempt makes one."""
        return str(replace(self, how=CLOSING if self.how == "tls" else WITHOUT))


CASES = [
    *(Case(h, b, load, False, how) for h in HONEST for b in BAD for load in LOADS for how in ALONE),
    *(Case(HONEST[-1], BAD[0], load, True, how) for load in LOADS for how in TOGETHER),
]


@dataclass(frozen=True, slots=True)
class Stage:
    """What a run takes place on. templates: a database for each way in which bad merchants are reached."""

    rig: Rig
    control: int
    name_server: Child
    settings: Mapping[str, str]
    templates: Mapping[tuple[int, str], str]

    def turn(self, how: str) -> None:
        """Let all bad merchants do this from now on."""
        self.name_server.signal(signal.SIGUSR1 if how == "dns" else signal.SIGUSR2)
        self._ask(f"turn/{WITHOUT if how == 'dns' else how}")

    def requests(self) -> int:
        """Count what the bad merchants have been sent since they turned."""
        found: int = self._ask("stats")["requests"]
        return found

    def _ask(self, what: str) -> dict[str, int]:
        url = f"http://{LOOPBACK}:{self.control}/-/{what}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            found: dict[str, int] = json.load(answer)
        return found

    @contextmanager
    def daemon(self, case: Case) -> Iterator[tuple[str, Daemon]]:
        """Run a daemon on a database of its own; what it has in flight at the end is cut off."""
        way = "names" if case.how == "dns" else "shared" if case.is_one_host else "apart"
        with (
            self.rig.database(self.templates[case.bad, way]) as database,
            self.rig.daemon(database, **self.settings) as daemon,
        ):
            yield database, daemon


def collusion(bench: Bench) -> Section:
    """Measure the lags of honest merchants beside those that fail alike, and without."""
    with _stage(bench.rig) as stage:
        seconds = WARM_UP + SECONDS * bench.scale
        contestants: dict[str, Callable[[], Run]] = {}
        for case in CASES:
            one = {str(case): partial(_run, stage, case, seconds)}
            contestants |= bench.beside_before(one) if case.has_before else one
        runs = by_turns(bench.rounds, contestants, bench.tell)
    failing = [case for case in CASES if case.how not in (WITHOUT, CLOSING)]
    return Section(
        "Collusion: lags of honest merchants beside others that fail alike",
        f"The honest have {HONEST_RATE} events/s. The others accept {ACCEPTED} events each and then fail, or "
        f"go on accepting (`{WITHOUT}`); they have {BASE} events/s times the load (x4, x40). Colluders have "
        "a /24 each. Where TLS fails, it is beside merchants that close each connection after their answer: "
        "what a handshake costs is no collusion. `excused`: attempts that did not count; `uncounted`: events "
        "of the honest with such an attempt; `pauses`: faults of our own that were announced.",
        runs,
        (
            *(
                Figure(f"p99, {case} ÷ without", runs.ratio(str(case), "p99 ms", case.without), most=1.5)
                for case in failing
            ),
            *(
                Figure(
                    f"p99, {case} ÷ without, before",
                    runs.ratio(in_the_past(str(case)), "p99 ms", in_the_past(case.without)),
                )
                for case in failing
                if in_the_past(str(case)) in runs.of
            ),
            *(
                Figure(
                    f"{name}, all runs",
                    sum(run.value(name) for case in CASES for run in runs.of[str(case)]),
                    most=0,
                )
                for name in ("uncounted", "pauses")
            ),
        ),
    )


def _run(stage: Stage, case: Case, seconds: float) -> Run:
    """Have the bad merchants accept something, then fail, and measure the honest beside them."""
    rig = stage.rig
    bad = names(case.bad, HONEST[-1])
    stage.turn(WITHOUT)
    with stage.daemon(case) as (database, daemon):
        rig.execute(FILL, bad, ACCEPTED, database=database)
        until(lambda: stage.requests() >= ACCEPTED * case.bad, 60.0)
        dsn = rig.postgres.dsn("webhook_producer", database)
        command = ["produce", "--dsn", dsn, "--rate", str(BASE * case.load), "--seconds", str(2 * seconds)]
        command += ["--first", str(HONEST[-1]), "--merchants", str(case.bad)]
        beside = Child(
            PRODUCER, *command, "--log", str(rig.folder / "beside.log"), log=rig.folder / "producer.log"
        )
        try:
            stage.turn(case.how)
            time.sleep(HEAD_START)
            pid = daemon.process.pid
            run = lags_of(
                rig,
                pid,
                PRODUCER,
                dsn,
                HONEST_RATE,
                seconds,
                merchants=case.honest,
                warm_up=WARM_UP,
                patience=PATIENCE,
            )
        finally:
            beside.end()
        return replace(run, shows={**run.shows, **_wronged(rig, database)})


def _wronged(rig: Rig, database: str) -> dict[str, float]:
    """Count the honest events with an attempt that did not count, and the pauses; by the daemon's log."""
    lines = (rig.folder / f"{database}.log").read_text().splitlines()
    entries = [json.loads(line) for line in lines if "attempt.uncounted" in line or "fault.began" in line]
    produced = (rig.folder / "produced.log").read_text().splitlines()
    honest = {json.loads(line)["event_id"] for line in produced}
    uncounted = [entry["event_id"] for entry in entries if entry["event"] == "attempt.uncounted"]
    return {
        "excused": len(uncounted),
        "uncounted": len(honest.intersection(uncounted)),
        "pauses": sum(entry["event"] == "fault.began" for entry in entries),
    }


@contextmanager
def _stage(rig: Rig) -> Iterator[Stage]:
    """Start the receivers, honest and bad, and a name server; make the merchants' endpoints."""
    ca_file = rig.folder / "turncoats.pem"
    log = rig.folder / "turncoats.log"
    turncoats = Child("benchmarks.turncoats", "--merchants", str(BAD[-1]), "--ca-file", str(ca_file), log=log)
    name_server = Child("benchmarks.nameserver", "--seconds", "0", log=log)
    try:
        ports, dns_port = turncoats.read(), name_server.read()["port"]
        settings = {
            "EGRESS_CA_FILE": str(ca_file),
            "EGRESS_NAMESERVERS": f"{ADDRESS}:{dns_port}",
            "ATTEMPT_TIMEOUT": TIMEOUT,
            "SHUTDOWN_GRACE": "PT0S",
        }
        with rig.another_receiver("--log") as receiver:
            templates = {
                (bad, way): rig.make_template(
                    f"collusion_{bad}_{way}", _urls(receiver, roots, ports["https"]), HONEST[-1] + bad
                )
                for bad in BAD
                for way, roots in _ways(bad).items()
            }
            yield Stage(rig, ports["control"], name_server, settings, templates)
    finally:
        turncoats.end()
        name_server.end()


def _ways(bad: int) -> dict[str, Sequence[str]]:
    """Return the hosts of the bad merchants, by how they are reached."""
    return {
        "apart": [apart(number) for number in range(bad)],
        "shared": [SHARED] * bad,
        "names": [f"{name}.hooks.example.com" for name in names(bad, HONEST[-1])],
    }


def _urls(receiver: Receiver, hosts: Sequence[str], port: int) -> dict[str, str]:
    honest = {name: receiver.url() + name for name in names(HONEST[-1])}
    bad = zip(names(len(hosts), HONEST[-1]), hosts, strict=True)
    return honest | {name: f"https://{host}:{port}/{name}" for name, host in bad}
