"""A server that takes over and lacks what was committed in the last seconds, and what operators do then."""

from dataclasses import replace
from datetime import timedelta

from lab.chaos.evidence import Life, Repeats
from lab.chaos.faults.asking import PATIENCE, CommandRequest, ask
from lab.chaos.faults.hold import hold_over_all
from lab.chaos.faults.server import change
from lab.chaos.hit import Hit
from lab.chaos.kinds import Track, fault
from lab.chaos.labels import label_of
from lab.chaos.testbed import Testbed
from webhook_dispatcher.dispatch.attempt import ENDPOINT_WAIT

BEHIND = (0.3, 1.0, 2.0, 4.0)
"""Seconds by which the copy may be behind: leases last for two."""
LOOKED_AT = 10.0
"""Seconds after which daemons that lived through it have noted what is gone."""
GIVE_AGAIN = """
DO $$
BEGIN
    LOCK TABLE webhook.outbox IN EXCLUSIVE MODE;
    PERFORM setval(
        'webhook.outbox_seq_seq', (SELECT coalesce(max(seq), 0) + 1 FROM webhook.deliveries), false
    );
END
$$
"""
"""As after more numbers than the 32 that a server writes down ahead; nobody inserts meanwhile."""
PAUSED = """
SELECT webhook.merchant_of(merchant_id) AS merchant_id FROM webhook.lane WHERE paused
UNION
SELECT merchant_id FROM webhook.control
WHERE command = 'pause' AND status IN ('pending', 'running') AND merchant_id IS NOT NULL
"""
"""Whose pause is in force, or will be: the copy may have it as given and not as done."""
WITHDRAWN = "SELECT id FROM webhook.control WHERE id = ANY($1) AND status = 'withdrawn'"
THERE = "SELECT event_id FROM webhook.deliveries WHERE event_id = ANY($1::uuid[])"
LOST = 5_000
"""Numbers, at most, that what is lost had beyond those that were given when the copy was made."""
CONFIGURED = "SELECT merchant_id AS lane FROM webhook.endpoint"


@fault("failover with loss", Track.SURROUNDINGS, Repeats.EXPOSED)
async def fail_over(testbed: Testbed, hit: Hit) -> None:
    """Let a copy take over that is some seconds behind, and give the numbers of what is lost once more."""
    seconds = testbed.random.choice(BEHIND)
    forgets_from = await testbed.server.copy()
    await testbed.wait(seconds)
    hit.begins()
    hit.forgets_from = forgets_from
    hit.stops_all = True
    hit.strikes(*testbed.fleet.living())
    hit.note = f"{seconds:.1f} s lost"
    try:
        await testbed.server.crash()
        await hold_over_all(testbed, hit, testbed.random.uniform(0, 1))
    finally:
        await testbed.server.take_over()
    await change(testbed, GIVE_AGAIN)
    await _put_right(testbed, hit)
    hit.strikes(*testbed.fleet.living())
    hit.ends()
    await testbed.wait(LOOKED_AT)


async def _put_right(testbed: Testbed, hit: Hit) -> None:
    """Do what other faults had done to heal, as far as that is lost, and forget what they did and is lost.

    Who is paused just now for another fault is resumed a little early.
    """
    server, book = testbed.server, testbed.book
    given = await testbed.given()  # numbers that are lost are given again
    for name, lives in book.lives.items():
        book.lives[name] = [
            replace(one, removed_from=min(one.removed_from, given)) if one.removed_by < float("inf") else one
            for one in lives
        ]
    further = set(book.further(testbed.merchants))
    configured = {label_of(row["lane"]) for row in await server.fetch(CONFIGURED, patience=PATIENCE)}
    for merchant_id in set(testbed.merchants) - configured:
        hit.lingers = ENDPOINT_WAIT / timedelta(seconds=1)  # for retries that came due meanwhile
        await testbed.set_endpoint(merchant_id)
        book.gaps.setdefault(merchant_id, []).append(Life(0, 0, await testbed.given()))
    for name in further - configured:
        book.end(name, 0, await testbed.given() + LOST)  # all that it was told is lost
    await testbed.remove_endpoints(
        [name for name in book.lives if name in configured and name not in further]
    )
    paused = [row["merchant_id"] for row in await server.fetch(PAUSED, patience=PATIENCE)]
    await ask(testbed, [CommandRequest("resume", merchant_id) for merchant_id in (None, *paused)])
    for ids in (book.withdrawn, book.in_force):
        known = list(ids)
        ids.clear()
        ids.update(row["id"] for row in await server.fetch(WITHDRAWN, known, patience=PATIENCE))
    rows = await server.fetch(THERE, list(book.deleted), patience=PATIENCE)
    book.deleted -= {str(row["event_id"]) for row in rows}
