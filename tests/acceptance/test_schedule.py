"""The schedule of retries, scaled down: eight attempts, then failed. Source: contract 2.2 to 2.4."""

from datetime import timedelta
from itertools import pairwise

from tests.acceptance.installation import Installation
from tests.waiting import Yardstick
from webhook_dispatcher.local.behaviour import Behaviour

DELAYS = (0.1, 0.3, 0.2, 0.5, 0.15, 0.4, 0.25)
SCHEDULE = ",".join(f"PT{delay}S" for delay in DELAYS)
SLOWNESS = timedelta(seconds=0.2)
PROMPTNESS = 1.0
"""Seconds within which a due retry starts (I8)."""
STATUSES = (500, 404, 410, 302, 503, 400, 304)
PATIENCE_ASKED = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"


async def test_eight_attempts_at_their_distances_then_failed_and_one_more_by_hand(
    installation: Installation,
) -> None:
    await installation.configure("m1")
    # Slow answers tell a delay counted from the end of an attempt from one counted from its start.
    slow = [Behaviour(status=status, delay=SLOWNESS) for status in STATUSES]
    installation.receiver.behave(
        "m1", *slow[:3], Behaviour(raw=PATIENCE_ASKED), *slow[3:], Behaviour(status=500)
    )
    await installation.start(RETRY_SCHEDULE=SCHEDULE)
    with Yardstick() as machine:
        event = await installation.emit("m1")
        failed = await installation.settled(event.id, "failed", 8)
    assert (failed["failed_reason"], failed["last_outcome"]) == ("exhausted", "status")
    assert failed["next_attempt_at"] is None

    arrivals = installation.receiver.of("m1")
    assert len(arrivals) == 8
    for delay, (before, after) in zip(DELAYS, pairwise(arrivals), strict=True):
        assert before.ended_at is not None
        assert delay <= after.started_at - before.ended_at < delay + machine.allows(PROMPTNESS)

    asked = await installation.do("retry", event_id=event.id)
    assert asked["status"] == "done"
    failed = await installation.settled(event.id, "failed", 9)
    assert failed["failed_reason"] == "exhausted"
    assert len(installation.receiver.of("m1")) == 9
    attempts = await installation.attempts(event.id)
    assert [attempt["attempt"] for attempt in attempts] == list(range(1, 10))
    assert [attempt["trigger"] for attempt in attempts] == ["schedule"] * 8 + ["manual"]
    assert [attempt["status"] for attempt in attempts] == [500, 404, 410, 429, 302, 503, 400, 304, 500]
    assert {attempt["outcome"] for attempt in attempts} == {"status"}
    assert all(attempt["duration_ms"] >= 200 for attempt in attempts[:3])
