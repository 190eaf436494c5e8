"""More merchants hang than a daemon serves at once, or masses are retried: others do not wait. Source: I4."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.acceptance.installation import Installation, Sent
from tests.acceptance.load import Load
from tests.waiting import Yardstick, until, until_found
from webhook_dispatcher.local.arrivals import Arrival
from webhook_dispatcher.local.behaviour import Behaviour

LANES = 40
TARPITS = [f"tarpit-{number}" for number in range(60)]
HEALTHY = [f"m-{number}" for number in range(40)]
REFUSERS = HEALTHY[::2]
"""Healthy ones that refuse each event once. Were it nearly all, it would be taken for a fault of our own."""
RATE = 20.0
SAMPLES = 100
LATEST = 1.0
FEW = 3
"""A busy machine may make so many of the samples late; behind those that hang, half of them or all are."""
TIMEOUT = "PT2S"
REFUSED_ONCE = Behaviour(status=500), Behaviour()
RETRIED_AFTER = 0.1
RETRIES = "PT0.1S," * 9 + "PT1H"
MASS = 10_000
UNHURRIED = timedelta(seconds=0.6)
"""How long merchants take to answer to whom masses are sent again: 200 places serve 333 of them a second."""
CHUNKS_WAITING = 300
"""Most rows that a mass retry may have made owed at any moment: two chunks, and what came between."""
FAILED = """
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at
)
SELECT
    nextval('webhook.outbox_seq_seq'), gen_random_uuid(), $1::text || number % $2, 'charge.created',
    clock_timestamp(), '{}', 'failed', 'exhausted', 8, clock_timestamp()
FROM generate_series(1, $3) AS number
"""


async def trickle(installation: Installation, count: int = SAMPLES) -> list[Sent]:
    """Write events of healthy merchants at a steady pace."""
    async with Load(installation.database.dsn("webhook_producer"), HEALTHY, RATE) as load:
        await until(lambda: len(load.sent) >= count)
    return load.sent


def requests(installation: Installation, events: Sequence[Sent], each: int) -> list[list[Arrival]] | None:
    """Return each event's requests, once there are so many of them all."""
    found: dict[str, list[Arrival]] = {str(event.id): [] for event in events}
    for arrival in installation.receiver.arrivals:
        if arrival.event_id in found:
            found[arrival.event_id].append(arrival)
    return list(found.values()) if min(map(len, found.values())) >= each else None


async def lags(installation: Installation, events: Sequence[Sent]) -> list[float]:
    """Wait until all have arrived; return the seconds from their commits."""
    arrived = await until(lambda: requests(installation, events, 1))
    return [of_one[0].started_at - event.committed_at for event, of_one in zip(events, arrived, strict=True)]


async def retry_lags(installation: Installation, events: Sequence[Sent]) -> list[float]:
    """Wait until all that were refused were retried; return how much later than due that was."""
    refused = [event for event in events if event.merchant_id in REFUSERS]
    arrived = await until(lambda: requests(installation, refused, 2))
    return [
        retry.started_at - (first.ended_at or first.started_at) - RETRIED_AFTER
        for first, retry, *_ in arrived
    ]


def late(waits: Sequence[float], machine: Yardstick) -> int:
    """Count those that took longer than they may."""
    return sum(wait >= machine.allows(LATEST) for wait in waits)


def hanging(installation: Installation) -> int:
    return sum(arrival.ended_at is None for arrival in installation.receiver.arrivals)


def all_have_timed_out(installation: Installation) -> bool:
    """Tell whether each of those that hang is known to: its first time is over."""
    ended = {
        arrival.merchant_id
        for arrival in installation.receiver.arrivals
        if arrival.ended_at and not arrival.status
    }
    return ended >= set(TARPITS)


async def gauge(installation: Installation, name: str) -> float:
    _, text = await installation.daemons[0].asked("/metrics")
    [line] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


