"""Control commands in a storm: right ones, useless ones and malformed ones."""

from collections.abc import Sequence
from uuid import UUID, uuid4

from lab.chaos.evidence import Repeats
from lab.chaos.faults.asking import PATIENCE, CommandRequest, ask, rejected, taken_up
from lab.chaos.hit import Hit
from lab.chaos.kinds import Track, fault
from lab.chaos.testbed import Testbed

KNOWN = """
(
    SELECT event_id, state FROM webhook.deliveries
    WHERE merchant_id = ANY($1) AND state = 'delivered' AND type <> 'webhook.test' ORDER BY seq DESC LIMIT 6
) UNION ALL (
    SELECT event_id, state FROM webhook.deliveries
    WHERE merchant_id = ANY($1) AND state <> 'delivered' AND type <> 'webhook.test' ORDER BY seq DESC LIMIT 10
)
"""
UNDELIVERED = (
    "SELECT event_id FROM webhook.deliveries "
    "WHERE merchant_id = $1 AND state <> 'delivered' AND type <> 'webhook.test'"
)
NONSENSE = (
    CommandRequest("dance"),
    CommandRequest("retry"),
    CommandRequest("retry", event_id=UUID(int=0)),
    CommandRequest("cancel"),
    CommandRequest("retry_failed"),
    CommandRequest("retry_failed", args={"since": "yesterday"}),
    CommandRequest("set_url", "nobody", args={"url": "https://hooks.example.com/"}),
    CommandRequest("test_event"),
    CommandRequest("test_event", "nobody"),
    CommandRequest("pause", "nobody"),
)


@fault("control commands in a storm", Track.OPERATORS, Repeats.NONE)
async def storm(testbed: Testbed, hit: Hit) -> None:
    """Ask for retries of whatever there is, cancel some, test endpoints, and talk nonsense in between."""
    with testbed.borrow(25) as merchants:
        hit.touches(merchants)
        requests = [
            *await _about_events(testbed, merchants),
            *await _mass_retry(testbed, merchants[:2]),
            *[CommandRequest("test_event", merchant_id) for merchant_id in merchants[3:5]],
            CommandRequest("set_url", merchants[0], args={"url": "ftp://nowhere/"}),
            CommandRequest("retry", event_id=uuid4()),
            *testbed.random.sample(NONSENSE, 3),
        ]
        testbed.random.shuffle(requests)
        ids = await ask(testbed, requests)
        await taken_up(testbed, ids)
        refused = len(await rejected(testbed, ids))
        hit.note = f"{len(ids)} commands, {refused} of them rejected"


async def _about_events(testbed: Testbed, merchants: Sequence[str]) -> list[CommandRequest]:
    """Choose events to retry or cancel."""
    requests = []
    for row in await testbed.server.fetch(KNOWN, merchants, patience=PATIENCE):
        event_id = row["event_id"]
        if row["state"] != "delivered" and testbed.random.random() < 0.3:
            requests.append(CommandRequest("cancel", event_id=event_id))
            continue
        for _ in range(testbed.random.choice((1, 1, 2))):
            args = {"force": True} if testbed.random.random() < 0.7 else {}
            requests.append(CommandRequest("retry", event_id=event_id, args=args))
    return requests


async def _mass_retry(testbed: Testbed, merchants: Sequence[str]) -> list[CommandRequest]:
    """Retry all that failed of a few merchants until now; the book knows before of what may be among it."""
    [row] = await testbed.server.fetch("SELECT clock_timestamp() AS now", patience=PATIENCE)
    until = row["now"].isoformat()
    for merchant_id in merchants:
        for known in await testbed.server.fetch(UNDELIVERED, merchant_id, patience=PATIENCE):
            testbed.book.by_hand[str(known["event_id"])] += 1
    return [CommandRequest("retry_failed", merchant_id, args={"until": until}) for merchant_id in merchants]
