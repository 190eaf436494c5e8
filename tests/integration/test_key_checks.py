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
from webhook_dispatcher.domain.signing import Keyring, Secret
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
