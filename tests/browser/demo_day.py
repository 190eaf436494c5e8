"""A day of the demo's merchants, for pictures: hundreds of events that daemons delivered, put back in time.

What was attempted is what a daemon did; only the instants are moved, the nearer the more, as if the day had
been busier towards its end.
"""

import signal
from collections.abc import Mapping
from random import Random

from tests.acceptance.installation import Installation
from tests.acceptance.processes import Daemon
from tests.waiting import until_found
from webhook_dispatcher.cli.demo import cast
from webhook_dispatcher.local.producer import Producer, Written, write_one

EVENTS = 900
SCHEDULE = "PT15M,PT1H,PT3H,PT6H,PT12H"
"""Of what is still owed: nothing changes while pictures are taken."""
NEW = "florist"
"""A merchant whose events wait for an endpoint."""
QUICK = {
    "RETRY_SCHEDULE": cast.RETRY_SCHEDULE,
    "ATTEMPT_TIMEOUT": "PT1S",
    "LEASE": "PT6S",
    "LANE_RETRIES": "20",
}

MOVE_BACK = """
CREATE TEMPORARY TABLE moved AS
SELECT event_id, interval '23 hours' * power(1 - sum(gap) OVER (ORDER BY seq) / sum(gap) OVER (), 1.5) AS age
FROM (SELECT event_id, seq, -ln(1 - random()) AS gap FROM webhook.delivery_log) AS chance;
UPDATE webhook.delivery_log SET created_at = created_at - age, finished_at = finished_at - age
FROM moved WHERE moved.event_id = delivery_log.event_id;
UPDATE webhook.attempt_log SET started_at = started_at - age
FROM moved WHERE moved.event_id = attempt_log.event_id;
DELETE FROM webhook.attempts_by_minute;
INSERT INTO webhook.attempts_by_minute (minute, outcome, attempts)
SELECT date_trunc('minute', started_at), outcome, count(*) FROM webhook.attempt_log GROUP BY 1, 2;
DELETE FROM webhook.seq_by_minute;
INSERT INTO webhook.seq_by_minute (minute, seq)
SELECT date_trunc('minute', created_at), min(seq) FROM webhook.delivery_log GROUP BY 1;
"""


async def fill(installation: Installation) -> tuple[Daemon, Mapping[str, Written]]:
    """Have a day behind us, and things that go on; returns who works now, and each merchant's last event."""
    last: dict[str, Written] = {}

    def note(written: Written) -> None:
        last[written.merchant_id] = written

    for merchant in cast.MERCHANTS:
        await installation.configure(merchant.id)
        installation.receiver.behave(merchant.id, *merchant.behaviours, per_event=True)
    dsn = installation.database.dsn("webhook_producer")
    shares = {merchant.id: merchant.share * (10 if merchant.recovers else 1) for merchant in cast.MERCHANTS}
    daemon = await installation.start(**QUICK)
    await Producer(dsn, shares, on_written=note).run(EVENTS)
    await _nothing_is_owed(installation)
    daemon.terminate()
    await daemon.ended()
    await installation.owner.execute(MOVE_BACK)

    working = await installation.start(RETRY_SCHEDULE=SCHEDULE)
    await installation.do("pause", cast.PAUSED.id)
    random = Random(3)
    for merchant_id in (*[cast.FAILING.id] * 9, *[cast.PAUSED.id] * 4, NEW, cast.HEALTHY.id):
        note(await write_one(dsn, merchant_id, random))
    await installation.do("test_event", cast.HEALTHY.id)
    await installation.do("retry", event_id=last[cast.HANGING.id].id)
    return working, last


async def freeze_a_command(installation: Installation, working: Daemon) -> int:
    """Stop the daemon in its tracks while it carries out a long command; returns the command's number."""
    command = await installation.ask("recover", since="2020-01-01T00:00:00.000Z")

    async def is_under_way() -> bool:
        row = (
            "SELECT status = 'running' AND result['recovered']::int > 100 FROM webhook.control WHERE id = $1"
        )
        return bool(await installation.admin.fetchval(row, command))

    await until_found(is_under_way)
    working.process.send_signal(signal.SIGSTOP)
    return command


async def _nothing_is_owed(installation: Installation) -> None:
    async def is_empty() -> bool:
        return not await installation.owner.fetchval("SELECT count(*) FROM webhook.outbox")

    await until_found(is_empty, 120.0)