async def test_new_events_do_not_wait_for_more_merchants_than_lanes_that_hang(
    installation: Installation,
) -> None:
    await installation.configure(*TARPITS, *HEALTHY)
    for merchant_id in TARPITS:
        installation.receiver.behave(merchant_id, Behaviour(hangs=True))
    await installation.start(MAX_LANES=str(LANES), ATTEMPT_TIMEOUT=TIMEOUT)
    await installation.emit_each(HEALTHY, 1)
    await installation.all_delivered(len(HEALTHY))
    await installation.emit_each(TARPITS, 20)
    await until(lambda: all_have_timed_out(installation))
    with Yardstick() as machine:
        found = await lags(installation, await trickle(installation))
    assert late(found, machine) <= FEW, sorted(found)[-9:]
    assert hanging(installation) >= LANES // 4
    assert await gauge(installation, "webhook_suspect_lanes") <= LANES // 2
    assert len(installation.receiver.of(TARPITS[0])) > 1, "they have their turns, too"


async def test_retries_do_not_wait_for_more_retries_than_places_that_hang(installation: Installation) -> None:
    await installation.configure(*TARPITS, *HEALTHY)
    for merchant_id in TARPITS:
        installation.receiver.behave(
            merchant_id, Behaviour(status=500), Behaviour(hangs=True), per_event=True
        )
    for merchant_id in REFUSERS:
        installation.receiver.behave(merchant_id, *REFUSED_ONCE, per_event=True)
    settings = {"MAX_LANES": str(LANES), "ATTEMPT_TIMEOUT": TIMEOUT, "LANE_RETRIES": "1"}
    await installation.start(**settings, RETRY_SCHEDULE=RETRIES)
    await installation.emit_each(TARPITS, 3)
    await until(lambda: all_have_timed_out(installation))
    with Yardstick() as machine:
        events = await trickle(installation)
        found = await retry_lags(installation, events)
    assert late(found, machine) <= FEW, sorted(found)[-9:]
    assert hanging(installation) >= LANES // 4


FOR_EACH = pytest.mark.slow(
    "acceptance/test_bulkhead.py::test_a_mass_retry_delays_neither_new_events_nor_scheduled_retries"
)


@pytest.mark.parametrize("merchants", [1, pytest.param(1000, marks=FOR_EACH)])
async def test_a_mass_retry_delays_neither_new_events_nor_scheduled_retries(
    installation: Installation, merchants: int
) -> None:
    await installation.configure(*HEALTHY, *[f"mass-{number}" for number in range(merchants)])
    for merchant_id in REFUSERS:
        installation.receiver.behave(merchant_id, *REFUSED_ONCE, per_event=True)
    for number in range(merchants):
        installation.receiver.behave(f"mass-{number}", Behaviour(delay=UNHURRIED))
    await installation.owner.execute(FAILED, "mass-", merchants, MASS)
    await installation.start(MAX_LANES="200", RETRY_SCHEDULE="PT0.1S,PT1H")
    command = await installation.ask("retry_failed", since="2020-01-01T00:00:00Z")

    async def progress() -> int:
        return int(
            await installation.admin.fetchval(
                "SELECT coalesce((result ->> 'retried')::int, 0) FROM webhook.control WHERE id = $1", command
            )
        )

    await until_found(progress)
    with Yardstick() as machine:
        events = await trickle(installation)
        new, retried = await lags(installation, events), await retry_lags(installation, events)
    waiting = await installation.count("state = 'pending_retry' AND attempts = 8")
    retries = await progress()
    assert late(new, machine) <= FEW, sorted(new)[-9:]
    assert late(retried, machine) <= FEW, sorted(retried)[-9:]
    assert 0 < retries < MASS, "it went on all the while"
    # One merchant has two places; what it cannot take yet is made due all the same, after a while.
    assert merchants == 1 or waiting <= CHUNKS_WAITING
