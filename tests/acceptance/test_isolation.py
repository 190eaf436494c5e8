"""Retries that hang do not hold up the new events of the same merchant. Source: I4."""

from tests.acceptance.installation import Installation, Sent
from tests.waiting import Yardstick, until
from webhook_dispatcher.local.arrivals import Arrival
from webhook_dispatcher.local.behaviour import Behaviour

SAMPLES = 7
PROMPT = 0.1
LATEST = 1.0
"""Seconds. The best sample must be prompt and the worst not late: a busy machine may slow some of them down,
but one that waits for a hanging retry would be ten seconds late, and so would all."""


async def lag(installation: Installation, event: Sent) -> float:
    """Wait for the first arrival of an event; return how long after its commit that was."""

    def first() -> Arrival | None:
        arrivals = installation.receiver.of(event.merchant_id)
        return next((arrival for arrival in arrivals if arrival.event_id == str(event.id)), None)

    arrival = await until(first)
    return arrival.started_at - event.committed_at


def hanging(installation: Installation, merchant_id: str) -> int:
    """Count a merchant's requests that have no answer yet."""
    return sum(arrival.ended_at is None for arrival in installation.receiver.of(merchant_id))


async def test_new_events_do_not_wait_for_hanging_retries(installation: Installation) -> None:
    await installation.configure("m1")
    # Each event fails once and hangs for ever after.
    installation.receiver.behave("m1", Behaviour(status=500), Behaviour(hangs=True), per_event=True)
    await installation.start(RETRY_SCHEDULE="PT0.1S,PT1H")
    await installation.emit_each(["m1"], 5)
    # Five first attempts; of five due retries two hang (LANE_RETRIES), for the whole ten seconds.
    await installation.arrived(7)
    lags = []
    with Yardstick() as machine:
        for _ in range(SAMPLES):
            lags.append(await lag(installation, await installation.emit("m1")))
            assert hanging(installation, "m1") == 2
    assert min(lags) < machine.allows(PROMPT), lags
    assert max(lags) < machine.allows(LATEST), lags
