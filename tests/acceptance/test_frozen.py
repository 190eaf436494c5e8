"""A daemon that is frozen for longer than its lease and then goes on. Source: I2, I3.

What it held is served by others meanwhile. When it wakes, a request whose lease was looked at just before it
froze may still leave; it repeats what has arrived.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.acceptance.installation import Installation
from tests.acceptance.load import (
    PATIENCE,
    Fate,
    Load,
    all_settled,
    check_promises,
    fates,
    held_by,
    repetitions,
    start_daemons,
)
from tests.acceptance.processes import Daemon
from webhook_dispatcher.domain.verdict import NOT_SENT
from webhook_dispatcher.local.arrivals import Arrival
from webhook_dispatcher.local.behaviour import Behaviour

DAEMONS = 3
STEADY = [f"s{number:02}" for number in range(30)]
"""Merchants that answer 200, at a pace of their own, and have a backlog."""
FLAKY = [f"f{number:02}" for number in range(15)]
"""Merchants that refuse each event twice, and are slow about it: retries are always in flight."""
UNDER_WAY = 0.2
"""Seconds after which what a frozen process had sent, requests and statements, has arrived."""
ROUNDED = 0.01
"""Seconds by which the times in a log are rounded."""
CLAIMS = "SELECT seq, attempts FROM webhook.outbox WHERE claim IS NOT NULL"
UNRECORDED = "SELECT seq, attempts FROM webhook.outbox WHERE seq = ANY($1)"


@dataclass(frozen=True, slots=True)
class Scale:
    """How long everything takes, in seconds; durations as settings have them where daemons read them."""

    lease: str
    attempt_timeout: str
    frozen: float
    between: float
    times: int
    longest_answer: float
    rate: float


SCALED = Scale("PT2S", "PT1S", frozen=3.2, between=0.6, times=3, longest_answer=0.3, rate=60.0)


@dataclass(slots=True)
class Freeze:
    """One freeze: what the daemon held when it froze, and when it woke.

    exposed: events of its lanes that had arrived and were not recorded: others repeat them, once each.
    retries: rows claimed for a retry whose attempt was not recorded though the others' attempts had ended.
    in_flight: events whose attempt it was making, by its log. Where this machine is slow, its leases may have
        lapsed before the database was asked what it held.
    """

    daemon: Daemon
    frozen_at: float
    held: frozenset[str]
    exposed: frozenset[str]
    retries: frozenset[int]
    in_flight: frozenset[str] = frozenset()
    woken_at: float = 0.0


@contextmanager
def frozen(daemon: Daemon) -> Iterator[None]:
    """Stop a process from running, and let it go on whatever happens."""
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


async def freeze(installation: Installation, daemon: Daemon, scale: Scale) -> Freeze:
    """Freeze a daemon for longer than its lease."""
    with frozen(daemon):
        frozen_at = time.monotonic()
        await asyncio.sleep(UNDER_WAY)
        held = await held_by(installation.owner, daemon)
        claims = await installation.owner.fetch(CLAIMS)
        arrived = [arrival for arrival in installation.receiver.arrivals if arrival.merchant_id in held]
        known = await fates(installation.admin)
        exposed = frozenset(
            arrival.event_id for arrival in arrived if known[arrival.event_id].state == "pending"
        )
        # The others' attempts have ended by then. Its own claims may have lapsed, where this machine is slow,
        # and others have claimed those rows anew: the attempt that it made is not recorded all the same.
        await asyncio.sleep(scale.longest_answer + UNDER_WAY)
        unrecorded = set(await installation.owner.fetch(UNRECORDED, [row["seq"] for row in claims]))
        retries = frozenset(row["seq"] for row in claims if row in unrecorded)
        await asyncio.sleep(frozen_at + scale.frozen - time.monotonic())
        result = Freeze(daemon, frozen_at, held, exposed, retries)
    result.woken_at = time.monotonic()
    return result


def in_flight(frozen: Freeze, to_wall_clock: float) -> frozenset[str]:
    """Return the events whose attempt a daemon had begun when it froze, and ended when it had woken."""
    frozen_at = frozen.frozen_at + to_wall_clock
    ended = {
        (entry["event_id"], datetime.fromisoformat(entry["at"]).timestamp(), entry["duration_ms"] / 1000)
        for entry in frozen.daemon.log("delivery.attempted")
    }
    return frozenset(event_id for event_id, at, took in ended if at - took - ROUNDED <= frozen_at <= at)


def uncounted(daemons: Iterable[Daemon]) -> Counter[str]:
    """Count by event the attempts that daemons sent, took for faults of their own, and made again."""
    return Counter(
        entry["event_id"]
        for daemon in daemons
        for entry in daemon.log("attempt.uncounted")
        if entry["detail"] != NOT_SENT.detail
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run showed: its freezes, what became of the events, and how often each was sent in vain.

    repeated: without what daemons did not count: on a machine that is slow they blame themselves.
    """

    freezes: Sequence[Freeze]
    known: Mapping[str, Fate]
    arrivals: Sequence[Arrival]
    repeated: Counter[str]

    def by_merchant(self) -> Counter[str]:
        """Count the repetitions by merchant."""
        tally: Counter[str] = Counter()
        for event_id, extra in self.repeated.items():
            tally[self.known[event_id].merchant_id] += extra
        return tally

    def allowed(self) -> Counter[str]:
        """Count what may be repeated by merchant: what was exposed, claimed retries, one request a lane."""
        tally: Counter[str] = Counter()
        of_row = {fate.seq: event_id for event_id, fate in self.known.items()}
        for frozen in self.freezes:
            tally.update(frozen.held)
            retries = {of_row[seq] for seq in frozen.retries}
            tally.update(
                self.known[event_id].merchant_id for event_id in frozen.exposed | frozen.in_flight | retries
            )
        return tally

    def late(self, frozen: Freeze, until: float) -> Counter[str]:
        """Count the first attempts by merchant that came after a daemon had woken and repeated something.

        What was in flight when it froze is repeated by others, once, and not always before it wakes.
        """
        before = {arrival.event_id for arrival in self.arrivals if arrival.started_at < frozen.woken_at}
        return Counter(
            arrival.merchant_id
            for arrival in self.arrivals
            if frozen.woken_at <= arrival.started_at < until
            and arrival.merchant_id in STEADY
            and arrival.event_id in before - frozen.exposed - frozen.in_flight
        )


