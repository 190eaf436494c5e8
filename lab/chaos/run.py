"""One run: load and faults for so many minutes, then peace until all is finished, then the evidence."""

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import asyncpg

from lab.chaos import routes
from lab.chaos.clock import put_right
from lab.chaos.control import done, read_commands
from lab.chaos.daemon_logs import given_up, unheard
from lab.chaos.evidence import Attempted, Delivery, Evidence, Limits, NoticeRow
from lab.chaos.kinds import Kind
from lab.chaos.labels import label, label_of
from lab.chaos.scheduler import Scheduler
from lab.chaos.suspension_watch import SuspensionWatch
from lab.chaos.testbed import Scale, Testbed
from webhook_dispatcher.domain.command import CommandName
from webhook_dispatcher.domain.event import PLATFORM
from webhook_dispatcher.local.arrivals import read_log

SWEEP = 1.0
"""Seconds between two sweeps of a daemon."""
WRITERS = 5
PEACE = 30.0
"""Seconds for which nothing may be finished, once nothing stands in the way, before we stop waiting."""
A_MINUTE = 65.0
"""Seconds after which failures of a minute are told, at the latest."""
_OWED = """
SELECT
    (SELECT count(*) FROM webhook.outbox)
    + (SELECT count(*) FROM webhook.control WHERE status IN ('pending', 'running'))
    + (SELECT count(*) FROM webhook.lane WHERE last_success_at > least(reported_failing_since, suspended_at))
    AS owed,
    (SELECT count(*) FROM webhook.unreported_failure) AS untold
"""
_NOTICES = (
    "SELECT event_id, type, state, object::text AS object FROM webhook.deliveries WHERE merchant_id = $1"
)
_DELIVERIES = """
SELECT coalesce(copy_of, event_id) AS event_id, endpoint, state, failed_reason, attempts,
    extract(epoch FROM created_at)::float8 AS created_at,
    extract(epoch FROM finished_at)::float8 AS finished_at
FROM webhook.deliveries
"""
_ATTEMPTS = """
SELECT event_id, endpoint, attempt, trigger, extract(epoch FROM started_at)::float8 AS started_at,
    duration_ms / 1000.0::float8 AS duration, status, outcome,
    coalesce(outcome = 'dns' OR reason LIKE '%(resolving the name)', false) AS is_unresolved
FROM webhook.attempts ORDER BY started_at
"""
_ROUTED = "SELECT event_id FROM webhook.logged WHERE state IS NULL AND copy_of IS NULL"
_PLACES = (
    "SELECT copy_of, min(seq) AS place FROM webhook.deliveries WHERE copy_of IS NOT NULL GROUP BY copy_of"
)
_ENDPOINTS = "SELECT id, merchant_id AS lane FROM webhook.endpoint"
_TRACED = "SELECT event_id FROM webhook.lost_event"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gives: the evidence, what it noticed itself, and which kinds could not be brought about.

    server: which Postgres it ran on.
    """

    evidence: Evidence
    server: str
    complaints: list[str]
    missed: dict[str, int]
    left_out: list[str]


async def run(
    testbed: Testbed,
    wanted: Sequence[Kind],
    seconds: float,
    tell: Callable[[str], None],
    first: Sequence[Kind] = (),
) -> Outcome:
    """Run for so long, plus what it takes to come to rest. first: kinds that come first, and do come."""
    began = time.monotonic()
    async with testbed.entered():
        kinds = [kind for kind in wanted if _is_possible(kind, testbed)]
        server = await testbed.server.describe()  # before any fault could end its session
        scheduler = Scheduler(testbed, kinds, tell, first)
        watching = asyncio.create_task(testbed.fleet.watch())
        beating = asyncio.create_task(testbed.heartbeat.run())
        watch = SuspensionWatch(testbed.server.fetch)
        looking = asyncio.create_task(watch.run())
        writing = asyncio.create_task(testbed.writers.run(WRITERS, testbed.stopped))
        faults = asyncio.create_task(scheduler.run())
        tell(f"{len(kinds)} kinds of fault, {len(testbed.merchants)} merchants, {server}")
        try:
            lasting = asyncio.create_task(_last(seconds, scheduler))
            await asyncio.wait([watching, writing, faults, lasting], return_when=asyncio.FIRST_COMPLETED)
            lasting.cancel()
        finally:
            testbed.stopped.set()
        await asyncio.gather(writing, faults)
        tell("peace")
        if testbed.scale.has_notices:
            testbed.accept_everywhere()
        await _come_to_rest(testbed, tell)
        for task in (watching, beating, looking):
            task.cancel()
        ended = time.monotonic()
        evidence = await _collect(testbed, scheduler, began, ended)
    arrivals = read_log(testbed.arrivals_file)
    evidence = replace(evidence, arrivals=arrivals, suspensions=watch.suspensions)
    if testbed.scale.has_clock:
        evidence = put_right(evidence)
    evidence = routes.spread(evidence)
    left_out = [kind.name for kind in wanted if not _is_possible(kind, testbed)]
    complaints = testbed.book.complaints + testbed.fleet.deaths
    return Outcome(evidence, server, complaints, dict(scheduler.missed), left_out)


async def _last(seconds: float, scheduler: Scheduler) -> None:
    """Wait for so long, and until what comes first has come, which a busy machine does later."""
    await asyncio.sleep(seconds)
    await scheduler.first_have_begun.wait()


def _is_possible(kind: Kind, testbed: Testbed) -> bool:
    offered = {
        "": True,
        "mount": testbed.server.can_mount,
        "resolv.conf": testbed.resolv_conf is not None,
        "suspension": testbed.scale.has_notices,
        "clock": testbed.scale.has_clock,
    }
    return offered[kind.needs]


async def _come_to_rest(testbed: Testbed, tell: Callable[[str], None]) -> None:
    """Wait until nothing is owed any more, as long as it becomes less; what is left is for the judge."""
    least, ends = sys.maxsize, 0.0
    connection = await asyncpg.connect(testbed.server.dsn("postgres"))
    try:
        while sum(left := (await connection.fetch(_OWED))[0]):
            if sum(left) < least:
                least = sum(left)
                ends = time.monotonic() + (A_MINUTE if left["untold"] else PEACE)
            elif time.monotonic() > ends:
                break
            await asyncio.sleep(0.2)
        tell(f"{left['owed']} events and commands owed, {left['untold']} failures to be told")
    finally:
        await connection.close()


async def _collect(testbed: Testbed, scheduler: Scheduler, began: float, ended: float) -> Evidence:
    connection = await asyncpg.connect(testbed.server.dsn("postgres"))
    try:
        # One machine, one clock: the database's time is ours.
        to_monotonic = time.monotonic() - time.time()
        events, absent = await testbed.writers.committed(connection)
        delivery_ids = routes.derived([*events, *absent], testbed.book.lives)
        attempts: defaultdict[str, list[Attempted]] = defaultdict(list)
        for row in await connection.fetch(_ATTEMPTS):
            event_id = str(row["event_id"])
            attempts[delivery_ids.get(event_id) or label(event_id, row["endpoint"])].append(
                Attempted(
                    attempt=row["attempt"],
                    trigger=row["trigger"],
                    started_at=row["started_at"] + to_monotonic,
                    duration=float(row["duration"]),
                    status=row["status"],
                    outcome=row["outcome"],
                    is_unresolved=row["is_unresolved"],
                )
            )
        deliveries = {
            (event_id := label(str(row["event_id"]), row["endpoint"])): Delivery(
                row["state"],
                row["failed_reason"],
                row["attempts"],
                tuple(attempts[event_id]),
                created_at=row["created_at"] + to_monotonic,
                finished_at=None if row["finished_at"] is None else row["finished_at"] + to_monotonic,
            )
            for row in await connection.fetch(_DELIVERIES)
        }
        routed = {str(row["event_id"]) for row in await connection.fetch(_ROUTED)}
        places = {str(row["copy_of"]): row["place"] for row in await connection.fetch(_PLACES)}
        endpoint_ids = {str(row["id"]): label_of(row["lane"]) for row in await connection.fetch(_ENDPOINTS)}
        traced = {str(row["event_id"]) for row in await connection.fetch(_TRACED)}
        commands = await read_commands(connection, to_monotonic)
        notices = [
            NoticeRow(str(row["event_id"]), row["type"], row["state"], row["object"])
            for row in await connection.fetch(_NOTICES, PLATFORM)
        ]
    finally:
        await connection.close()
    book, scale = testbed.book, testbed.scale
    return Evidence(
        seed=testbed.seed,
        began=began,
        ended=ended,
        limits=_limits(scale),
        events=events,
        deliveries=deliveries,
        arrivals=[],
        injections=sorted(scheduler.injections, key=lambda injection: injection.began),
        deleted={name: tuple(attempts[name]) for name in routes.may_be(book.deleted, delivery_ids)},
        cancelled=done(commands, CommandName.CANCEL).keys(),
        by_hand=book.by_hand + done(commands, CommandName.RETRY),
        unconfigured=frozenset(book.unconfigured),
        filters=book.filters,
        delivery_ids=delivery_ids,
        routed=routed,
        places=places,
        lives=book.lives,
        gaps=book.gaps,
        by_charge=book.by_charge,
        endpoint_ids=book.endpoint_ids | endpoint_ids,
        commands=commands,
        withdrawn=frozenset(book.withdrawn),
        in_force=frozenset(book.in_force),
        notices=notices,
        absent=absent,
        traced=traced,
        unheard=unheard(testbed.folder, {event.id for event in absent} - traced, delivery_ids),
        given_up={
            event_id: at + to_monotonic for event_id, at in given_up(testbed.folder, delivery_ids).items()
        },
        to_monotonic=to_monotonic,
    )


def _limits(scale: Scale) -> Limits:
    limits = Limits(scale.lease, scale.attempt_timeout, SWEEP, len(scale.schedule) + 1, tuple(scale.schedule))
    if not scale.has_notices:
        return limits
    return replace(
        limits,
        failing_after=scale.failing_after,
        suspend_after=scale.suspend_after,
        suspension_interval=scale.suspension_interval,
    )
