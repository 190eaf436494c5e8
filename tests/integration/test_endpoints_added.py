"""A second endpoint makes a merchant routed, and the last but number 1 direct again."""

import asyncio
import json

import asyncpg
import pytest

from tests.integration.storage_harness import StorageHarness

ADD = "SELECT * FROM webhook.add_endpoint($1, 'https://two.example/', '\\x00', 'k1', $2, $3, NULL)"
RAW = "SELECT merchant_id FROM webhook.endpoint ORDER BY merchant_id"
COMPATIBLE = "SELECT compatible_from FROM webhook.state"
BEATS = """
INSERT INTO webhook.dispatcher (
    owner, host, version, started_at, beat_at, lanes, attempts_in_flight, is_ready, reasons, faults,
    schema_version
)
VALUES ('o', 'h1', '0.9', now(), clock_timestamp(), 0, 0, true, '{}', '{}', 25)
"""
DIRECT = "SELECT webhook.become_direct('m')"


async def _lane(storage: StorageHarness, name: str) -> asyncpg.Record:
    (row,) = await storage.db.fetch("SELECT * FROM webhook.lane WHERE merchant_id = $1", name)
    return row


async def _add(storage: StorageHarness, name: str | None = None, *types: str) -> asyncpg.Record:
    (added,) = await storage.db.fetch(ADD, "m", name, types or None)
    return added


async def test_the_second_is_in_a_lane_of_its_own_as_number_1_is_from_then_on(
    storage: StorageHarness,
) -> None:
    db = storage.db
    await storage.configure("m", "m2")
    await db.execute("UPDATE webhook.lane SET paused = true, failures_in_a_row = 7 WHERE merchant_id = 'm'")
    first = await storage.insert("m")
    added = await _add(storage, "refunds", "charge.reversed")
    assert (added["result"], added["number"]) == ("created", 2)
    assert [row["merchant_id"] for row in await db.fetch(RAW)] == ["m\x1f1", "m\x1f2", "m2"]
    own, number_1, number_2 = [await _lane(storage, name) for name in ("m", "m\x1f1", "m\x1f2")]
    assert (own["routed_at"] is None, own["paused"], own["failures_in_a_row"]) == (False, False, 0)
    assert (number_1["paused"], number_1["failures_in_a_row"]) == (True, 7)
    assert (number_2["paused"], number_2["failures_in_a_row"]) == (True, 0)
    seen = await db.fetch(
        "SELECT number, id, name, types FROM webhook.endpoints WHERE merchant_id = 'm' ORDER BY number"
    )
    assert [(row["number"], row["name"], row["types"]) for row in seen] == [
        (1, None, None), (2, "refunds", ["charge.reversed"]),
    ]  # fmt: skip
    assert seen[1]["id"] == added["id"]
    assert await db.fetchval("SELECT since_seq FROM webhook.endpoint WHERE name = 'refunds'") == first[0]
    audited = await db.fetch(
        "SELECT action, merchant_id, after FROM webhook.audit WHERE merchant_id = 'm' ORDER BY id"
    )
    assert [(row["action"], json.loads(row["after"])["endpoint"]) for row in audited] == [
        ("endpoint set", 1), ("endpoint set", 2),
    ]  # fmt: skip


async def test_numbers_are_given_once_and_alone_number_1_is_the_merchants_again(
    storage: StorageHarness,
) -> None:
    db = storage.db
    await storage.configure("m")
    await _add(storage)
    assert await db.fetchval(COMPATIBLE) == 26
    assert not await db.fetchval(DIRECT)
    await db.execute("DELETE FROM webhook.endpoint WHERE merchant_id = E'm\\x1f2'")
    await db.execute(
        "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES (E'm\\x1f1', 'charge.created', '{}')"
    )
    assert not await db.fetchval(DIRECT)
    await db.execute("DELETE FROM webhook.outbox")
    await db.execute("UPDATE webhook.lane SET lease_until = 'infinity' WHERE merchant_id = 'm'")
    assert not await db.fetchval(DIRECT)
    await db.execute(
        "UPDATE webhook.lane SET lease_until = '-infinity', failures_in_a_row = 7 WHERE merchant_id LIKE 'm%'"
    )
    assert await db.fetchval(DIRECT)
    assert [row["merchant_id"] for row in await db.fetch(RAW)] == ["m"]
    lane = await _lane(storage, "m")
    assert (lane["routed_at"], lane["endpoint_removed_at"], lane["failures_in_a_row"]) == (None, None, 7)
    assert await db.fetchval(COMPATIBLE) == 1
    assert (await _add(storage))["number"] == 3


async def test_who_holds_the_lane_is_recalled_first(storage: StorageHarness) -> None:
    await storage.configure("m")
    await storage.insert("m")
    here = await storage.daemon("here")
    await here.claim("m")
    assert (await _add(storage))["result"] == "sending"
    lane = await _lane(storage, "m")
    assert (lane["recalled"], lane["routed_at"], lane["wait_until"] > await storage.now()) == (
        True,
        None,
        True,
    )


