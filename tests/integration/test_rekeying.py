"""`endpoint rekey` on a real server: as webhook_admin, cut short, and beside rotations."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import asyncpg
import pytest

from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.cli.rekey import BATCH, reencrypt
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, Secret
from webhook_dispatcher.storage.administration import Administration, StoredSecrets, administration

UNTOUCHED = (
    "SELECT merchant_id, url, previous_until, created_at, updated_at, secret_created_at "
    "FROM webhook.endpoint ORDER BY merchant_id"
)


def key(key_id: str) -> str:
    return f"{key_id}:{base64.b64encode(key_id.encode().ljust(32)).decode()}"


OLDEST, OLD, NEW = (Keyring.parse(key(key_id)) for key_id in ("oldest", "old", "new"))
ALL = Keyring.parse(",".join(map(key, ("new", "old", "oldest"))))


def text(merchant: str) -> str:
    return f"whsec_of-{merchant}".ljust(40, ".")


class Meanwhile(Administration):
    """Lets somebody else do something after the first batch was read and before it is stored."""

    def __init__(self, connection: asyncpg.Connection, interfere: Callable[[], Awaitable[object]]) -> None:
        super().__init__(connection)
        self._interfere: Callable[[], Awaitable[object]] | None = interfere

    async def replace_sealed_secrets(
        self, changes: Sequence[tuple[StoredSecrets, StoredSecrets]], keyring: Keyring
    ) -> set[str]:
        interfere, self._interfere = self._interfere, None
        if interfere is not None:
            await interfere()
        return await super().replace_sealed_secrets(changes, keyring)


@asynccontextmanager
async def admin(storage: StorageHarness) -> AsyncIterator[Administration]:
    async with administration(storage.database.dsn("webhook_admin")) as opened:
        yield opened


async def configure(database: Administration, keyring: Keyring, *merchants: str) -> None:
    for merchant in merchants:
        sealed = keyring.seal(merchant, Secret(text(merchant)))
        await database.insert_endpoint(merchant, "https://merchant.com/", sealed, keyring)


async def opened(storage: StorageHarness, keyring: Keyring) -> dict[str, tuple[bytes, bytes | None]]:
    """Open everything stored with one keyring."""
    rows = await storage.db.fetch("SELECT * FROM webhook.endpoint")
    return {
        row["merchant_id"]: (
            keyring.open(row["merchant_id"], SealedSecret(row["key_id"], row["secret"])).revealed,
            keyring.open(
                row["merchant_id"], SealedSecret(row["previous_key_id"], row["previous_secret"])
            ).revealed
            if row["previous_key_id"]
            else None,
        )
        for row in rows
    }


async def test_everything_is_under_the_newest_key_and_nothing_else_has_changed(
    storage: StorageHarness,
) -> None:
    async with admin(storage) as database:
        await configure(database, OLD, "m1", "m2")
        await configure(database, OLDEST, "m3")
        await configure(database, OLD, "m4")
        newer = NEW.seal("m4", Secret("whsec_the-newer-one-of-m4"))
        await database.rotate_secret("m4", newer, timedelta(hours=1), NEW)
        rotated = OLD.seal("m3", Secret("whsec_the-newer-one-of-m3"))
        await database.rotate_secret("m3", rotated, timedelta(hours=1), OLD)
        untouched = await storage.db.fetch(UNTOUCHED)
        before = await opened(storage, ALL)
        rekeyed = await reencrypt(database, ALL)
        assert (rekeyed.reencrypted, rekeyed.already_current, rekeyed.unopened) == (5, 1, {})
        assert await storage.db.fetch(UNTOUCHED) == untouched
        # With the newest key alone everything opens, to what it was.
        assert await opened(storage, NEW) == before
        assert before["m3"] == (b"whsec_the-newer-one-of-m3", text("m3").encode())
        again = await reencrypt(database, ALL)
        assert (again.reencrypted, again.already_current) == (0, 6)


async def test_the_holder_of_a_lane_reads_its_endpoint_again(storage: StorageHarness) -> None:
    daemon = await storage.daemon("d1")
    async with admin(storage) as database:
        await configure(database, OLD, "m1")
        await storage.insert("m1")
        await daemon.lease("m1")
        await reencrypt(database, ALL)
    assert (await storage.lane("m1"))["recalled"]


async def test_a_run_whose_connection_dies_halfway_is_finished_by_the_next(storage: StorageHarness) -> None:
    merchants = [f"m{number:03}" for number in range(BATCH + 5)]
    async with admin(storage) as database:
        await configure(database, OLD, *merchants)
    # The second batch hits a row that somebody holds; its backend is ended while it waits.
    holder = await storage.database.connect("webhook_admin")
    try:
        async with admin(storage) as database, holder.transaction():
            await holder.execute(
                "SELECT FROM webhook.endpoint WHERE merchant_id = $1 FOR UPDATE", merchants[-1]
            )
            running = asyncio.ensure_future(reencrypt(database, ALL))
            pid = await storage.until_waiting("webhook-dispatcher cli", running)
            await storage.db.execute("SELECT pg_terminate_backend($1)", pid)
            with pytest.raises(StorageUnavailable):
                await running
    finally:
        await holder.close()
    counted = "SELECT count(*) FROM webhook.endpoint WHERE key_id = 'new'"
    assert await storage.db.fetchval(counted) == BATCH
    async with admin(storage) as database:
        rekeyed = await reencrypt(database, ALL)
    assert (rekeyed.reencrypted, rekeyed.already_current) == (5, BATCH)
    assert await opened(storage, NEW) == {merchant: (text(merchant).encode(), None) for merchant in merchants}


@pytest.mark.parametrize("overlap", [None, timedelta(hours=1)])
async def test_a_rotation_between_read_and_write_is_kept_and_put_under_the_newest_key_too(
    storage: StorageHarness, overlap: timedelta | None
) -> None:
    # By somebody whose newest key is still the old one.
    rotated = OLD.seal("m001", Secret("whsec_rotated-in-between"))
    async with admin(storage) as database, admin(storage) as other:
        await configure(database, OLD, "m000", "m001", "m002")
        meanwhile = partial(other.rotate_secret, "m001", rotated, overlap, OLD)
        rekeyed = await reencrypt(Meanwhile(database.connection, meanwhile), ALL)
    assert (rekeyed.reencrypted, rekeyed.changed_meanwhile) == (4 if overlap else 3, set())
    before = text("m001").encode() if overlap else None
    secrets = await opened(storage, NEW)
    assert secrets["m001"] == (b"whsec_rotated-in-between", before)
    assert secrets["m000"] == (text("m000").encode(), None)


async def test_a_previous_secret_that_is_withdrawn_meanwhile_does_not_come_back(
    storage: StorageHarness,
) -> None:
    rotated = OLD.seal("m1", Secret("whsec_the-newer-one-of-m1"))
    withdraw = (
        "UPDATE webhook.endpoint SET previous_secret = NULL, previous_key_id = NULL, previous_until = NULL"
    )
    async with admin(storage) as database, admin(storage) as other:
        await configure(database, OLD, "m1")
        await database.rotate_secret("m1", rotated, timedelta(hours=1), OLD)
        meanwhile = partial(other.connection.execute, withdraw)
        rekeyed = await reencrypt(Meanwhile(database.connection, meanwhile), ALL)
    assert (rekeyed.reencrypted, rekeyed.changed_meanwhile) == (1, set())
    assert await opened(storage, NEW) == {"m1": (b"whsec_the-newer-one-of-m1", None)}


async def test_a_rotation_that_is_being_committed_is_waited_for_and_kept(storage: StorageHarness) -> None:
    rotated = NEW.seal("m1", Secret("whsec_rotated-in-between"))
    async with admin(storage) as database, admin(storage) as other:
        await configure(database, OLD, "m1", "m2")
        async with other.connection.transaction():
            await other.rotate_secret("m1", rotated, None, NEW)
            running = asyncio.ensure_future(reencrypt(database, ALL))
            await storage.until_waiting("webhook-dispatcher cli", running)
        rekeyed = await running
    assert (rekeyed.reencrypted, rekeyed.changed_meanwhile) == (1, set())
    assert await opened(storage, NEW) == {
        "m1": (b"whsec_rotated-in-between", None),
        "m2": (text("m2").encode(), None),
    }


async def test_two_at_once_do_not_stand_in_each_others_way(storage: StorageHarness) -> None:
    merchants = [f"m{number:03}" for number in range(2 * BATCH)]
    async with admin(storage) as database, admin(storage) as other:
        await configure(database, OLD, *merchants)
        both = await asyncio.gather(reencrypt(database, ALL), reencrypt(other, ALL))
    assert sum(rekeyed.reencrypted for rekeyed in both) == len(merchants)
    assert await opened(storage, NEW) == {merchant: (text(merchant).encode(), None) for merchant in merchants}
