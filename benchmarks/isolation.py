"""What merchants that hang or fail cost the others: the lag of the healthy, beside bad ones and without.

Everybody's load is fixed and the same in every run, whether the daemon keeps up or not; in those without
bad merchants the same third has the same events, and takes them.
"""

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path

from benchmarks.contest import Figure, Run, Section, Unmeasurable, by_turns
from benchmarks.lags import lags_of
from benchmarks.naming import name_server
from benchmarks.processes import Child, until
from benchmarks.rig import Daemon, Receiver, Rig, names
from benchmarks.sets import Bench
from webhook_dispatcher.settings import Settings

HEALTHY, BAD = 200, 100
SHARE = 0.45
"""Of saturation: the load with the bad merchants' events."""
BAD_RATE = 100
"""Events a second of the bad merchants, one each: those that hang for ten seconds always have another."""
FLOOD = 10_000
"""Events a second: more than eight connections commit."""
FLOOD_WARM_UP, FLOOD_SECONDS = 2.0, 4.0
HEAD_START = 2.0
"""Seconds for which only the bad merchants have events."""
WARM_UP = 4.0
"""Seconds of everybody's events that do not count: by their end each bad merchant has had one, and hangs."""
SECONDS = 6.0
"""That count; in them the first attempts time out and the next begin."""
MIN_HANGING = 0.95
PRODUCER = "benchmarks.ourselves"
ALONE, HANGING, FAILING = "all healthy", "a third hanging", "a third failing fast"
OUTCOME = {ALONE: {"delivered"}, HANGING: {"timeout"}, FAILING: {"status", "connect"}}
OUTCOMES = """
SELECT outcome::text, count(*) FROM webhook.attempts WHERE (merchant_id >= $1) = $2 GROUP BY outcome
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a run takes place on.

    templates: the database of each contestant.
    within: where the daemon runs, with a name server that never answers.
    """

    rig: Rig
    templates: Mapping[str, str]
    ca_file: Path
    within: Sequence[str]

    @contextmanager
    def daemon(self, template: str) -> Iterator[tuple[str, Daemon]]:
        """Run a daemon on a database of its own; what it has in flight at the end is cut off."""
        settings = {"EGRESS_CA_FILE": str(self.ca_file), "SHUTDOWN_GRACE": "PT0S"}
        with (
            self.rig.database(template) as database,
            self.rig.daemon(database, within=self.within, **settings) as daemon,
        ):
            yield database, daemon

    def produce(self, database: str, rate: float, seconds: float, *options: str) -> Child:
        """Start a producer."""
        dsn = self.rig.postgres.dsn("webhook_producer", database)
        command = ["produce", "--dsn", dsn, "--rate", str(rate), "--seconds", str(seconds), *options]
        command += ["--log", str(self.rig.folder / "beside.log")]
        return Child(PRODUCER, *command, log=self.rig.folder / "producer.log")


def isolation(bench: Bench) -> Section:
    """Measure the lags of healthy merchants alone, beside those that hang and beside those that fail."""
    seconds = WARM_UP + SECONDS * bench.scale
    with _stage(bench.rig) as stage:
        saturation = _saturation(stage)
        rate = int(SHARE * saturation - BAD_RATE)
        if rate <= BAD_RATE:
            raise Unmeasurable(f"a saturation of {saturation:.0f}/s leaves the healthy too little")
        runs = by_turns(
            bench.rounds,
            {kind: partial(_beside, stage, kind, rate, seconds) for kind in (ALONE, HANGING, FAILING)},
            bench.tell,
        )
    runs.of["saturation"] = [Run(saturation)]
    lanes = Settings.model_fields["max_lanes"].default
    return Section(
        "Isolation: lags of healthy merchants beside bad ones",
        f"{HEALTHY} healthy merchants have {rate:,} events/s over TLS, {BAD} others {BAD_RATE}/s besides: "
        f"{(rate + BAD_RATE) / saturation:.0%} of saturation, {saturation:,.0f}/s. MAX_LANES is {lanes:,}. "
        "The others are healthy, too, or hang (silent, mute, dripping, nameless), or fail (500, refused).",
        runs,
        (
            Figure("p99 of the healthy: hanging ÷ without", runs.ratio(HANGING, "p99 ms", ALONE), most=1.3),
            Figure("p99 of the healthy: failing ÷ without", runs.ratio(FAILING, "p99 ms", ALONE)),
        ),
    )


