"""The platform is told of what fails, by daemons that are killed meanwhile. Source: contract 1, notices."""

import json
from collections import Counter
from typing import Any

from tests.acceptance.installation import Installation
from tests.waiting import until, until_found
from webhook_dispatcher.domain.event import PLATFORM
from webhook_dispatcher.local.arrivals import Signature
from webhook_dispatcher.local.behaviour import Behaviour

ROUNDS = 4
QUICK = {"RETRY_SCHEDULE": "PT0.2S", "LEASE": "PT3S", "ATTEMPT_TIMEOUT": "PT1S"}
FAILS = Behaviour(status=500)
A_MINUTE_PASSES = "UPDATE webhook.unreported_failure SET finished_at = finished_at - interval '1 minute'"
HOURS_PASS = """
UPDATE webhook.lane SET failing_since = failing_since - interval '2 hours'
WHERE failing_since > clock_timestamp() - interval '1 hour'
"""
ALL_TOLD = """
SELECT
    NOT EXISTS (SELECT FROM webhook.unreported_failure)
    AND NOT EXISTS (SELECT FROM webhook.outbox)
"""


def told(installation: Installation, notice_type: str) -> list[dict[str, Any]]:
    """Return the notices of a type that have arrived, each once."""
    arrived = {
        arrival.event_id: json.loads(arrival.body)["data"]["object"]
        for arrival in installation.receiver.of(PLATFORM)
        if arrival.type == notice_type and arrival.status == 200
    }
    return list(arrived.values())


def merchants(installation: Installation, notice_type: str) -> list[str]:
    return sorted(notice["merchantId"] for notice in told(installation, notice_type))


async def fail_and_kill(installation: Installation) -> None:
    """Have deliveries fail and the time pass, and kill one of two daemons while it is at it."""
    failed = await installation.count("state = 'failed'")
    await installation.emit_each(["bad", "flaky", "good"], 15)

    async def some_failed() -> bool:
        return await installation.count("state = 'failed'") >= failed + 5

    await until_found(some_failed)
    await installation.owner.execute(A_MINUTE_PASSES)
    await installation.owner.execute(HOURS_PASS)
    installation.daemons[-2].kill()
    await installation.start(**QUICK)


async def test_every_failure_is_told_once_whoever_is_killed(installation: Installation) -> None:
    receiver = installation.receiver
    await installation.configure(PLATFORM, "bad", "flaky", "good")
    receiver.behave("bad", FAILS)
    receiver.behave("flaky", FAILS)
    receiver.behave(PLATFORM, FAILS, Behaviour(), per_event=True)
    for _ in range(2):
        await installation.start(**QUICK)
    for _ in range(ROUNDS):
        await fail_and_kill(installation)
    await until(lambda: merchants(installation, "endpoint.failing") == ["bad", "flaky"])

    receiver.behave("flaky", Behaviour())
    await installation.emit("flaky")
    await until(lambda: merchants(installation, "endpoint.recovered") == ["flaky"])

    async def all_told() -> bool:
        await installation.owner.execute(A_MINUTE_PASSES)
        return bool(await installation.owner.fetchval(ALL_TOLD))

    await until_found(all_told)
    rows = await installation.admin.fetch(
        "SELECT event_id, merchant_id FROM webhook.deliveries WHERE state = 'failed'"
    )
    counted = Counter[str]()
    for notice in told(installation, "delivery.failed"):
        counted[notice["merchantId"]] += notice["count"]
        assert notice["reasons"] == {"exhausted": notice["count"]}
        assert set(notice["eventIds"]) <= {str(row["event_id"]) for row in rows}
    assert counted == Counter(row["merchant_id"] for row in rows)
    assert counted["bad"] == ROUNDS * 15
    assert merchants(installation, "endpoint.failing") == ["bad", "flaky"]
    assert {arrival.signature for arrival in receiver.of(PLATFORM)} == {Signature.RIGHT}
