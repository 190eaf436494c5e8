"""Routing: each event is copied in order, under a fence, for each endpoint that is there and wants it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg
import pytest

from tests.integration.api_harness import api_pool, token_of
from tests.integration.storage_harness import GATED, LAPSED, LEASE, Daemon, StorageHarness, answered, seqs
from tests.integration.test_unreadable import insert_damaged_due
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.dispatch.control.skipping import Skipping, SkipProgress
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.sweep import Strays
from webhook_dispatcher.domain.claim import (
    ClaimedRetry,
    HandedOn,
    Lease,
    RouteAsk,
    Routed,
    RouteFate,
    Stray,
)
from webhook_dispatcher.domain.command import Skip
from webhook_dispatcher.domain.errors import PartitionMissing, StatementRefused
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.domain.record import LaneTurn
from webhook_dispatcher.storage.api.events import Events
from webhook_dispatcher.storage.controls import PostgresCommandTransaction, PostgresControls
from webhook_dispatcher.telemetry.metrics import Metrics

M1, M2, M3 = (lane_named("m", number) for number in (1, 2, 3))
STABLE = 10**9
ADD = """
SELECT result
FROM webhook.add_endpoint(
    'm', 'https://example.com/', '\\x00', 'k1', NULL, $1, NULL
)
"""
REMOVE = "DELETE FROM webhook.endpoint WHERE merchant_id = $1"
FILTER = "UPDATE webhook.endpoint SET types = $2 WHERE merchant_id = $1"
INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m', $1, '{}') RETURNING seq"
DUE = "UPDATE webhook.outbox SET due_at = clock_timestamp() WHERE merchant_id = $1"
LOCK_LANE = "SELECT FROM webhook.lane WHERE merchant_id = $1 FOR NO KEY UPDATE"
HOLD_ROW = "SELECT FROM webhook.outbox WHERE seq = $1 FOR UPDATE"


@dataclass(slots=True)
class Merchant:
    """Merchant m, who has an endpoint, and may have more."""

    storage: StorageHarness

    async def add(self, types: Sequence[str] | None = None) -> str:
        """Add an endpoint, as far as the lane's holder lets it."""
        result: str = await self.storage.db.fetchval(ADD, types)
        return result

    async def insert(self, *types: str) -> list[int]:
        """Commit events of these types."""
        return [await self.storage.db.fetchval(INSERT, type_) for type_ in types]

    async def copies(self, lane: str) -> list[int]:
        """Return of which events there are copies in a lane, by their events' numbers in the log."""
        rows = await self.storage.db.fetch(
            """
            SELECT event.seq
            FROM webhook.outbox
            INNER JOIN webhook.delivery_log AS event ON event.event_id = outbox.copy_of
            WHERE outbox.merchant_id = $1 AND outbox.xid IS NULL AND event.copy_of IS NULL
            ORDER BY outbox.seq
            """,
            lane,
        )
        return [row["seq"] for row in rows]

    async def waiting(self) -> list[int]:
        """Return what waits in the merchant's own lane."""
        return [
            row["seq"]
            for row in await self.storage.db.fetch(
                "SELECT seq FROM webhook.outbox WHERE merchant_id = 'm' ORDER BY seq"
            )
        ]

    async def state(self, seq: int) -> str | None:
        """Return the state of what is in the log."""
        row = await self.storage.logged(seq)
        assert row is not None
        return row["state"]  # type: ignore[no-any-return]


@pytest.fixture
async def merchant(storage: StorageHarness) -> Merchant:
    await storage.configure("m")
    return Merchant(storage)


@pytest.fixture
async def routed(merchant: Merchant) -> Merchant:
    """Let the merchant have two endpoints."""
    assert await merchant.add() == "created"
    return merchant


async def take(daemon: Daemon, lease: timedelta = LEASE) -> Lease:
    """Lease the merchant's own lane."""
    [held] = (await daemon.claims.lease({"m": 1}, lease)).leases
    assert held.is_routed
    return held


async def own_lane(storage: StorageHarness) -> asyncpg.Record:
    [row] = await storage.db.fetch(
        "SELECT *, lease_until > clock_timestamp() AS is_leased FROM webhook.lane WHERE merchant_id = 'm'"
    )
    return row


async def route(
    daemon: Daemon, held: Lease, *, after: int = 0, stable: int = STABLE, rows: int = 400, size: int = 1 << 21
) -> Routed:
    at = await daemon.pool.fetchval("SELECT clock_timestamp()")
    return await daemon.claims.route(RouteAsk(held, after, stable, rows, size, at), LEASE)