@contextmanager
def _stage(rig: Rig) -> Iterator[Stage]:
    """Start the receivers, good and bad, and make their merchants' endpoints."""
    authorities = [rig.folder / f"isolation-{name}.pem" for name in ("healthy", "failing", "tarpits")]
    healthy, failing, tarpits = map(str, authorities)
    hanging = Child("benchmarks.tarpits", "--ca-file", tarpits, log=rig.folder / "tarpits.log")
    try:
        with (
            name_server(rig.folder, "--silent") as within,
            rig.another_receiver("--log", "--ca-file", healthy) as receiver,
            _refusing() as refusing,
        ):
            good = {name: receiver.url("https") + name for name in names(HEALTHY)}
            others = rig.start_receiver("--ca-file", failing)
            bad = {
                ALONE: {name: others.url("https") + name for name in names(BAD, HEALTHY)},
                HANGING: _hanging(hanging.read()),
                FAILING: _failing(others, refusing),
            }
            templates = {
                kind: rig.make_template(f"isolation_{number}", good | urls, HEALTHY + BAD)
                for number, (kind, urls) in enumerate(bad.items())
            }
            ca_file = rig.folder / "isolation.pem"
            ca_file.write_text("".join(file.read_text() for file in authorities))
            yield Stage(rig, templates, ca_file, within)
    finally:
        hanging.end()


def _hanging(ports: Mapping[str, int]) -> dict[str, str]:
    roots = cycle([*(f"https://127.0.0.1:{port}/" for port in ports.values()), None])
    # Names under .example are refused before any look-up; that of .com goes to our own name server.
    return {
        name: root + name if root else f"https://{name}.hooks.example.com/"
        for name, root in zip(names(BAD, HEALTHY), roots, strict=False)
    }


def _failing(receiver: Receiver, refusing: int) -> dict[str, str]:
    roots = cycle([receiver.url("https", "fail"), f"https://127.0.0.1:{refusing}/"])
    return {name: root + name for name, root in zip(names(BAD, HEALTHY), roots, strict=False)}


@contextmanager
def _refusing() -> Iterator[int]:
    """Hold a port at which connections are refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def _saturation(stage: Stage) -> float:
    """Return how many events a second arrive while producers write as fast as they can."""
    receiver = stage.rig.receiver
    with stage.daemon(stage.templates[HANGING]) as (database, _):
        seconds = FLOOD_WARM_UP + FLOOD_SECONDS
        receiver.reset()
        producer = stage.produce(database, FLOOD, seconds, "--merchants", str(HEALTHY))
        try:
            receiver.await_requests(1, 30.0)
            time.sleep(FLOOD_WARM_UP)
            receiver.reset()
            time.sleep(FLOOD_SECONDS)
            stats = receiver.stats()
        finally:
            producer.end()
    arrived: float = stats["requests"] / (stats["last_at"] - stats["first_at"])
    return arrived


def _beside(stage: Stage, kind: str, rate: int, seconds: float) -> Run:
    """Make a run beside a third of merchants of this kind, and see that they were of it."""
    with stage.daemon(stage.templates[kind]) as (database, daemon):
        options = ("--first", str(HEALTHY), "--merchants", str(BAD))
        trickle = stage.produce(database, BAD_RATE, 2 * seconds, *options)
        try:
            time.sleep(HEAD_START)
            run = _lags(stage, database, daemon, rate, seconds)
            in_flight = daemon.gauge("webhook_attempts_in_flight")
            outcomes = _outcomes(stage.rig, database, of_bad=True)
        finally:
            trickle.end()
    if kind == HANGING and in_flight < MIN_HANGING * BAD:
        raise SystemExit(f"{in_flight:.0f} of {BAD} bad merchants were hanging")
    # A short run ends before the first time-out.
    if not (outcomes.keys() <= OUTCOME[kind] if kind == HANGING else outcomes.keys() == OUTCOME[kind]):
        raise SystemExit(f"{kind}: the attempts ended otherwise: {outcomes}")
    return run


def _lags(stage: Stage, database: str, daemon: Daemon, rate: int, seconds: float) -> Run:
    """Measure the healthy merchants' lags, and see that none of their attempts failed."""
    rig = stage.rig
    dsn = rig.postgres.dsn("webhook_producer", database)
    run = lags_of(rig, daemon.process.pid, PRODUCER, dsn, rate, seconds, merchants=HEALTHY, warm_up=WARM_UP)
    requests = rig.receiver.stats()["requests"]
    until(lambda: sum(_outcomes(rig, database, of_bad=False).values()) >= requests, 10.0)
    if (outcomes := _outcomes(rig, database, of_bad=False)).keys() != {"delivered"}:
        raise SystemExit(f"attempts at healthy merchants: {outcomes}")
    return run


def _outcomes(rig: Rig, database: str, *, of_bad: bool) -> dict[str, int]:
    """Count attempts by how they ended."""
    (first,) = names(1, HEALTHY)
    return dict(map(tuple, rig.query(OUTCOMES, first, of_bad, database=database)))
