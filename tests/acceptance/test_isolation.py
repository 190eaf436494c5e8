"""What hangs costs nobody else: neither other merchants nor the same merchant's new events. Source: I4."""

from tests.acceptance.process import until
from tests.acceptance.world import Sent, World
from tests.waiting import Yardstick
from webhook_dispatcher.local.arrivals import Arrival
from webhook_dispatcher.local.behaviour import Behaviour

SAMPLES = 7
PROMPT = 0.1
LATEST = 1.0
"""Seconds. The best sample must be prompt and the worst not late: a busy machine may slow some of them down,
but one that waits for a hanging retry would be ten seconds late, and so would all."""


async def lag(world: World, event: Sent) -> float:
    """Wait for the first arrival of an event; return how long after its commit that was."""

    def first() -> Arrival | None:
        arrivals = world.receiver.of(event.merchant_id)
        return next((arrival for arrival in arrivals if arrival.event_id == str(event.id)), None)

    arrival = await until(first)
    return arrival.started_at - event.committed_at


def hanging(world: World, merchant_id: str) -> int:
    """Count a merchant's requests that have no answer yet."""
    return sum(arrival.ended_at is None for arrival in world.receiver.of(merchant_id))


async def test_new_events_do_not_wait_for_hanging_retries(world: World) -> None:
    await world.configure("m1")
    # Each event fails once and hangs for ever after.
    world.receiver.behave("m1", Behaviour(status=500), Behaviour(hangs=True), per_event=True)
    await world.start(RETRY_SCHEDULE="PT0.1S,PT1H")
    await world.emit_each(["m1"], 5)
    # Five first attempts; of five due retries two hang (LANE_RETRIES), for the whole ten seconds.
    await world.arrived(7)
    lags = []
    with Yardstick() as machine:
        for _ in range(SAMPLES):
            lags.append(await lag(world, await world.emit("m1")))
            assert hanging(world, "m1") == 2
    assert min(lags) < machine.allows(PROMPT), lags
    assert max(lags) < machine.allows(LATEST), lags


async def test_other_merchants_do_not_wait_for_those_that_hang(world: World) -> None:
    tarpits = [f"tarpit-{number}" for number in range(30)]
    await world.configure(*tarpits, "m1")
    for merchant_id in tarpits:
        world.receiver.behave(merchant_id, Behaviour(hangs=True))
    await world.start()
    await world.emit_each(tarpits, 3)
    await world.arrived(len(tarpits))
    lags = []
    with Yardstick() as machine:
        for _ in range(SAMPLES):
            lags.append(await lag(world, await world.emit("m1")))
            assert sum(hanging(world, merchant_id) for merchant_id in tarpits) == len(tarpits)
    assert min(lags) < machine.allows(PROMPT), lags
    assert max(lags) < machine.allows(LATEST), lags
