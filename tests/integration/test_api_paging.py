"""Pages of deliveries that are walked while everything moves: what was there at page one is seen once."""

import os
import random
import re
from datetime import timedelta
from pathlib import Path

import pytest

from tests.integration.api_harness import api_pool, token_of
from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.api.operations.cursors import CursorRefused, Cursors, Listing
from webhook_dispatcher.storage.api.deliveries import NEWEST, Deliveries, Filter

EVENTS = 60
WALKS = 25 if "MODEL_EXAMPLES" in os.environ else 6
SEQS = "SELECT seq FROM webhook.deliveries WHERE merchant_id = 'm' ORDER BY seq DESC"
REOPEN = """
WITH moved AS (DELETE FROM webhook.delivery_log WHERE seq = $1 RETURNING *)
INSERT INTO webhook.outbox (seq, id, merchant_id, type, created_at, object, attempts, due_at)
OVERRIDING SYSTEM VALUE
SELECT seq, event_id, merchant_id, type, created_at, object, attempts, clock_timestamp() FROM moved
"""
POSTPONE = "UPDATE webhook.outbox SET due_at = clock_timestamp(), attempts = attempts + 1 WHERE seq = $1"
DROP = "DELETE FROM webhook.delivery_log WHERE finished_at < clock_timestamp() - interval '12 hours'"
"""As dropping a partition does: what was finished first is gone."""
KEY = "SELECT key FROM webhook.cursor_key"
OPERATIONS = Path(__file__).parents[2] / "docs" / "operate" / "partner-api.md"


async def _change(storage: StorageHarness, chance: random.Random) -> None:
    """Do something of what goes on beside: events arrive, fail, are finished, sent again, and dropped."""
    seqs = [row["seq"] for row in await storage.db.fetch(SEQS)]
    chosen = chance.sample(seqs, min(len(seqs), 12))
    for seq in chosen:
        match chance.randrange(5):
            case 0:
                await storage.insert(chance.choice(["m", "other"]))
            case 1:
                await storage.db.execute(POSTPONE, seq)
            case 2:
                await storage.db.execute(REOPEN, seq)
            case 3:
                await storage.finish(seq, state="failed", ago=timedelta(hours=chance.choice([0, 0, 0, 13])))
            case _:
                await storage.finish(seq)
    if chance.random() < 0.2:
        await storage.db.execute(DROP)


@pytest.mark.parametrize("seed", range(WALKS))
async def test_nothing_that_was_there_at_page_one_is_skipped_or_repeated(
    storage: StorageHarness, seed: int
) -> None:
    chance = random.Random(seed)
    token_hash = await token_of(storage.db, "m")
    await storage.insert("m", *["{}"] * EVENTS)
    listing = Listing("listDeliveries", "m", {})
    async with api_pool(storage.database) as pool:
        cursors = Cursors(await pool.fetchval(KEY))
        deliveries = Deliveries(pool)
        there = {row["seq"] for row in await storage.db.fetch(SEQS)}
        seen, cursor = list[int](), cursors.make(listing, NEWEST)
        while cursor:
            position = cursors.position(listing, cursor)
            page = await deliveries.list(token_hash, Filter(), position, chance.randint(1, 20))
            seen += [delivery.seq for delivery in page.deliveries]
            cursor = "" if page.position is None else cursors.make(listing, page.position)
            await _change(storage, chance)
    still_there = {row["seq"] for row in await storage.db.fetch(SEQS)}
    assert seen == sorted(set(seen), reverse=True), "none twice, and in order"
    assert there & still_there <= set(seen), "none skipped"


async def test_the_key_is_replaced_as_operators_are_told(storage: StorageHarness) -> None:
    before = await storage.db.fetchval(KEY)
    statements = re.search(r"```sql\n(SET ROLE [^`]+cursor_key[^`]+)```", OPERATIONS.read_text())
    assert statements
    await storage.db.execute(statements[1] + "RESET ROLE")
    after = await storage.db.fetchval(KEY)
    assert (len(after), after == before) == (32, False)
    listing = Listing("listDeliveries", "m", {})
    with pytest.raises(CursorRefused, match="begin again without it"):
        Cursors(after).position(listing, Cursors(before).make(listing, 7))
    assert Cursors(after).position(listing, Cursors(after).make(listing, 7)) == 7
