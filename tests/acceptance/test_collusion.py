"""Merchants that fail alike, by design or on one host, stall nobody else and fool nobody. Source: I4, I10."""

from functools import partial

import pytest

from tests.acceptance.installation import Installation
from tests.waiting import until
from webhook_dispatcher.dispatch.health.suspicion import MAX_SUSPICION
from webhook_dispatcher.local.behaviour import Behaviour

HONEST = [f"honest-{number}" for number in range(5)]
COLLUDERS = [f"colluder-{number}" for number in range(20)]
ACCEPTED = 3
"""Events that each colluder accepts before it fails, so that it counts as one that works."""
ROUNDS = 10
MANY = 30
"""Events of each honest merchant that a probe a second over all of them could not deliver in time."""


async def conspire(installation: Installation, failing: Behaviour) -> None:
    """Give each merchant a network of its own, and have colluders accept something before they fail."""
    addresses = {
        merchant_id: f"127.0.{number + 3}.1" for number, merchant_id in enumerate(COLLUDERS + HONEST)
    }
    await installation.receiver.listen_at(*addresses.values())
    for merchant_id, address in addresses.items():
        await installation.configure(merchant_id, url=installation.receiver.url(merchant_id, address))
    for merchant_id in COLLUDERS:
        installation.receiver.behave(merchant_id, *[Behaviour()] * ACCEPTED, failing)
    await installation.start()
    await installation.emit_each(COLLUDERS, ACCEPTED)
    await installation.emit_each(HONEST, 1)
    await installation.all_delivered(ACCEPTED * len(COLLUDERS) + len(HONEST))


def has_delivered(installation: Installation, count: int) -> bool:
    """Tell whether each honest merchant has accepted so many events."""
    return all(sum(arrival.status == 200 for arrival in installation.receiver.of(m)) >= count for m in HONEST)


ANOTHER_FAILURE = pytest.mark.slow(
    "acceptance/test_collusion.py::test_merchants_that_fail_together_stall_nobody_else"
)


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(Behaviour(status=503), id="503", marks=ANOTHER_FAILURE),
        pytest.param(Behaviour(status=401), id="401"),
        pytest.param(Behaviour(disconnects=True), id="disconnected", marks=ANOTHER_FAILURE),
    ],
)
async def test_merchants_that_fail_together_stall_nobody_else(
    installation: Installation, failing: Behaviour
) -> None:
    await conspire(installation, failing)
    daemon = installation.daemons[0]
    await installation.emit_each(COLLUDERS, 5)
    if failing.disconnects:
        await daemon.logged("suspicion.began", 60)
    await installation.emit_each(HONEST, MANY)
    await until(partial(has_delivered, installation, 1 + MANY), MAX_SUSPICION / 2)
    for number in range(ROUNDS):
        arrived = len(installation.receiver.arrivals)
        await installation.emit_each(COLLUDERS, 5)
        await installation.arrived(arrived + 1, deadline=60)
        await installation.emit_each(HONEST, 1)
        await until(partial(has_delivered, installation, number + 2 + MANY), 60)
    honest = {
        str(row["event_id"])
        for row in await installation.admin.fetch(
            "SELECT event_id FROM webhook.deliveries WHERE merchant_id LIKE 'honest-%'"
        )
    }
    assert bool(daemon.log("suspicion.began")) is failing.disconnects, "an answer raises none"
    assert not honest & {entry["event_id"] for entry in daemon.log("attempt.uncounted")}
    assert daemon.log("fault.began") == [], "nothing is wrong on our side"
    assert (await daemon.asked("/readyz"))[0] == 200
