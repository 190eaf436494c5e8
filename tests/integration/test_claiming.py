"""Leasing lanes and reading what they owe."""

from datetime import datetime, timedelta

import asyncpg
import pytest

from tests.integration.storage_harness import LAPSED, LEASE, Daemon, StorageHarness, seqs
from webhook_dispatcher.domain.claim import Lease, RunAsk
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.signing import SealedSecret
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.storage.statements import load

ADD_ENDPOINT = """
INSERT INTO webhook.endpoint (
    merchant_id, url, secret, key_id, previous_secret, previous_key_id, previous_until
)
VALUES ($1, $2, '\\x01', 'new', '\\x02', 'old', $3)
"""


STARTED_AT = "SELECT pg_postmaster_start_time()"


async def test_missing_lanes_are_told_made_and_leased(storage: StorageHarness, here: Daemon) -> None:
    heads = {"m1": 1, "m2": 1}
    await here.lease("m2", lease=LAPSED)
    leased = await here.claims.lease(heads, LEASE)
    assert ([lease.lane for lease in leased.leases], leased.missing, leased.locked) == (
        ["m2"],
        ("m1",),
        (),
    )
    assert await here.claims.create_lanes(["m1", "m2"]) == ()
    (lease,) = (await here.claims.lease({"m1": 1}, LEASE)).leases
    lane = await storage.lane("m1")
    assert lease == Lease("m1", lane["epoch"], 0, None, False, await storage.db.fetchval(STARTED_AT))
    assert (lane["is_leased"], lane["owner"]) == (True, "here")


async def test_whether_the_database_can_be_written_is_asked_without_changing_it(
    storage: StorageHarness, here: Daemon
) -> None:
    await here.lease("m")
    lane = await storage.lane("m")
    await here.claims.check_writable()
    assert await storage.lane("m") == lane
    session = await storage.session()
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        async with session.transaction(readonly=True):
            await session.execute(load("claiming")["check_writable"].text)


async def test_lane_that_another_transaction_is_making_keeps_the_others_back_from_nothing(
    storage: StorageHarness, here: Daemon
) -> None:
    maker = await storage.session()
    async with maker.transaction():
        await maker.execute("INSERT INTO webhook.lane (merchant_id) VALUES ('m2')")
        assert await here.claims.create_lanes(["m1", "m2", "m3"]) == ("m2",)
    assert [lease.lane for lease in await here.lease("m1", "m2", "m3")] == ["m1", "m2", "m3"]


async def test_lapsed_lane_goes_to_the_next_under_another_epoch(
    storage: StorageHarness, here: Daemon
) -> None:
    there = await storage.daemon("there")
    (first,) = await here.lease("m", lease=LAPSED)
    (second,) = await there.lease("m")
    assert second.epoch != first.epoch
    assert await here.lease("m") == []
    assert (await storage.lane("m"))["owner"] == "there"


async def test_lane_whose_claim_we_believed_lost_is_ours_again(here: Daemon) -> None:
    (first,) = await here.lease("m")
    (again,) = await here.lease("m")
    assert again.epoch != first.epoch


@pytest.mark.parametrize(
    ("head", "from_seq"), [(7, 6), (21, 20), (500, 20)], ids=["straggler", "next", "far ahead"]
)
async def test_straggler_lowers_from_seq_and_nothing_raises_it(
    storage: StorageHarness, here: Daemon, head: int, from_seq: int
) -> None:
    await storage.db.execute("INSERT INTO webhook.lane (merchant_id, from_seq) VALUES ('m', 20)")
    (lease,) = await here.lease("m", head=head)
    assert lease.from_seq == from_seq
    assert (await storage.lane("m"))["from_seq"] == from_seq


@pytest.mark.parametrize(
    "obstacle",
    [
        "UPDATE webhook.lane SET paused = true WHERE merchant_id = 'm'",
        "UPDATE webhook.lane SET wait_until = clock_timestamp() + interval '1 min' WHERE merchant_id = 'm'",
        "UPDATE webhook.lane SET lease_until = clock_timestamp() + interval '1 min', owner = 'x' "
        "WHERE merchant_id = 'm'",
        "UPDATE webhook.state SET paused = true",
    ],
    ids=["paused", "waiting", "leased", "everything paused"],
)
async def test_lane_that_may_not_be_served_is_not_leased(
    storage: StorageHarness, here: Daemon, obstacle: str
) -> None:
    await here.lease("free", "m", lease=LAPSED)
    await storage.db.execute(obstacle)
    before = await storage.lane("m")
    leased = [lease.lane for lease in await here.lease("free", "m")]
    assert leased == ([] if "state" in obstacle else ["free"])
    assert await storage.lane("m") == before


async def test_lane_held_by_an_operator_is_passed_over_and_told_apart(
    storage: StorageHarness, here: Daemon
) -> None:
    await here.lease("free", "m", lease=LAPSED)
    operator = await storage.session()
    await here.lease("held")
    async with operator.transaction():
        await operator.execute("SELECT FROM webhook.lane WHERE merchant_id IN ('m', 'held') FOR UPDATE")
        leased = await here.claims.lease({"free": 1, "m": 1, "held": 1}, LEASE)
        assert [lease.lane for lease in leased.leases] == ["free"]
        assert (leased.missing, leased.locked) == ((), ("m",))