async def test_each_event_is_copied_in_order_for_each_endpoint_that_was_there_and_wants_it(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    [old] = await merchant.insert("charge.created")
    assert await merchant.add(["charge.failed"]) == "created"
    failed, created = await merchant.insert("charge.failed", "charge.created")
    await storage.db.execute(FILTER, M1, ["charge.created"])
    [nobody] = await merchant.insert("charge.reversed")
    ids = {seq: (await storage.owed(seq))["id"] for seq in (old, failed, created)}  # type: ignore[index]
    done = await route(here, await take(here))
    assert (done.fate, done.events, done.unwanted, done.reached) == (RouteFate.RELEASED, 4, 1, nobody)
    copies = await storage.db.fetch("SELECT * FROM webhook.outbox ORDER BY seq")
    assert [(copy["merchant_id"], copy["id"], copy["copy_of"]) for copy in copies] == [
        (M1, ids[old], ids[old]),
        (M2, ids[failed], ids[failed]),
        (M1, ids[created], ids[created]),
    ]
    assert done.heads == {M1: copies[0]["seq"], M2: copies[1]["seq"]}
    assert copies[0]["seq"] > nobody
    assert {copy["xid"] for copy in copies} == {None}
    logged = [await storage.logged(seq) for seq in (old, failed, created, nobody)]
    assert [row and (row["state"], row["xid"] is None, row["merchant_id"]) for row in logged] == [
        (None, False, "m")
    ] * 4
    lane = await own_lane(storage)
    assert (lane["is_leased"], lane["from_seq"]) == (False, STABLE)


async def test_further_copies_have_ids_of_their_own_and_come_again_with_the_same(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    await routed.insert("charge.created")
    await route(here, await take(here))
    of_first, of_second = await storage.db.fetch("SELECT * FROM webhook.outbox ORDER BY seq")
    assert of_second["copy_of"] == of_first["id"] == of_first["copy_of"]
    derived = await storage.db.fetchval("SELECT webhook.delivery_id($1, 2::smallint)", of_first["id"])
    assert of_second["id"] == derived
    # Its id is used again while the second still owes it: that is another delivery there.
    await storage.db.execute("DELETE FROM webhook.outbox WHERE seq = $1", of_first["seq"])
    await storage.db.execute(
        "INSERT INTO webhook.outbox (id, merchant_id, type, object) VALUES ($1, 'm', 'charge.created', '{}')",
        of_first["id"],
    )
    assert (await route(here, await take(here))).events == 1
    rows = await storage.db.fetch("SELECT * FROM webhook.outbox WHERE merchant_id = $1 ORDER BY seq", M2)
    assert [row["copy_of"] for row in rows] == [of_first["id"]] * 2
    assert rows[0]["id"] == derived != rows[1]["id"]


async def test_what_stands_behind_a_locked_row_waits(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    first, second, third = await routed.insert(*["charge.created"] * 3)
    held, operator = await take(here), await storage.session()
    async with operator.transaction():
        await operator.execute(HOLD_ROW, first)
        done = await route(here, held)
        assert (done.fate, done.events, done.reached) == (RouteFate.KEPT, 0, None)
        lane = await own_lane(storage)
        assert (lane["from_seq"], lane["is_leased"]) == (0, True)
    async with operator.transaction():
        await operator.execute(HOLD_ROW, second)
        done = await route(here, held)
        assert (done.fate, done.events, done.reached, done.is_cut) == (RouteFate.KEPT, 1, first, True)
        assert (await own_lane(storage))["from_seq"] == first
        assert await routed.waiting() == [second, third]
    assert (await route(here, held, after=first)).fate is RouteFate.RELEASED
    assert await routed.copies(M1) == await routed.copies(M2) == [first, second, third]


async def test_a_statement_takes_as_much_as_it_may_and_never_less_than_one_event(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    text = '{"a":"' + "x" * 1_000 + '"}'
    numbers = await storage.insert("m", *[text] * 5)
    held = await take(here)
    done = await route(here, held, rows=6, stable=numbers[0])
    assert (done.events, done.is_cut, done.fate) == (2, True, RouteFate.KEPT), "each is three rows"
    assert (await own_lane(storage))["from_seq"] == numbers[0]
    done = await route(here, held, rows=1)
    assert (done.events, done.reached, (await own_lane(storage))["from_seq"]) == (1, numbers[2], numbers[2])
    done = await route(here, held, size=1)
    assert (done.events, done.is_cut) == (1, True)
    assert (await route(here, held)).fate is RouteFate.RELEASED
    assert await routed.copies(M2) == numbers


CHANGES = {
    "types": (FILTER, (M2, ["charge.failed"])),
    "removal": (REMOVE, (M2,)),
    "third": (ADD, (None,)),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_endpoints_that_change_behind_its_snapshot_stop_a_route(
    storage: StorageHarness, routed: Merchant, change: str
) -> None:
    """It has its snapshot, of before the change, and then waits for the lane."""
    third = await routed.add() if change == "removal" else None  # so that there are several after it, too
    assert third in (None, "created")
    numbers = await routed.insert("charge.created", "charge.failed")
    await storage.hang_door("lane")
    here, late = await storage.daemon("here"), await storage.daemon("here", application_name=GATED)
    held = await take(here)
    statement, values = CHANGES[change]
    async with storage.held_at_the_door(route(late, held)) as pending:
        await storage.db.execute(statement, *values)
    done = await pending
    assert (done.fate, done.events, await routed.waiting()) == (RouteFate.LOCKED, 0, numbers)
    assert (await route(here, held)).fate is RouteFate.RECALLED
    assert (await own_lane(storage))["from_seq"] == 0
    await here.records.write([], [LaneTurn(held, True)], LEASE)
    assert (await route(here, await take(here))).events == 2
    assert await routed.copies(M1) == numbers
    assert await routed.copies(M2) == {"types": numbers[1:], "removal": [], "third": numbers}[change]
    assert await routed.copies(M3) == (numbers if change == "removal" else [])


@pytest.mark.parametrize("change", CHANGES)
async def test_endpoints_that_change_during_a_route_wait_for_its_end(
    storage: StorageHarness, here: Daemon, routed: Merchant, change: str
) -> None:
    if change == "removal":
        await routed.add()
    numbers = await routed.insert("charge.created")
    held, other = await take(here), await storage.session(user="postgres")
    statement, values = CHANGES[change]
    await storage.hang_door("outbox")
    late = await storage.daemon("here", application_name=GATED)
    async with storage.held_at_the_door(route(late, held)) as pending:
        changing = asyncio.ensure_future(other.execute(statement, *values))
        await storage.until_waiting("session", changing)
    assert (await pending).events == 1
    await changing
    assert await routed.copies(M1) == await routed.copies(M2) == numbers
    assert (await own_lane(storage))["recalled"] is False, "it is released already"


async def test_under_a_lost_epoch_and_for_another_server_nothing_is_routed(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    numbers = await routed.insert("charge.created")
    old = await take(here, LAPSED)
    held = await take(await storage.daemon("there"), LAPSED)
    assert (await route(here, old)).fate is RouteFate.LOST
    other = Lease(held.lane, held.epoch, 0, None, False, held.server_started_at - timedelta(seconds=1))
    assert (await route(here, other)).fate is RouteFate.LOST
    assert await routed.waiting() == numbers
    assert (await route(here, held)).fate is RouteFate.RELEASED, "a lease that lapsed is the latest still"
    assert (await route(here, held)).fate is RouteFate.LOST, "and this released it"


async def test_a_route_whose_answer_was_lost_is_asked_again_and_copies_nothing_twice(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    numbers = await routed.insert(*["charge.created"] * 3)
    held = await take(here)
    for _ in range(2):
        assert (await route(here, held, rows=3)).events == 1
    assert (await route(here, held)).fate is RouteFate.RELEASED
    assert (await route(here, held)).events == 0
    assert await routed.copies(M1) == await routed.copies(M2) == numbers


async def test_a_locked_lane_is_asked_for_again(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    await routed.insert("charge.created")
    held, operator = await take(here), await storage.session()
    async with operator.transaction():
        await operator.execute("SELECT FROM webhook.lane WHERE merchant_id = 'm' FOR UPDATE")
        assert await route(here, held) == Routed(RouteFate.LOCKED, failed=[])
    assert (await route(here, held)).events == 1


async def test_a_log_without_its_partition_moves_nothing(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    numbers = await routed.insert("charge.created")
    held = await take(here)
    at = await storage.now() + timedelta(days=400)
    with pytest.raises(PartitionMissing):
        await here.claims.route(RouteAsk(held, 0, STABLE, 400, 1 << 20, at), LEASE)
    assert await routed.waiting() == numbers


async def test_a_row_that_breaks_a_rule_is_refused_alone_and_one_of_a_retired_type_is_not(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    await storage.db.execute("ALTER TABLE webhook.outbox DROP CONSTRAINT event_can_be_sent")
    retired, broken, last = await routed.insert("own.retired", "No Type", "charge.created")
    await storage.db.execute(
        "ALTER TABLE webhook.outbox ADD CONSTRAINT event_can_be_sent "
        "CHECK (webhook.event_can_be_sent(merchant_id, type, created_at, object)) NOT VALID"
    )
    held = await take(here)
    with pytest.raises(StatementRefused) as refused:
        await route(here, held)
    assert refused.value.is_row_fault
    assert await routed.waiting() == [retired, broken, last]
    assert (await route(here, held, rows=1)).reached == retired
    with pytest.raises(StatementRefused):
        await route(here, held, rows=1, after=retired)
    assert await routed.copies(M2) == [retired]


async def test_what_nobody_is_there_for_fails_and_is_told(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    await storage.configure("$platform")
    [old] = await merchant.insert("charge.created")
    await merchant.add()
    [new] = await merchant.insert("charge.failed")
    await storage.db.execute(REMOVE, M1)
    done = await route(here, await take(here))
    assert (done.events, done.failed, done.unwanted) == (2, ["charge.created"], 0)
    assert await merchant.copies(M2) == [new]
    row = await storage.logged(old)
    assert row is not None
    assert (row["state"], row["failed_reason"]) == ("failed", "not_configured")
    assert await storage.db.fetchval("SELECT array_agg(seq) FROM webhook.unreported_failure") == [old]


# Between one endpoint and several


async def test_a_second_endpoint_waits_until_nobody_holds_the_lane(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    await merchant.insert("charge.created")
    held, [event] = await here.claim("m")
    assert not held.is_routed
    assert await merchant.add() == "sending"
    outcome = answered(event, held.epoch, await storage.now(), 200)
    written = await here.records.write([outcome], [LaneTurn(held, True, event.seq)], LEASE)
    assert written.released == ("m",)
    assert (await here.claims.lease({"m": 1}, LEASE)).leases == (), "it rests"
    assert await merchant.add() == "created"
    assert (await route(here, await take(here))).events == 0


@pytest.mark.parametrize("is_routed", [False, True])
async def test_an_answer_that_comes_after_a_second_endpoint_was_added(
    storage: StorageHarness, here: Daemon, merchant: Merchant, is_routed: bool
) -> None:
    """Its sender lost the lane. The event is not for the second, and the first may get it again."""
    [seq] = await merchant.insert("charge.created")
    held, [event] = await here.claim("m", lease=LAPSED)
    assert await merchant.add() == "created"
    there = await storage.daemon("there")
    if is_routed:
        assert (await route(there, await take(there))).events == 1
    outcome = answered(event, held.epoch, await storage.now(), 200)
    written = await here.records.write([outcome], [LaneTurn(held, True, seq)], LEASE)
    assert (written.seqs, written.lost) == (frozenset(), ("m",))
    assert await here.records.write_late(outcome)
    assert await merchant.state(seq) == (None if is_routed else "delivered"), "its copy is the delivery"
    assert await merchant.waiting() == []
    assert (await merchant.copies(M1), await merchant.copies(M2)) == ([seq] if is_routed else [], [])


async def test_a_merchant_whose_first_endpoint_is_left_alone_is_direct_once_that_owes_no_first_attempt(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    [seq] = await routed.insert("charge.created")
    await route(here, await take(here))
    await storage.db.execute(REMOVE, M2)
    [new] = await routed.insert("charge.failed")
    assert (await route(here, await take(here))).fate is RouteFate.ALONE
    assert await routed.waiting() == [new]
    assert (await here.claims.lease({"m": 1}, LEASE)).leases == (), "the lane rests"
    assert await here.claims.find_alone() == ["m"]
    assert not await here.claims.become_direct("m")
    held, [event] = await here.claim(M1)
    assert not await here.claims.become_direct("m"), "it is leased"
    outcome = answered(event, held.epoch, await storage.now(), 500)
    await here.records.write([outcome], [LaneTurn(held, True, event.seq)], LEASE)
    assert await here.claims.become_direct("m")
    assert await here.claims.find_alone() == []
    direct, events = await here.claim("m")
    assert (direct.is_routed, seqs(events)) == (False, [new])
    # Its retry comes home when it is due.
    assert await hand_on(storage, here, M1) == {event.seq: HandedOn.MOVED}
    row = await storage.owed(event.seq)
    assert row is not None
    assert (row["merchant_id"], row["copy_of"], row["claim"]) == ("m", event.event_id, None)
    assert await routed.state(seq) is None


async def test_number_one_that_is_set_anew_while_the_last_other_goes_keeps_what_waits(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    await storage.db.execute(REMOVE, M1)
    [seq] = await routed.insert("charge.created")
    one, other = await storage.session(user="postgres"), await storage.session(user="postgres")
    async with one.transaction():
        await one.execute(REMOVE, M2)
        setting = asyncio.ensure_future(
            other.execute(
                "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) "
                "VALUES ('m', 'https://example.com/', '\\x00', 'k1')"
            )
        )
        await asyncio.wait([setting], timeout=0.1)
    await setting
    assert (await route(here, await take(here))).fate is RouteFate.ALONE
    assert await here.claims.become_direct("m")
    _, events = await here.claim("m")
    assert seqs(events) == [seq]
    assert list(await here.claims.read_endpoints(["m", M1])) == ["m"]


# Retries


async def due(storage: StorageHarness, daemon: Daemon, lane: str) -> list[ClaimedRetry]:
    """Claim what is, or would be, due in a lane."""
    await storage.db.execute(
        "UPDATE webhook.outbox SET due_at = clock_timestamp() WHERE merchant_id = $1 AND due_at IS NOT NULL",
        lane,
    )
    await storage.db.execute(
        "UPDATE webhook.lane SET retry_at = clock_timestamp() WHERE merchant_id = $1", lane
    )
    return await daemon.claims.claim_due_of([lane], 10, 10, LEASE)


async def hand_on(storage: StorageHarness, daemon: Daemon, lane: str) -> dict[int, HandedOn]:
    """Claim what is due in a lane, and hand it on."""
    strays = [retry.as_stray for retry in await due(storage, daemon, lane)]
    return await daemon.claims.hand_on(strays, await storage.now())


async def test_a_retry_goes_on_where_its_endpoint_is_as_a_copy(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    [seq] = await storage.insert_due("m", -1)
    before = await storage.owed(seq)
    assert before is not None
    await merchant.add()
    assert await hand_on(storage, here, "m") == {seq: HandedOn.MOVED}
    assert await merchant.copies(M1) == [seq]
    logged = await storage.logged(seq)
    assert logged is not None
    assert (logged["state"], logged["xid"], logged["event_id"]) == (None, before["xid"], before["id"])
    [retry] = await due(storage, here, M1)
    event = retry.event
    assert (event.attempts, event.id, event.copy_of, event.lane) == (1, before["id"], before["id"], M1)
    assert await here.claims.hand_on([retry.as_stray], await storage.now()) == {event.seq: HandedOn.WAITS}, (
        "it is there"
    )


async def test_the_next_are_due_as_soon_as_some_are_handed_on(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    await storage.insert_due("m", *[-1] * 5)
    await merchant.add()
    claimed = await here.claims.claim_due_of(["m"], 2, 2, LEASE)
    assert (len(claimed), (await storage.lane("m"))["retry_at"] > await storage.now()) == (2, True)
    await here.claims.hand_on([retry.as_stray for retry in claimed], await storage.now())
    assert (await storage.lane("m"))["retry_at"] <= await storage.now()


NO_END = 1 << 21


async def strays(daemon: Daemon, *, rows: int = 400, size: int = NO_END) -> list[Stray]:
    """Name what number 1 has left behind."""
    return sorted(await daemon.claims.find_strays(rows, size))


async def test_what_nobody_has_claimed_moves_and_is_due_when_it_was(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    due_now, later, latest = await storage.insert_due("m", -1, 3600, 7200)
    [in_order] = await merchant.insert("charge.created")
    due_at = {seq: (await storage.owed(seq))["due_at"] for seq in (later, latest)}  # type: ignore[index]
    assert await strays(here) == [], "its endpoint is there"
    await merchant.add()
    [claimed] = await here.claims.claim_due_of(["m"], 10, 10, LEASE)
    found = await strays(here)
    assert [stray.seq for stray in found] == [later, latest]
    await storage.db.execute("UPDATE webhook.lane SET retry_at = 'infinity' WHERE merchant_id = $1", M1)
    fates = await here.claims.hand_on(found, await storage.now())
    assert fates == dict.fromkeys((later, latest), HandedOn.MOVED)
    assert await merchant.waiting() == [due_now, in_order]
    assert await merchant.copies(M1) == [later, latest]
    rows = await storage.db.fetch("SELECT * FROM webhook.outbox WHERE merchant_id = $1 ORDER BY seq", M1)
    assert [(row["due_at"], row["claim"], row["attempts"]) for row in rows] == [
        (due_at[seq], None, 1) for seq in (later, latest)
    ]
    assert (await storage.lane(M1))["retry_at"] == due_at[later]
    # Whoever had claimed one records what came of it.
    outcome = answered(claimed.event, claimed.claim, await storage.now(), 200, is_retry=True)
    assert (await here.records.write([outcome], [], LEASE)).seqs == {due_now}
    # And home again, as they are.
    await storage.db.execute(REMOVE, M2)
    assert await here.claims.become_direct("m")
    found = await strays(here)
    assert [(stray.lane, stray.seq) for stray in found] == [(M1, row["seq"]) for row in rows]
    await here.claims.hand_on(found, await storage.now())
    home = await storage.db.fetch("SELECT * FROM webhook.outbox WHERE num_nulls(copy_of) = 0 ORDER BY seq")
    assert [dict(row) for row in home] == [{**row, "merchant_id": "m"} for row in rows]
    assert await strays(here) == []


async def test_as_many_are_named_as_may_be_moved_at_once(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    numbers = await storage.insert_due("m", *[3600] * 4)
    await storage.configure("n")
    [other] = await storage.insert_due("n", 3600)
    await storage.db.execute("UPDATE webhook.outbox SET object = $1", '{"a":"' + "x" * 1_000 + '"}')
    await merchant.add()
    await storage.db.execute(ADD.replace("'m'", "'n'"), None)
    assert [stray.seq for stray in await strays(here)] == [*numbers, other]
    assert len(await strays(here, rows=3)) == 3
    assert [len(await strays(here, rows=4, size=size)) for size in (1, 900, 2_500)] == [1, 1, 3]
    assert [stray.seq for stray in await here.claims.find_strays(400, NO_END, numbers)] == [other]


async def test_only_lanes_that_may_have_retries_are_looked_into(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    [seq] = await storage.insert_due("m", 3600)
    await merchant.add()
    await storage.db.execute("UPDATE webhook.lane SET retry_at = 'infinity' WHERE merchant_id = 'm'")
    assert await strays(here) == []
    # A suspension makes retry_at infinite, whatever waits.
    await storage.db.execute("UPDATE webhook.lane SET suspended_at = now() WHERE merchant_id = 'm'")
    assert [stray.seq for stray in await strays(here)] == [seq]
    await storage.db.execute("UPDATE webhook.lane SET suspended_at = NULL WHERE merchant_id = 'm'")
    await here.claims.mend_retries("", 1_000)
    assert [stray.seq for stray in await strays(here)] == [seq]


async def test_what_was_named_and_is_not_as_it_was_stays(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    [seq] = await storage.insert_due("m", -1)
    await merchant.add()
    named = await strays(here)
    [claimed] = await here.claims.claim_due_of(["m"], 10, 10, LEASE)
    assert await here.claims.hand_on(named, await storage.now()) == {seq: HandedOn.WAITS}
    row = await storage.owed(seq)
    assert row is not None
    assert row["claim"] == claimed.claim
    # Named at number 1's, brought home by somebody else, and waiting in order since.
    assert await here.claims.hand_on([claimed.as_stray], await storage.now()) == {seq: HandedOn.MOVED}
    await storage.db.execute(REMOVE, M2)
    assert await here.claims.become_direct("m")
    named = await strays(here)
    assert await here.claims.hand_on(named, await storage.now()) == {named[0].seq: HandedOn.MOVED}
    assert await here.claims.hand_on(named, await storage.now()) == {named[0].seq: HandedOn.WAITS}
    await merchant.add()
    named = await strays(here)
    await storage.db.execute("UPDATE webhook.outbox SET due_at = NULL")
    assert await here.claims.hand_on(named, await storage.now()) == {named[0].seq: HandedOn.WAITS}


async def test_a_damaged_one_is_named_and_left_and_all_others_move(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    [first] = await storage.insert_due("m", 3600)
    damaged = await insert_damaged_due(storage, "m")
    [last] = await storage.insert_due("m", 3600)
    await merchant.add()
    instruments = Instruments.of(SystemClock(), Metrics("test"))
    instruments.database_clock.synchronise(await storage.now(), instruments.clock.elapsed())
    moving = Strays(here.claims, instruments, Stop())
    assert await moving.step()
    assert (await merchant.waiting(), await merchant.copies(M1)) == ([damaged], [first, last])
    assert instruments.blocked.seqs() == [damaged]
    assert not await moving.step()


async def test_a_late_answer_of_what_was_handed_on_is_settled(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    await routed.insert("charge.created")
    await route(here, await take(here))
    await storage.db.execute("UPDATE webhook.outbox SET due_at = clock_timestamp()")
    [retry] = await due(storage, here, M1)
    await storage.db.execute(REMOVE, M2)
    assert await here.claims.become_direct("m")
    there = await storage.daemon("there")
    assert await hand_on(storage, there, M1) == {retry.event.seq: HandedOn.MOVED}
    assert await here.records.write_late(
        answered(retry.event, retry.claim, await storage.now(), 200, is_retry=True)
    )


@pytest.mark.parametrize("order", ["early", "late", "lapsed"])
async def test_a_retry_that_is_in_flight_while_a_second_endpoint_is_added(
    storage: StorageHarness, here: Daemon, merchant: Merchant, order: str
) -> None:
    [seq] = await storage.insert_due("m", -1)
    [retry] = await due(storage, here, "m")
    await merchant.add()
    there = await storage.daemon("there")
    if order != "early":  # another daemon has it: our claim has lapsed
        taken = await due(storage, there, "m")
        assert len(taken) == 1
        assert await here.claims.hand_on([retry.as_stray], await storage.now()) == {seq: HandedOn.WAITS}
        if order == "lapsed":
            assert await there.claims.hand_on([retry.as_stray for retry in taken], await storage.now()) == {
                seq: HandedOn.MOVED
            }
    outcome = answered(retry.event, retry.claim, await storage.now(), 500, is_retry=True)
    written = await here.records.write([outcome], [], LEASE)
    assert written.seqs == (frozenset([seq]) if order == "early" else frozenset())
    if order != "early":
        assert await here.records.write_late(outcome)
    if order != "lapsed":
        assert await hand_on(storage, there, "m") == {seq: HandedOn.MOVED}
    assert (await merchant.copies(M1), await merchant.copies(M2), await merchant.waiting()) == ([seq], [], [])
    assert len(await storage.attempts(retry.event)) == 1
    own = await own_lane(storage)
    assert (own["failing_since"], own["last_failure_at"]) == (None, None), "it is no endpoint any more"


@pytest.mark.parametrize("copy", ["is owed", "has ended"])
async def test_a_late_2xx_of_what_was_handed_on_makes_no_second_delivery(
    storage: StorageHarness, here: Daemon, merchant: Merchant, copy: str
) -> None:
    [seq] = await storage.insert_due("m", -1)
    [retry] = await due(storage, here, "m")
    await merchant.add()
    there = await storage.daemon("there")
    assert await hand_on(storage, there, "m") == {seq: HandedOn.MOVED}
    owed, attempts = [seq], 1
    if copy == "has ended":
        owed, attempts = [], 2
        await storage.db.execute(DUE, M1)
        [again] = await due(storage, there, M1)
        ended = answered(again.event, again.claim, await storage.now(), 200, is_retry=True)
        assert (await there.records.write([ended], [], LEASE)).seqs == {again.event.seq}
    outcome = answered(retry.event, retry.claim, await storage.now(), 200, is_retry=True)
    assert await here.records.write_late(outcome)
    assert (await merchant.copies(M1), await merchant.state(seq)) == (owed, None)
    assert len(await storage.attempts(retry.event)) == attempts


async def test_a_retry_waits_while_the_lane_that_it_leaves_is_locked(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    await routed.insert("charge.created")
    await route(here, await take(here))
    await storage.db.execute(DUE, M1)
    [retry] = await due(storage, here, M1)
    await storage.db.execute(REMOVE, M2)
    assert await here.claims.become_direct("m")
    operator = await storage.session()
    async with operator.transaction():
        await operator.execute(LOCK_LANE, M1)
        fates = await here.claims.hand_on([retry.as_stray], await storage.now())
        assert fates == {retry.event.seq: HandedOn.WAITS}
        await operator.execute(LOCK_LANE, "m")
    assert await here.claims.hand_on([retry.as_stray], await storage.now()) == {
        retry.event.seq: HandedOn.MOVED
    }


async def test_a_skip_finds_what_is_routed_between_its_look_and_its_locks(
    storage: StorageHarness, here: Daemon, routed: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await routed.insert("charge.created", "charge.created")
    held = await take(here)
    lock_control = PostgresCommandTransaction.lock_control

    async def after_routing(transaction: PostgresCommandTransaction) -> bool:
        await route(here, held)
        return await lock_control(transaction)

    monkeypatch.setattr(PostgresCommandTransaction, "lock_control", after_routing)
    work, progress = Skipping(Skip("m", await storage.now()), Metrics("test")), SkipProgress()
    while progress.reached is not None:
        async with PostgresControls(here.pool).transaction() as transaction:
            chunk = await work.take(transaction, progress, 500)
        assert chunk is not None
        progress = chunk.progress
    assert (progress.skipped, await routed.copies(M1), await routed.copies(M2)) == (4, [], [])


async def test_what_has_no_endpoint_anywhere_is_left_to_its_claimer(
    storage: StorageHarness, here: Daemon, routed: Merchant
) -> None:
    await routed.insert("charge.created")
    await route(here, await take(here))
    await storage.db.execute("UPDATE webhook.outbox SET due_at = clock_timestamp()")
    await storage.db.execute(REMOVE, M2)
    [alone] = await storage.insert_due("nobody", -1)
    [retry] = await due(storage, here, M2)
    assert await here.claims.hand_on([retry.as_stray], await storage.now()) == {
        retry.event.seq: HandedOn.NOBODY
    }
    assert await hand_on(storage, here, "nobody") == {alone: HandedOn.NOBODY}
    # The first is left and has an endpoint: what is locked waits for it.
    [stray] = await storage.insert_due("m", -1)
    [retry] = await due(storage, here, "m")
    operator = await storage.session()
    async with operator.transaction():
        await operator.execute("SELECT FROM webhook.lane WHERE merchant_id = 'm' FOR UPDATE")
        assert await here.claims.hand_on([retry.as_stray], await storage.now()) == {stray: HandedOn.WAITS}
    assert await here.claims.hand_on([retry.as_stray], await storage.now()) == {stray: HandedOn.MOVED}


async def test_a_reader_of_events_is_given_each_once_before_during_and_after(
    storage: StorageHarness, here: Daemon, merchant: Merchant
) -> None:
    [retried] = await storage.insert_due("m", -1)
    await merchant.add()
    first, second = await merchant.insert("charge.created", "charge.failed")
    async with api_pool(storage.database) as pool:
        events, token = Events(pool), await token_of(storage.db, "m")
        page = await events.list(token, None, None, 1)
        given = [event.seq for event in page.events]
        await hand_on(storage, here, "m")
        await route(here, await take(here), rows=3)
        page = await events.list(token, page.following, None, 1)
        given += [event.seq for event in page.events]
        await route(here, await take(here, LAPSED))
        page = await events.list(token, page.following, None, 100)
        given += [event.seq for event in page.events]
        again = await events.list(token, None, None, 100)
    assert given == [event.seq for event in again.events] == [retried, first, second]


async def test_an_unfinished_transaction_of_a_zombie_holds_the_lane_back(
    storage: StorageHarness, routed: Merchant
) -> None:
    """Its client is gone, and the statement goes on: whoever has the lane next waits for its end."""
    numbers = await routed.insert("charge.created")
    await storage.hang_door("outbox")
    gone = await storage.daemon("gone", application_name=GATED)
    there = await storage.daemon("there")
    held = await take(gone, LAPSED)
    async with storage.held_at_the_door(route(gone, held)) as pending:
        assert (await there.claims.lease({"m": 1}, LEASE)).locked == ("m",)
    assert (await pending).events == 1
    assert (await route(there, await take(there))).events == 0
    assert await routed.copies(M2) == numbers


async def test_two_routes_of_one_lane_at_once(storage: StorageHarness, routed: Merchant) -> None:
    numbers = await routed.insert(*["charge.created"] * 5)
    here = await storage.daemon("here")
    held = await take(here)
    done = await asyncio.gather(*(route(here, held) for _ in range(2)))
    assert sorted(each.events for each in done) in ([0, 5], [0, 0])
    await route(here, held)
    assert await routed.copies(M1) == await routed.copies(M2) == numbers
    with pytest.raises(asyncpg.PostgresError):
        await storage.db.execute("INSERT INTO webhook.endpoint (merchant_id, url) VALUES ('m\x1f9', 'x')")
