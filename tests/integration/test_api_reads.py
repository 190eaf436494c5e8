"""What a merchant reads of its deliveries and charges, and what it does not: page by page, byte for byte."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.integration.api_harness import api_pool, token_of
from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.storage.api.charges import Charges, ChargesNotIndexed
from webhook_dispatcher.storage.api.deliveries import NEWEST, Deliveries, Filter, Page

EVERYTHING = Filter()
AWKWARD = '{ "id" : "ch_1",  "amount": 1.00, "id2": "\\u00e9\N{EURO SIGN}", "amount": 1e2 }'
ATTEMPT = """
INSERT INTO webhook.attempt_log (
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome
)
VALUES ($1, $2, 1, 'schedule', clock_timestamp(), 5, 200, 'delivered')
"""


ROUTED = """
INSERT INTO webhook.lane (merchant_id, routed_at)
VALUES ('m', clock_timestamp()), (E'm\\x1f1', NULL), (E'm\\x1f2', NULL), (E'm\\x1f3', NULL)
ON CONFLICT (merchant_id) DO UPDATE SET routed_at = excluded.routed_at;
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id)
VALUES (E'm\\x1f1', 'https://m/1', '', 'k1'), (E'm\\x1f2', 'https://m/2', '', 'k1')
"""
"""Number 3 was removed."""
COPY = """
INSERT INTO webhook.outbox (id, merchant_id, type, object, due_at, copy_of, xid)
VALUES ($1, $2, 'charge.created', '{"id": "ch_1", "n": 3}', $3, $4, NULL)
"""
MOVED = "UPDATE webhook.delivery_log SET merchant_id = 'm', endpoint = 1, copy_of = event_id WHERE seq = $1"
NEVER = datetime(2099, 1, 1, tzinfo=UTC)


def delivery_id(event_id: UUID, number: int) -> UUID:
    """Derive the id of a further delivery as the contract says."""
    return UUID(bytes=hashlib.sha256(event_id.bytes + number.to_bytes(2)).digest()[:16])


@dataclass(frozen=True, slots=True)
class Api:
    """Reading for merchant m, beside others."""

    deliveries: Deliveries
    charges: Charges
    pool: asyncpg.Pool
    token: bytes
    foreign: bytes
    storage: StorageHarness

    async def page(self, wanted: Filter = EVERYTHING, position: int = NEWEST, limit: int = 100) -> Page:
        return await self.deliveries.list(self.token, wanted, position, limit)

    async def seqs(self, wanted: Filter) -> list[int]:
        """Walk all pages, two rows each."""
        found, position = list[int](), NEWEST
        while True:
            page = await self.page(wanted, position, 2)
            found += [delivery.seq for delivery in page.deliveries]
            if page.position is None:
                return found
            position = page.position


@pytest.fixture
async def api(storage: StorageHarness) -> AsyncIterator[Api]:
    token, foreign = [await token_of(storage.db, merchant) for merchant in ("m", "other")]
    async with api_pool(storage.database) as pool:
        yield Api(Deliveries(pool), Charges(pool), pool, token, foreign, storage)


async def test_the_newest_come_first_from_outbox_and_log(api: Api) -> None:
    first, second, third = await api.storage.insert("m", "{}", "{}", "{}")
    await api.storage.insert("other")
    (due,) = await api.storage.insert_due("m", 60)
    await api.storage.finish(second, state="failed")
    page = await api.page()
    assert [(found.seq, found.state) for found in page.deliveries] == [
        (due, "pending_retry"),
        (third, "pending"),
        (second, "failed"),
        (first, "pending"),
    ]
    assert page.position is None
    assert page.deliveries[0].next_attempt_at is not None
    assert page.deliveries[2].failed_reason == "exhausted"


async def test_each_filter_lets_through_what_it_says(api: Api) -> None:
    one, two, three = await api.storage.insert("m", '{"id": "a"}', '{"id": "b"}', '{"id": "a"}')
    (due,) = await api.storage.insert_due("m", 60)
    await api.storage.finish(two, three)
    await api.storage.db.execute("UPDATE webhook.outbox SET type = 'charge.failed' WHERE seq = $1", one)
    created = (await api.page()).deliveries
    assert await api.seqs(Filter(state="pending")) == [one]
    assert await api.seqs(Filter(state="pending_retry")) == [due]
    assert await api.seqs(Filter(state="delivered")) == [three, two]
    assert await api.seqs(Filter(state="failed")) == []
    assert await api.seqs(Filter(type="charge.failed")) == [one]
    assert await api.seqs(Filter(charge_id="a")) == [three, one]
    assert await api.seqs(Filter(charge_id="a", state="delivered")) == [three]
    assert await api.seqs(Filter(since=created[2].created_at)) == [due, three, two]
    assert await api.seqs(Filter(until=created[2].created_at)) == [one]
    assert await api.seqs(Filter(charge_id="a", until=created[1].created_at)) == [one]


async def test_what_is_sent_once_more_is_still_delivered(api: Api) -> None:
    (seq,) = await api.storage.insert_due("m", 60)
    await api.storage.db.execute("UPDATE webhook.outbox SET on_failure = 'delivered' WHERE seq = $1", seq)
    assert await api.seqs(Filter(state="delivered")) == [seq]
    assert await api.seqs(Filter(state="pending_retry")) == []


async def test_since_leaves_out_days_but_nothing_that_was_created_since(api: Api) -> None:
    (seq,) = await api.storage.insert("m")
    (delivery,) = (await api.page()).deliveries
    await api.storage.finish(seq, ago=timedelta(hours=23))
    assert await api.seqs(Filter(since=delivery.created_at)) == [seq], "clocks may differ by a day"


async def test_a_page_may_be_empty_and_go_on(api: Api) -> None:
    await api.storage.insert("m", '{"id": "wanted"}')
    await api.storage.db.execute("UPDATE webhook.outbox SET type = 'charge.failed'")
    await api.storage.insert("m", *["{}"] * 2_100)
    wanted = Filter(type="charge.failed")
    empty = await api.page(wanted)
    assert (empty.deliveries, empty.position) == ([], 1_102), "a thousand rows were examined"
    further = await api.page(wanted, 1_102)
    assert (further.deliveries, further.position) == ([], 102)
    last = await api.page(wanted, 102)
    assert ([found.seq for found in last.deliveries], last.position) == ([1], None)


async def test_a_thousandth_row_that_matches_is_shown_and_gone_on_behind(api: Api) -> None:
    seqs = await api.storage.insert("m", *["{}"] * 1_001)
    await api.storage.db.execute("UPDATE webhook.outbox SET type = 'charge.failed' WHERE seq <= 2")
    page = await api.page(Filter(type="charge.failed"))
    assert ([found.seq for found in page.deliveries], page.position) == ([seqs[1]], seqs[1])


@pytest.mark.parametrize("limit", [0, 101])
async def test_a_limit_is_1_to_100(api: Api, limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        await api.page(limit=limit)


async def test_a_payload_comes_byte_for_byte_with_its_attempts(api: Api) -> None:
    (seq,) = await api.storage.insert("m", AWKWARD)
    event_id = await api.storage.id_of(seq)
    for _ in range(2):
        found = await api.deliveries.get(api.token, event_id)
        assert found is not None
        assert (found.object, found.delivery.seq) == (AWKWARD.encode(), seq)
        await api.storage.finish(seq)
        await api.storage.db.execute(ATTEMPT, event_id, "m")
    assert found is not None
    assert [attempt.outcome for attempt in found.attempts] == ["delivered"]


async def test_a_charge_is_its_latest_events_object(api: Api) -> None:
    old, new, _ = await api.storage.insert("m", '{"id": "ch_1", "n": 1}', AWKWARD, '{"id": "ch_2"}')
    await api.storage.insert("other", '{"id": "ch_1", "n": 3}')
    for finished in ([], [new], [old]):
        await api.storage.finish(*finished)
        assert await api.charges.read_object(api.token, "ch_1") == AWKWARD.encode()


async def test_each_endpoints_deliveries_have_their_own_ids_and_its(api: Api) -> None:
    db = api.storage.db
    (old, event) = await api.storage.insert("m", '{"id": "ch_1", "n": 1}', '{"id": "ch_1", "n": 2}')
    old_id, event_id = [await api.storage.id_of(seq) for seq in (old, event)]
    await api.storage.finish(old)
    await db.execute(ROUTED)
    second, third = [delivery_id(event_id, number) for number in (2, 3)]
    await db.execute("UPDATE webhook.outbox SET merchant_id = E'm\\x1f1', copy_of = id, xid = NULL")
    for number, due, copy in ((2, None, second), (3, NEVER, third)):
        await db.execute(COPY, copy, f"m\x1f{number}", due, event_id)
    await api.storage.finish(event, state="failed")
    await db.execute(MOVED, event)
    (later,) = await api.storage.insert("m", '{"id": "ch_2"}')
    ids = {row["number"]: row["id"] for row in await db.fetch("SELECT number, id FROM webhook.endpoints")}
    shown = [
        (each.event_id, each.delivery_id, each.endpoint_id, each.state)
        for each in (await api.page()).deliveries
    ]
    later_id = await api.storage.id_of(later)
    first = (event_id, event_id, ids[1], "failed")
    copies = [(event_id, third, None, "pending_retry"), (event_id, second, ids[2], "pending")]
    before = (old_id, old_id, None, "delivered")
    assert shown == [(later_id, later_id, None, "pending"), *copies, first, before]
    assert len(await api.seqs(EVERYTHING)) == 5, "page by page"
    filters = [
        Filter(endpoint=1),
        Filter(endpoint=2),
        Filter(endpoint=3, state="pending_retry"),
        Filter(state="failed", endpoint=1),
        Filter(state="failed", endpoint=2),
        Filter(event_id=event_id),
        Filter(event_id=event_id, endpoint=2, charge_id="ch_1"),
        Filter(event_id=event_id, charge_id="ch_2"),
        Filter(charge_id="ch_1", endpoint=2),
        Filter(charge_id="ch_1"),
    ]
    assert [[each.delivery_id for each in (await api.page(wanted)).deliveries] for wanted in filters] == [
        [later_id, event_id, old_id],
        [second],
        [third],
        [event_id],
        [],
        [third, second, event_id],
        [second],
        [],
        [second],
        [third, second, event_id, old_id],
    ]
    assert (await api.deliveries.list(api.foreign, Filter(event_id=event_id), NEWEST, 5)).deliveries == []
    await db.execute(ATTEMPT, second, "m\x1f2")
    found = await api.deliveries.get(api.token, second)
    assert found is not None
    assert (found.delivery.event_id, found.delivery.endpoint_id) == (event_id, ids[2])
    assert [attempt.outcome for attempt in found.attempts] == ["delivered"]
    assert await api.deliveries.get(api.foreign, second) is None
    assert await api.charges.read_object(api.token, "ch_1") == b'{"id": "ch_1", "n": 1}', (
        "copies are no events"
    )


async def test_what_is_foreign_is_what_does_not_exist(api: Api) -> None:
    (seq,) = await api.storage.insert("m", AWKWARD)
    for event_id in (await api.storage.id_of(seq), uuid4()):
        assert await api.deliveries.get(api.foreign, event_id) is None
    for charge_id in ("ch_1", "none", "x" * 300, "a\0b"):
        assert await api.charges.read_object(api.foreign, charge_id) is None
        assert (
            await api.deliveries.list(api.foreign, Filter(charge_id=charge_id), NEWEST, 5)
        ).deliveries == []


async def test_without_the_index_charges_are_refused(api: Api) -> None:
    await api.storage.insert("m", AWKWARD)
    await api.storage.db.execute("UPDATE webhook.state SET has_charge_index = false")
    with pytest.raises(ChargesNotIndexed):
        await api.charges.read_object(api.token, "ch_1")
    with pytest.raises(ChargesNotIndexed):
        await api.page(Filter(charge_id="ch_1"))
    assert len((await api.page()).deliveries) == 1
