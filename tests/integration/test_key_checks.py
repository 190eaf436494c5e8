"""Keys and what is kept of them: a wrong key under a right id is refused, so are two under one id."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.cli.rekey import reencrypt
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, SealingKey, Secret
from webhook_dispatcher.storage import keys
from webhook_dispatcher.storage.administration import Administration, administration
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

ENDPOINT = (
    "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ($1, 'https://a.com', $2, $3)"
)
CHECKS = "SELECT key_id, value FROM webhook.key_check ORDER BY key_id"
SECRET = Secret("whsec_0123456789abcdef0123")
HOUR = timedelta(hours=1)


def keyring(**named: str) -> Keyring:
    """Make keys out of letters, by their ids."""
    parts = [
        f"{key_id}:{base64.b64encode(letter.encode() * 32).decode()}" for key_id, letter in named.items()
    ]
    return Keyring.parse(",".join(parts))


RIGHT, WRONG = keyring(k1="r"), keyring(k1="w")


@asynccontextmanager
async def admin(storage: StorageHarness) -> AsyncIterator[Administration]:
    async with administration(storage.database.dsn("webhook_admin")) as opened:
        yield opened


async def store(storage: StorageHarness, ring: Keyring, *merchants: str) -> None:
    """Store secrets as a version without checks did."""
    for merchant in merchants:
        sealed = ring.seal(merchant, SECRET)
        await storage.db.execute(ENDPOINT, merchant, sealed.sealed, sealed.key_id)


async def checks(storage: StorageHarness) -> dict[str, bytes]:
    return {row["key_id"]: row["value"] for row in await storage.db.fetch(CHECKS)}


async def configure(database: Administration, ring: Keyring, merchant: str) -> bool:
    sealed = ring.seal(merchant, SECRET)
    return await database.insert_endpoint(merchant, "https://a.com/", sealed, ring)


async def test_a_check_is_kept_by_who_opens_a_secret_and_by_nobody_else(storage: StorageHarness) -> None:
    async with admin(storage) as database:
        await database.verify_keys(keyring(k1="r", k2="s"))
        assert await checks(storage) == {}, "nothing was opened"
        await store(storage, RIGHT, "m1")
        assert await database.find_wrong_keys(RIGHT) == ()
        assert await checks(storage) == {}, "looking writes nothing"
        with pytest.raises(ConfigurationError, match=r"'k1' opens none of the secrets tried .* \(of 'm1'\)"):
            await database.verify_keys(WRONG)
        assert await checks(storage) == {}
        await database.verify_keys(keyring(k1="r", k2="s"))
        assert await checks(storage) == {"k1": RIGHT.check_value("k1")}
        with pytest.raises(ConfigurationError, match="'k1' is not the key that this database knows"):
            await database.verify_keys(WRONG)


async def test_where_one_secret_opens_the_others_are_damaged(storage: StorageHarness) -> None:
    await store(storage, WRONG, *(f"m{number}" for number in range(keys.MAX_SAMPLES - 1)))
    await store(storage, RIGHT, "n")
    async with admin(storage) as database:
        await database.verify_keys(RIGHT)
    assert await checks(storage) == {"k1": RIGHT.check_value("k1")}


async def test_a_secret_that_still_signs_beside_a_newer_one_tells_about_its_key(
    storage: StorageHarness,
) -> None:
    await store(storage, RIGHT, "m1")
    both = keyring(k2="s", k1="r")
    async with admin(storage) as database:
        await database.rotate_secret("m1", both.seal("m1", SECRET), HOUR, both)
        assert await checks(storage) == {"k2": both.check_value("k2")}
        with pytest.raises(ConfigurationError, match="'k1' opens none"):
            await database.verify_keys(keyring(k2="s", k1="w"))


async def test_secret_and_check_are_stored_together_or_not_at_all(storage: StorageHarness) -> None:
    async with admin(storage) as database:
        assert await configure(database, RIGHT, "m1")
        before = await storage.db.fetch("SELECT * FROM webhook.endpoint")
        for change in (
            configure(database, WRONG, "m2"),
            database.rotate_secret("m1", WRONG.seal("m1", SECRET), None, WRONG),
        ):
            with pytest.raises(ConfigurationError, match="'k1' is not the key"):
                await change
        assert await storage.db.fetch("SELECT * FROM webhook.endpoint") == before


async def test_of_two_keys_under_one_new_id_the_second_is_refused(storage: StorageHarness) -> None:
    async with admin(storage) as first, admin(storage) as second:
        async with first.connection.transaction():
            await first.verify_keys(RIGHT)
            assert await configure(first, RIGHT, "m1")
            # Nothing of the first is visible to the second yet.
            await second.verify_keys(WRONG)
            late = asyncio.ensure_future(configure(second, WRONG, "m2"))
            await storage.until_waiting("webhook-dispatcher cli", late)
        with pytest.raises(ConfigurationError, match="'k1' is not the key"):
            await late
    assert [
        row["merchant_id"] for row in await storage.db.fetch("SELECT merchant_id FROM webhook.endpoint")
    ] == ["m1"]
    assert await checks(storage) == {"k1": RIGHT.check_value("k1")}


async def test_of_two_keys_that_each_open_a_secret_under_one_id_the_second_is_refused(
    storage: StorageHarness,
) -> None:
    await store(storage, RIGHT, "m1")
    await store(storage, WRONG, "m2")
    async with admin(storage) as first, admin(storage) as second:
        async with first.connection.transaction():
            await first.verify_keys(RIGHT)
            # The second finds no check yet, and waits for the first to keep its own.
            late = asyncio.ensure_future(second.verify_keys(WRONG))
            await storage.until_waiting("webhook-dispatcher cli", late)
        with pytest.raises(ConfigurationError, match="'k1' is not the key"):
            await late


async def test_rekeying_under_a_new_id_keeps_its_check_and_two_cannot_use_one_id(
    storage: StorageHarness,
) -> None:
    await store(storage, RIGHT, "m1", "m2")
    moving, other = keyring(k2="s", k1="r"), keyring(k2="t", k1="r")
    async with admin(storage) as database:
        assert (await reencrypt(database, moving)).reencrypted == 2
        assert await checks(storage) == {name: moving.check_value(name) for name in ("k1", "k2")}
        with pytest.raises(ConfigurationError, match="'k2' is not the key"):
            await reencrypt(database, other)


async def test_the_daemon_learns_of_a_first_secret_under_another_key(storage: StorageHarness) -> None:
    async with storage.database.pool("webhook-dispatcher upkeep", 2, HOUR) as pool:
        upkeep = PostgresUpkeep(pool)
        assert await upkeep.find_wrong_keys(WRONG) == frozenset()
        async with admin(storage) as database:
            await configure(database, RIGHT, "m1")
        assert await upkeep.find_wrong_keys(WRONG) == {"k1"}
        assert await upkeep.find_wrong_keys(RIGHT) == frozenset()


PUBLISHED = "SELECT key_id, public_half FROM webhook.sealing_key ORDER BY key_id"
BY_HALF = keyring(k1="r", k2="s")
"""Its first key is the right one; what its public half seals is what the Partner API stores."""


def by_half(ring: Keyring, merchant: str) -> SealedSecret:
    return SealingKey(ring.sealing_id, ring.public_half(ring.sealing_id)).seal(merchant, SECRET)


async def store_by_half(storage: StorageHarness, ring: Keyring, *merchants: str) -> None:
    for merchant in merchants:
        sealed = by_half(ring, merchant)
        await storage.db.execute(ENDPOINT, merchant, sealed.sealed, sealed.key_id)


async def published(storage: StorageHarness) -> dict[str, bytes]:
    return {row["key_id"]: row["public_half"] for row in await storage.db.fetch(PUBLISHED)}


async def test_a_secret_that_the_published_half_sealed_vouches_for_its_key(storage: StorageHarness) -> None:
    await store_by_half(storage, RIGHT, "m1")
    async with storage.database.pool("webhook-dispatcher upkeep", 1, HOUR) as pool:
        upkeep = PostgresUpkeep(pool)
        assert await upkeep.find_wrong_keys(RIGHT) == frozenset()
        assert await checks(storage) == {}, "it is not published"
        assert await upkeep.confirm_sealing_key(RIGHT)
        assert await upkeep.find_wrong_keys(keyring(k2="s", k1="r")) == frozenset()
        assert await checks(storage) == {"k1": RIGHT.check_value("k1")}


async def test_what_anybody_can_seal_neither_refuses_a_key_nor_vouches_for_another(
    storage: StorageHarness,
) -> None:
    # As a process that was broken into could leave it: sealed for a half that is not the published one.
    await store_by_half(storage, WRONG, "m1", "m2")
    async with storage.database.pool("webhook-dispatcher upkeep", 1, HOUR) as pool:
        upkeep = PostgresUpkeep(pool)
        assert await upkeep.confirm_sealing_key(RIGHT)
        assert await upkeep.find_wrong_keys(RIGHT) == frozenset()
        for other in (WRONG, keyring(k2="s", k1="x")):
            assert await upkeep.find_wrong_keys(other) == {"k1"}, "the published half is not its own"
    assert await checks(storage) == {}
    await store(storage, RIGHT, "m3")
    async with admin(storage) as database:
        assert await database.find_wrong_keys(RIGHT) == ()
        with pytest.raises(ConfigurationError, match=r"opens none of the secrets tried .* \(of 'm3'\)"):
            await database.verify_keys(WRONG)


async def test_keys_are_missed_by_their_own_id_whichever_way_they_sealed(storage: StorageHarness) -> None:
    await store_by_half(storage, RIGHT, "m1")
    await store(storage, keyring(k3="t"), "m2")
    async with storage.database.pool("webhook-dispatcher upkeep", 1, HOUR) as pool:
        upkeep = PostgresUpkeep(pool)
        assert await upkeep.read_unknown_keys(("k2",)) == {"k1", "k3"}
        assert await upkeep.read_unknown_keys(("k1", "k3")) == frozenset()


async def test_rekeying_turns_what_the_public_half_sealed_into_what_the_key_seals(
    storage: StorageHarness,
) -> None:
    await store_by_half(storage, RIGHT, "m1", "m2")
    moving = keyring(k2="s", k1="r")
    async with admin(storage) as database:
        again = by_half(RIGHT, "m2")
        await database.rotate_secret("m2", moving.seal("m2", SECRET), HOUR, moving)
        rekeyed = await reencrypt(database, moving)
        assert (rekeyed.reencrypted, rekeyed.already_current, rekeyed.unopened) == (2, 1, {})
        # Under the newest key already, and yet not in its own form.
        await store_by_half(storage, moving, "m3")
        assert (await reencrypt(database, moving)).reencrypted == 1
    rows = await storage.db.fetch("SELECT * FROM webhook.endpoint ORDER BY merchant_id")
    assert [(row["key_id"], row["previous_key_id"]) for row in rows] == [
        ("k2", None),
        ("k2", "k2"),
        ("k2", None),
    ]
    newest = keyring(k2="s")
    for row in rows:
        assert newest.open(row["merchant_id"], SealedSecret("k2", row["secret"])).revealed == SECRET.revealed
    assert again.opened_by == "k1"


async def test_the_public_half_is_published_with_a_secret_and_replaces_none(storage: StorageHarness) -> None:
    async with admin(storage) as database:
        await configure(database, BY_HALF, "m1")
        assert await published(storage) == {"k1": RIGHT.public_half("k1")}
        await storage.db.execute("UPDATE webhook.sealing_key SET public_half = sha256('another')")
        await database.rotate_secret("m1", RIGHT.seal("m1", SECRET), None, RIGHT)
        assert (await published(storage))["k1"] != RIGHT.public_half("k1")


async def test_another_half_under_an_id_counts_while_its_holder_is_there_and_then_makes_way(
    storage: StorageHarness,
) -> None:
    async with storage.database.pool("webhook-dispatcher upkeep", 1, HOUR) as pool:
        upkeep = PostgresUpkeep(pool)
        assert await upkeep.confirm_sealing_key(WRONG)
        assert not await upkeep.confirm_sealing_key(RIGHT)
        assert await published(storage) == {"k1": WRONG.public_half("k1")}
        age = "UPDATE webhook.sealing_key SET confirmed_at = clock_timestamp() - interval '6 minutes'"
        await storage.db.execute(age)
        assert not await upkeep.confirm_sealing_key(RIGHT), "first nobody may seal with the other any more"
        current = "SELECT count(*) FROM webhook.current_sealing_key"
        assert await storage.db.fetchval(current) == 0
        assert await published(storage) == {"k1": WRONG.public_half("k1")}
        assert await upkeep.confirm_sealing_key(RIGHT)
        assert await published(storage) == {"k1": RIGHT.public_half("k1")}
        assert await storage.db.fetchval(current) == 1


async def test_a_wrong_key_is_refused_before_any_secret_was_opened(storage: StorageHarness) -> None:
    async with (
        storage.database.pool("webhook-dispatcher upkeep", 1, HOUR) as pool,
        admin(storage) as database,
    ):
        await PostgresUpkeep(pool).confirm_sealing_key(RIGHT)
        await database.verify_keys(RIGHT)
        with pytest.raises(ConfigurationError, match=r"'k1' is not the key .* a new key takes a new id"):
            await database.verify_keys(WRONG)
        age = "UPDATE webhook.sealing_key SET confirmed_at = clock_timestamp() - interval '6 minutes'"
        await storage.db.execute(age)
        await database.verify_keys(WRONG)
        await store_by_half(storage, RIGHT, "m1")
        with pytest.raises(ConfigurationError, match="'k1' is not the key"):
            await database.verify_keys(WRONG)
        await database.verify_keys(RIGHT)


async def test_nothing_is_published_under_an_id_that_stands_for_another_key(storage: StorageHarness) -> None:
    await store(storage, RIGHT, "m1")
    async with storage.database.pool("webhook-dispatcher upkeep", 1, HOUR) as pool:
        upkeep = PostgresUpkeep(pool)
        assert await upkeep.find_wrong_keys(RIGHT) == frozenset()
        assert not await upkeep.confirm_sealing_key(WRONG)
        assert await published(storage) == {}
        assert await upkeep.confirm_sealing_key(RIGHT)
        before = await storage.db.fetchval("SELECT confirmed_at FROM webhook.sealing_key")
        assert await upkeep.confirm_sealing_key(RIGHT)
        assert await storage.db.fetchval("SELECT confirmed_at FROM webhook.sealing_key") > before
