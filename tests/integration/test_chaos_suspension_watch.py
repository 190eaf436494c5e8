"""What the runner of chaos runs sees of suspensions, in lanes as they are."""

import time

import pytest

from lab.chaos.suspension_watch import SuspensionWatch
from tests.integration.storage_harness import StorageHarness

SUSPEND = "UPDATE webhook.lane SET suspended_at = clock_timestamp() WHERE merchant_id = 'm'"
LIFT = "UPDATE webhook.lane SET suspended_at = NULL WHERE merchant_id = 'm'"


async def test_each_suspension_is_seen_from_its_begin_to_the_first_look_after_it(
    storage: StorageHarness,
) -> None:
    watch = SuspensionWatch(storage.db.fetch)
    await storage.db.execute("INSERT INTO webhook.lane (merchant_id) VALUES ('m'), ('n')")
    await watch.look()
    assert watch.suspensions == []
    for statement in (SUSPEND, LIFT, SUSPEND):
        await storage.db.execute(statement)
        await watch.look()
        between = time.monotonic()
        await watch.look()
    over, lasting = watch.suspensions
    assert over.merchant_id == lasting.merchant_id == "m"
    assert over.ended is not None
    assert over.began < over.seen_until < over.ended < lasting.began + 0.1
    assert lasting.began == pytest.approx(between, abs=1)
    assert (lasting.seen_until > between, lasting.ended) == (True, None)