async def test_number_1_is_set_anew_where_it_belongs(storage: StorageHarness) -> None:
    db = storage.db
    await storage.configure("m")
    await _add(storage)
    await db.execute("DELETE FROM webhook.endpoint WHERE merchant_id = E'm\\x1f1'")
    await storage.configure("m")
    assert [row["merchant_id"] for row in await db.fetch(RAW)] == ["m\x1f1", "m\x1f2"]
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="add_endpoint"):
        await storage.configure("m9\x1f2")
    with pytest.raises(asyncpg.CheckViolationError, match="merchant_id_is_a_lane"):
        await storage.configure("m\x1f0")


async def test_nobody_left_is_not_configured(storage: StorageHarness) -> None:
    db = storage.db
    await storage.configure("m")
    await _add(storage)
    await db.execute("DELETE FROM webhook.endpoint")
    # What comes from now on was not there when they were removed.
    now = await storage.now()
    assert await db.fetchval(DIRECT)
    lane = await _lane(storage, "m")
    assert (lane["routed_at"], lane["endpoint_removed_at"] <= now) == (None, True)


@pytest.mark.parametrize("paused", [("1", "2"), ("1",)])
async def test_where_all_are_paused_so_is_one_more_and_number_1_that_is_set_anew(
    storage: StorageHarness, paused: tuple[str, ...]
) -> None:
    await storage.configure("m")
    await _add(storage)
    for number in paused:
        await storage.db.execute(
            "UPDATE webhook.lane SET paused = true WHERE merchant_id = $1", f"m\x1f{number}"
        )
    await _add(storage)
    await storage.db.execute("DELETE FROM webhook.endpoint WHERE merchant_id = E'm\\x1f1'")
    assert not (await _lane(storage, "m\x1f1"))["paused"]
    await storage.configure("m")
    are_all = paused == ("1", "2")
    assert [(await _lane(storage, f"m\x1f{number}"))["paused"] for number in (1, 2, 3)] == [are_all] * 3


async def test_how_number_1_fared_does_not_stay_behind(storage: StorageHarness) -> None:
    db = storage.db
    await storage.configure("m")
    await _add(storage)
    await db.execute(
        "UPDATE webhook.lane SET last_success_at = now(), last_failure_at = now(), failing_since = now(), "
        "failures_in_a_row = 7, reported_failing_since = now() WHERE merchant_id = E'm\\x1f1'"
    )
    await db.execute("DELETE FROM webhook.endpoint WHERE merchant_id = E'm\\x1f2'")
    assert await db.fetchval(DIRECT)
    fares = (
        "last_success_at",
        "last_failure_at",
        "failing_since",
        "failures_in_a_row",
        "reported_failing_since",
    )
    now, left = [await _lane(storage, name) for name in ("m", "m\x1f1")]
    assert [left[name] for name in fares] == [None, None, None, 0, None]
    assert None not in [now[name] for name in fares]


async def test_programs_that_know_one_are_served_once_nothing_is_owed_to_what_is_removed(
    storage: StorageHarness,
) -> None:
    db = storage.db
    await storage.configure("m")
    await _add(storage)
    await db.execute("DELETE FROM webhook.endpoint WHERE merchant_id = E'm\\x1f2'")
    await storage.insert_due("m\x1f2", 60)
    assert await db.fetchval(DIRECT)
    here = await storage.daemon("here")
    await here.claims.serve_unrouted()
    assert await db.fetchval(COMPATIBLE) == 26
    await db.execute("DELETE FROM webhook.outbox")
    await here.claims.serve_unrouted()
    assert await db.fetchval(COMPATIBLE) == 1


async def test_number_1_that_is_set_while_the_second_is_added_is_asked_for_again(
    storage: StorageHarness,
) -> None:
    await storage.configure("m")
    adding = await storage.session(user="postgres")
    setting = await storage.session(user="postgres", application_name="setting")
    async with adding.transaction():
        assert await adding.fetchval(ADD, "m", None, None) == "created"
        set_anew = asyncio.create_task(
            setting.execute(
                "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) "
                "VALUES ('m', 'https://example.com/', '\\x00', 'k1') ON CONFLICT (merchant_id) DO NOTHING"
            )
        )
        await storage.until_waiting("setting", set_anew)
    with pytest.raises(asyncpg.SerializationError, match="several endpoints just now"):
        await set_anew
    assert [row["merchant_id"] for row in await storage.db.fetch(RAW)] == ["m\x1f1", "m\x1f2"]


async def test_none_is_added_while_an_older_dispatcher_works(storage: StorageHarness) -> None:
    await storage.configure("m")
    await storage.db.execute(BEATS)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="further endpoints, and work: h1"):
        await _add(storage)
    assert [row["merchant_id"] for row in await storage.db.fetch(RAW)] == ["m"]


async def test_number_999_is_the_last(storage: StorageHarness) -> None:
    await storage.configure("m")
    await _add(storage)
    await storage.db.execute("INSERT INTO webhook.lane (merchant_id) VALUES (E'm\\x1f999')")
    assert (await _add(storage))["result"] == "too_many"


async def test_there_are_15_beside_number_1(storage: StorageHarness) -> None:
    assert (await _add(storage))["number"] == 1
    results = [(await _add(storage))["result"] for _ in range(16)]
    assert results == ["created"] * 15 + ["too_many"]