def _show_all(freezes: Sequence[Freeze]) -> bool:
    """Tell whether first attempts and retries were in flight; on a busy machine that takes more freezes."""
    return any(frozen.exposed for frozen in freezes) and any(frozen.retries for frozen in freezes)


async def freeze_in_turn(installation: Installation, scale: Scale) -> Judged:
    """Freeze daemons one after the other under load, and judge what came of it."""
    await installation.configure(*STEADY, *FLAKY)
    slow = timedelta(seconds=scale.longest_answer)
    for number, merchant_id in enumerate(STEADY):
        installation.receiver.behave(merchant_id, Behaviour(delay=slow * (number % 5 + 1) / 5))
    for merchant_id in FLAKY:
        refuses = Behaviour(503, delay=slow)
        installation.receiver.behave(merchant_id, refuses, refuses, Behaviour(delay=slow), per_event=True)
    schedule = ",".join(["PT0.2S"] * 10)
    settings = {"LEASE": scale.lease, "ATTEMPT_TIMEOUT": scale.attempt_timeout, "RETRY_SCHEDULE": schedule}
    await start_daemons(installation, DAEMONS, **settings)
    backlog = await installation.emit_each(STEADY, 20)
    freezes = list[Freeze]()
    async with Load(installation.database.dsn("webhook_producer"), [*STEADY, *FLAKY], scale.rate) as load:
        while len(freezes) < scale.times or not _show_all(freezes):
            assert len(freezes) < 4 * scale.times, "nothing was in flight, or no retry: nothing was shown"
            await asyncio.sleep(scale.between)
            daemon = installation.daemons[len(freezes) % DAEMONS]
            freezes.append(await freeze(installation, daemon, scale))
        await asyncio.sleep(scale.between)
    known = await all_settled(installation.owner, PATIENCE)
    arrivals = installation.receiver.arrivals
    check_promises([*backlog, *load.sent], arrivals, known)
    to_wall_clock = time.time() - time.monotonic()
    for frozen in freezes:
        frozen.in_flight = in_flight(frozen, to_wall_clock)
    repeated = repetitions(arrivals, known) - uncounted(installation.daemons)
    return Judged(freezes, known, arrivals, repeated)


async def test_a_frozen_daemon_repeats_at_most_one_request_a_lane_and_overtakes_nobody(
    installation: Installation,
) -> None:
    judged = await freeze_in_turn(installation, SCALED)
    over = judged.by_merchant() - judged.allowed()
    assert not over, (over, judged.repeated)
    ends = [frozen.frozen_at for frozen in judged.freezes[1:]] + [float("inf")]
    for frozen, until in zip(judged.freezes, ends, strict=True):
        late = judged.late(frozen, until)
        assert late.keys() <= frozen.held
        assert set(late.values()) <= {1}
