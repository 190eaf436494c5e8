"""Commands that are given and taken back at once: each is withdrawn and without effect, or carried out."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from lab.chaos.evidence import Repeats
from lab.chaos.faults.asking import PATIENCE, CommandRequest, ask, ended, taken_up
from lab.chaos.hit import Hit
from lab.chaos.kinds import Track, fault
from lab.chaos.testbed import Testbed

GIVE = """
INSERT INTO webhook.control (command, merchant_id, event_id, args, requested_by) VALUES ($1, $2, $3, $4, $5)
RETURNING id
"""
WITHDRAW = "SELECT webhook.withdraw_command($1, 'operator')"
GIVEN = "SELECT id FROM webhook.control WHERE requested_by = $1"
SOME = """
(
    SELECT event_id, 'cancel' AS command FROM webhook.owed
    WHERE webhook.merchant_of(merchant_id) = ANY($1)
    ORDER BY random()
    LIMIT 4
) UNION ALL (
    SELECT event_id, 'retry' FROM webhook.finished
    WHERE merchant_id = ANY($1) AND type <> 'webhook.test' ORDER BY seq DESC LIMIT 4
)
"""
IN_FORCE = """
SELECT control.id
FROM webhook.control
LEFT JOIN webhook.lane ON webhook.merchant_of(lane.merchant_id) = control.merchant_id
LEFT JOIN webhook.endpoint ON webhook.merchant_of(endpoint.merchant_id) = control.merchant_id
WHERE
    control.requested_by = $1
    AND control.status = 'withdrawn'
    AND (
        control.result IS NOT NULL
        OR (control.command = 'pause' AND lane.paused)
        OR (control.command = 'set_url' AND endpoint.url = control.args ->> 'url')
    )
"""
PAUSED = """
SELECT merchant_id FROM webhook.control WHERE requested_by = $1 AND command = 'pause' AND status = 'done'
"""


@fault("commands given and withdrawn", Track.OPERATORS, Repeats.NONE)
async def withdraw(testbed: Testbed, hit: Hit) -> None:
    """Give commands of every sort, and take each back at once or a little later."""
    asker = f"operator {uuid4()}"
    with testbed.borrow(12) as merchants:
        hit.touches(merchants)
        requests = await _requests(testbed, merchants)
        testbed.random.shuffle(requests)
        try:
            await _give_and_withdraw(testbed, hit, requests, asker)
        finally:
            await _settle(testbed, asker)


async def _requests(testbed: Testbed, merchants: Sequence[str]) -> list[CommandRequest]:
    url = f"{testbed.url(merchants[0])}?withdrawn={testbed.random.randrange(10**6)}"
    known = await testbed.server.fetch(SOME, merchants, patience=PATIENCE)
    [row] = await testbed.server.fetch("SELECT clock_timestamp() AS now", patience=PATIENCE)
    before: dict[str, Any] = {"before": row["now"].isoformat()}
    return [
        CommandRequest("set_url", merchants[0], args={"url": url}),
        CommandRequest("test_event", merchants[1]),
        CommandRequest("recover", merchants[2], args={"states": ["delivered"]}),
        *(CommandRequest("skip", name, args=before) for name in merchants[3:6]),
        *(CommandRequest("pause", name) for name in merchants[6:9]),
        *(CommandRequest(row["command"], None, row["event_id"], _force(row["command"])) for row in known),
    ]


def _force(command: str) -> dict[str, Any]:
    return {"force": True} if command == "retry" else {}


async def _give_and_withdraw(
    testbed: Testbed, hit: Hit, requests: Sequence[CommandRequest], asker: str
) -> None:
    """Do it on one connection, or too much time would pass; the book has what the database says of each."""
    withdrawn = 0
    async with testbed.server.connect(patience=PATIENCE) as operator:
        for request in requests:
            about = request.command, request.merchant_id, request.event_id, json.dumps(request.args)
            command_id = await operator.fetchval(GIVE, *about, asker)
            await testbed.wait(testbed.random.choice((0.0, 0.0, 0.1, 0.25)))
            if await operator.fetchval(WITHDRAW, command_id):
                testbed.book.withdrawn.add(command_id)
                withdrawn += 1
            hit.note = f"{withdrawn} of {len(requests)} withdrawn in time"


async def _settle(testbed: Testbed, asker: str) -> None:
    """Wait until all have ended, see what is in force, and resume those whose pause was carried out."""
    ids = [row["id"] for row in await testbed.server.fetch(GIVEN, asker, patience=PATIENCE)]
    await taken_up(testbed, ids)
    await ended(testbed, ids, PATIENCE)
    rows = await testbed.server.fetch(IN_FORCE, asker, patience=PATIENCE)
    testbed.book.in_force.update(row["id"] for row in rows)
    rows = await testbed.server.fetch(PAUSED, asker, patience=PATIENCE)
    resumes = await ask(testbed, [CommandRequest("resume", row["merchant_id"]) for row in rows])
    await taken_up(testbed, resumes)
