"""A dead merchant is suspended, tried once an interval, and comes back. Source: contract 2.8."""

import asyncio

import pytest

from tests.acceptance.installation import Installation, Sent
from tests.acceptance.processes import Daemon
from tests.servers.scaled_time import FACTOR
from tests.waiting import until_found
from webhook_dispatcher.local.behaviour import Behaviour

pytestmark = pytest.mark.scaled_time
AFTER, INTERVAL = 2, 3
IMPATIENT = ("tests.acceptance.impatient", f"PT{AFTER}S", f"PT{INTERVAL}S")
SCHEDULE = "PT1S,PT1S,PT1S,PT1H"
DEAD = Behaviour(status=503)
PATIENCE = 60.0
SUSPENDED_AT = "SELECT suspended_at FROM webhook.endpoints WHERE merchant_id = $1"


async def start(installation: Installation) -> Daemon:
    """Start a daemon that suspends after seconds; attempts have three of this test's."""
    daemon = installation.spawn(IMPATIENT, RETRY_SCHEDULE=SCHEDULE, ATTEMPT_TIMEOUT="PT30S", LEASE="PT40S")
    await daemon.logged("daemon.started")
    return daemon


async def suspend(installation: Installation, merchant: str) -> list[Sent]:
    """Let a merchant be dead until it is suspended; return its events."""
    installation.receiver.behave(merchant, DEAD)
    sent: list[Sent] = []

    async def is_suspended() -> object:
        sent.append(await installation.emit(merchant))
        await asyncio.sleep(0.05)
        return await installation.owner.fetchval(SUSPENDED_AT, merchant)

    await until_found(is_suspended, PATIENCE)
    # What was in flight by then has ended.
    await until_found(lambda: installation.has_no_leases(), PATIENCE)
    return sent


def first_attempts(installation: Installation, merchant: str) -> list[str]:
    return list(dict.fromkeys(arrival.event_id for arrival in installation.receiver.of(merchant)))


async def test_a_dead_merchant_is_tried_once_an_interval_and_comes_back_with_everything_in_order(
    installation: Installation,
) -> None:
    await installation.configure("dead", "fine")
    await start(installation)
    await start(installation)
    sent = await suspend(installation, "dead")
    sent += await installation.emit_each(["dead"], 30)
    before = len(installation.receiver.of("dead"))
    fine = [await installation.emit("fine") for _ in range(20)]
    tries = await installation.arrived(before + 4, "dead", PATIENCE)
    # Each may be late on a busy machine; were there two in an interval, three would take one and a half.
    took = tries[before + 3].started_at - tries[before].started_at
    assert took * FACTOR > 2 * INTERVAL, "two daemons, one try an interval"
    for event in fine:
        await installation.settled(event.id, "delivered", 1)

    rejected = await installation.do("retry", event_id=sent[0].id)
    assert (rejected["status"], rejected["error_code"]) == ("rejected", -14004)
    said = installation.command("explain", str(sent[-1].id)).stdout
    assert "dead is suspended since" in said
    assert "suspended" in installation.command("status").stdout
    assert "suspended" in installation.command("merchants").stdout
    assert "suspended_at" in installation.command("endpoint", "list").stdout
    assert "dead since" in installation.command("check").stdout

    installation.receiver.behave("dead", Behaviour())
    waiting = await installation.count("merchant_id = 'dead' AND state = 'pending'")
    assert waiting > 0
    await until_found(lambda: is_over(installation, "dead"), PATIENCE)
    assert first_attempts(installation, "dead") == [str(event.id) for event in sent], "in order"
    assert await installation.owner.fetchval(SUSPENDED_AT, "dead") is None


async def is_over(installation: Installation, merchant: str) -> bool:
    """Tell whether nothing of a merchant waits for its first attempt, and what had failed was retried."""
    owed = "state IN ('pending', 'pending_retry') AND (next_attempt_at IS NULL OR next_attempt_at < now())"
    return not await installation.count(f"merchant_id = '{merchant}' AND {owed}")
