"""Which events that were sent are not in the database, and what is said of them."""

from datetime import timedelta
from uuid import UUID, uuid4

from tests.integration.storage_harness import LEASE, Daemon, StorageHarness, answered
from webhook_dispatcher.domain.record import LaneTurn, Sent
from webhook_dispatcher.domain.status import LostEvent
from webhook_dispatcher.storage import lost
from webhook_dispatcher.storage.heartbeats import forget_noted


async def test_what_is_owed_or_finished_here_is_not_lost(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert("m", "{}", "{}")
    now = await storage.now()
    lease, (finished, owed) = await here.claim("m")
    turn = LaneTurn(lease, True, finished.seq)
    await here.records.write([answered(finished, lease.epoch, now, 200)], [turn], LEASE)
    gone = Sent(uuid4(), "m", 3, now, True)
    of_other = Sent(owed.id, "other", owed.seq, now, False)
    here_too = [Sent(event.id, "m", event.seq, now, True) for event in (finished, owed)]

    assert await lost.read(here.pool) is None
    assert await lost.note(here.pool, [*here_too, gone, of_other]) == 2
    assert await lost.note(here.pool, [*here_too, gone, of_other]) == 0, "once"
    assert await lost.note(here.pool, []) == 0
    found = await lost.read(here.pool)
    assert found is not None
    assert (found.events, found.merchants, found.first_seq, found.last_seq) == (2, 2, owed.seq, 3)
    assert found.is_recent
    assert await lost.find(here.pool, finished.id) is None
    assert await _found(here, gone.event_id) == ("m", now, True)
    assert await _found(here, owed.id) == ("other", now, False)


async def _found(here: Daemon, event_id: UUID) -> tuple[object, ...] | None:
    found: LostEvent | None = await lost.find(here.pool, event_id)
    return None if found is None else (found.merchant_id, found.sent_at, found.is_delivered)


async def test_it_is_news_for_a_day_and_kept_as_long_as_the_log(
    storage: StorageHarness, here: Daemon
) -> None:
    await lost.note(here.pool, [Sent(uuid4(), "m", 3, await storage.now(), True)])
    later = "UPDATE webhook.lost_event SET noted_at = noted_at - interval '1 day'"
    await storage.db.execute(later)
    found = await lost.read(here.pool)
    assert found is not None
    assert not found.is_recent
    await forget_noted(here.pool, timedelta(days=1))
    assert await lost.read(here.pool) is not None
    await storage.db.execute(later)
    await forget_noted(here.pool, timedelta(days=1))
    assert await lost.read(here.pool) is None