async def test_lease_tells_when_the_endpoint_was_removed_and_forgets_the_recall(
    storage: StorageHarness, here: Daemon
) -> None:
    await storage.db.execute(ADD_ENDPOINT, "m", "https://m.example", await storage.now())
    await here.lease("m")
    await storage.db.execute("DELETE FROM webhook.endpoint")
    assert (await here.claims.read_recalls()).lanes == {"m"}
    await storage.db.execute("UPDATE webhook.lane SET lease_until = '-infinity'")
    (lease,) = await here.lease("m")
    assert isinstance(lease.endpoint_removed_at, datetime)
    assert (await here.claims.read_recalls()).lanes == frozenset()


async def test_pause_recalls_leased_lanes_and_is_shown_when_it_is_for_everything(
    storage: StorageHarness, here: Daemon
) -> None:
    await here.lease("held", "other")
    await here.lease("lapsed", lease=LAPSED)
    await here.claims.create_lanes(["free"])
    async with PostgresControls(here.pool).transaction() as transaction:
        for merchant in ("held", "lapsed", "free"):
            await transaction.pause(merchant, True)
    recalls = await here.claims.read_recalls()
    assert (recalls.everything_is_paused, recalls.lanes) == (False, frozenset({"held", "lapsed"}))
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.pause(None, True)
    assert (await here.claims.read_recalls()).everything_is_paused


async def test_run_is_in_order_within_its_limit_and_holds_only_first_attempts(
    storage: StorageHarness, here: Daemon
) -> None:
    first, second = await storage.insert("m", "{}", "{}")
    await storage.insert_due("m", -1, 60)
    await storage.insert("other")
    third, fourth = await storage.insert("m", "{}", "{}")
    assert seqs(await here.read("m")) == [first, second, third, fourth]
    assert seqs(await here.read("m", run=3)) == [first, second, third]
    assert seqs(await here.read("m", after=second)) == [third, fourth]
    assert await here.read("m", after=fourth) == []


async def test_event_is_read_as_it_was_written(storage: StorageHarness, here: Daemon) -> None:
    text = '{"b":1.50,  "a": "\u00e9\\u20ac", "a":1e2}'
    (seq,) = await storage.insert("m", text)
    (event,) = await here.read("m")
    row = await storage.owed(seq)
    assert row is not None
    assert event.object == text.encode()
    assert (event.id, event.created_at, event.type) == (row["id"], row["created_at"], "charge.created")


async def test_run_is_cut_by_bytes_after_its_first_event(storage: StorageHarness, here: Daemon) -> None:
    big, small = '{"a":"' + "\u00e9" * 496 + '"}', "{}"  # 1,000 bytes, 504 characters
    events = await storage.insert("m", big, small, big, small)
    (giant, _) = await storage.insert("g", '{"a":"' + "x" * 200_000 + '"}', small)

    async def read(merchant: str, most_bytes: int) -> list[int]:
        return seqs((await here.runs((merchant, 0, 20, most_bytes)))[merchant])

    assert await read("m", 1) == events[:1]
    assert await read("m", 1000) == events[:1]
    assert await read("m", 1001) == events[:2]
    assert await read("m", 1003) == events[:3]
    assert await read("m", 1 << 20) == events
    assert await read("g", 1000) == [giant]


async def test_each_lane_is_read_within_its_own_limits(storage: StorageHarness, here: Daemon) -> None:
    ones, others = await storage.insert("m1", *["{}"] * 4), await storage.insert("m2", *["{}"] * 4)
    runs = await here.runs(("m1", ones[0], 2, 1000), ("m2", 0, 3, 1000), ("empty", 0, 3, 1000))
    assert {merchant: seqs(run) for merchant, run in runs.items()} == {"m1": ones[1:3], "m2": others[:3]}


async def test_endpoint_is_read_with_a_previous_secret_until_its_overlap_ends(
    storage: StorageHarness, here: Daemon
) -> None:
    now = await storage.now()
    await storage.db.execute(ADD_ENDPOINT, "over", "https://over.example", now - timedelta(seconds=1))
    await storage.db.execute(ADD_ENDPOINT, "both", "https://both.example", now + timedelta(minutes=1))
    new, old = SealedSecret("new", b"\x01"), SealedSecret("old", b"\x02")
    assert await here.claims.read_endpoints(["over", "both", "none"]) == {
        "over": Endpoint("over", "https://over.example", (new,)),
        "both": Endpoint("both", "https://both.example", (new, old)),
    }


async def test_a_lease_of_before_the_server_was_started_reads_nothing(
    storage: StorageHarness, here: Daemon
) -> None:
    await storage.insert("m")
    started_at = await storage.db.fetchval(STARTED_AT)
    assert (
        await here.claims.read_runs([RunAsk("m", 0, 20, 1000, started_at - timedelta(microseconds=1))]) == {}
    )
    assert await here.claims.read_runs([RunAsk("m", 0, 20, 1000, started_at)])
