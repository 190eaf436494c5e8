"""Reading events in order: nothing that commits late is passed over, nothing is given twice."""

import asyncio
import os
import random
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from tests import servers
from tests.integration.api_harness import api_pool, token_of
from tests.integration.storage_harness import LEASE, StorageHarness, answered
from tests.servers.database import Database, own_server
from tests.waiting import until_found
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.api.events import (
    MAX_PAGE_BYTES,
    Bookmark,
    BookmarkElsewhere,
    BookmarkExpired,
    Events,
    FeedNotIndexed,
    FeedPage,
    ServerChanged,
)
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes
from webhook_dispatcher.storage.statements import load
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

INSERT = """
INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m', 'charge.created', '{}') RETURNING seq
"""
BURN = "DO $$ BEGIN FOR n IN 1..{count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
NEXT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
WALKS = 8 if "MODEL_EXAMPLES" in os.environ else 3
DAY = timedelta(days=1)
REOPENING, RECOVERING = load("reopening"), load("recovering")


@dataclass(frozen=True, slots=True)
class Reader:
    """Merchant m, who reads."""

    events: Events
    token: bytes

    async def page(
        self, bookmark: Bookmark | None = None, since: datetime | None = None, limit: int = 100
    ) -> FeedPage:
        return await self.events.list(self.token, bookmark, since, limit)

    async def read(self, bookmark: Bookmark | None = None, limit: int = 3) -> tuple[list[int], Bookmark]:
        """Read on until nothing more is complete."""
        found = list[int]()
        while True:
            page = await self.page(bookmark, limit=limit)
            found += seqs(page)
            bookmark = page.following
            if not page.events:
                return found, bookmark


def seqs(page: FeedPage) -> Sequence[int]:
    return [event.seq for event in page.events]


@pytest.fixture
async def reader(storage: StorageHarness) -> AsyncIterator[Reader]:
    async with api_pool(storage.database) as pool:
        yield Reader(Events(pool), await token_of(storage.db, "m"))


async def test_what_commits_late_is_given_late_and_not_skipped(
    storage: StorageHarness, reader: Reader
) -> None:
    early = await storage.database.connect()
    transaction = early.transaction()
    await transaction.start()
    first = await early.fetchval(INSERT)
    [second] = await storage.insert("m")
    page = await reader.page()
    assert (seqs(page), page.delayed_since is None) == ([], False), "what is complete ends before the first"
    await transaction.commit()
    await early.close()
    page = await reader.page(page.following)
    assert (seqs(page), page.delayed_since) == ([first, second], None)
    assert seqs(await reader.page(page.following)) == []


async def test_a_lower_number_of_a_later_transaction_comes_after_a_higher_one(
    storage: StorageHarness, reader: Reader
) -> None:
    """The number alone would skip it, though only what is complete was given."""
    one, other = await storage.database.connect(), await storage.database.connect()
    await one.execute("BEGIN; SELECT pg_current_xact_id()")
    await other.execute("BEGIN")
    lower = await other.fetchval(INSERT)
    higher = await one.fetchval(INSERT)
    await one.execute("COMMIT")
    page = await reader.page()
    assert (lower < higher, seqs(page)) == (True, [higher])
    await other.execute("COMMIT")
    assert seqs(await reader.page(page.following)) == [lower]
    await one.close()
    await other.close()


async def test_what_is_rolled_back_or_of_others_is_not_given(storage: StorageHarness, reader: Reader) -> None:
    await storage.db.execute(
        f"BEGIN; {INSERT}; ROLLBACK; BEGIN; SAVEPOINT s; {INSERT}; ROLLBACK TO s; COMMIT"
    )
    await storage.insert("other")
    [own] = await storage.insert("m")
    assert seqs(await reader.page()) == [own]


async def test_a_transaction_elsewhere_delays_and_is_told_only_where_something_waits(
    storage: StorageHarness, reader: Reader
) -> None:
    async with storage.db.transaction():
        await storage.db.execute("SELECT pg_current_xact_id()")
        assert (await reader.page()).delayed_since is None
        other = await storage.database.connect()
        created = await other.fetchval(INSERT.replace("RETURNING seq", "RETURNING created_at"))
        await other.close()
        assert (await reader.page()).delayed_since == created
    assert len((await reader.page()).events) == 1


async def test_who_only_reads_delays_nobody(storage: StorageHarness, reader: Reader) -> None:
    other = await storage.database.connect()
    async with other.transaction(isolation="repeatable_read"):
        await other.fetchval("SELECT count(*) FROM webhook.outbox")
        [seq] = await storage.insert("m")
        assert seqs(await reader.page()) == [seq]
    await other.close()


async def test_pages_end_by_bytes_too_and_the_first_event_always_comes(
    storage: StorageHarness, reader: Reader
) -> None:
    large = '{"text": "' + "x" * 200_000 + '"}'
    there = await storage.insert("m", *[large] * 8)
    page = await reader.page()
    assert 0 < sum(len(event.object) for event in page.events) < MAX_PAGE_BYTES + 2 * len(large)
    assert 0 < len(page.events) < len(there)
    assert (await reader.read(limit=100))[0] == there


OWED = "SELECT seq FROM webhook.outbox WHERE merchant_id = 'm'"
FINISHED = "SELECT seq, finished_at, state FROM webhook.delivery_log WHERE merchant_id = 'm'"


async def _move(storage: StorageHarness, chance: random.Random) -> None:
    """Move some events about by the dispatchers' own statements: deliver, cancel, skip, reopen, recover."""
    daemon = await storage.daemon("here")
    lease, events = await daemon.claim("m", lease=timedelta(0))
    now = await storage.now()
    await daemon.records.write(
        [answered(event, lease.epoch, now, chance.choice([200, 500])) for event in events[:3]], [], LEASE
    )
    owed = [row["seq"] for row in await storage.db.fetch(OWED)]
    chosen = chance.sample(owed, min(len(owed), 2))
    await storage.db.fetch(
        chance.choice([REOPENING["cancel_deliveries"], RECOVERING["skip_deliveries"]]).text, chosen
    )
    finished = await storage.db.fetch(FINISHED)
    for row in chance.sample(finished, min(len(finished), 3)):
        if chance.random() < 0.5:
            text = REOPENING["reopen_delivery"].text
            await storage.db.fetch(text, row["seq"], row["finished_at"], "m", "m")
        else:
            text = RECOVERING["reopen_finished"].text
            await storage.db.fetch(text, [row["seq"]], [row["finished_at"]], ["m"])
    await storage.db.fetch(REOPENING["reopen_failed"].text, "m", now - DAY, 0, now + DAY, 2, None)


@pytest.mark.parametrize("seed", range(WALKS))
async def test_each_event_is_given_once_while_events_move(
    storage: StorageHarness, reader: Reader, seed: int
) -> None:
    chance = random.Random(seed)
    written = await storage.insert("m", *["{}"] * 15)
    found, bookmark = list[int](), None
    for _ in range(10):
        page = await reader.page(bookmark, limit=chance.randint(1, 4))
        found += seqs(page)
        bookmark = page.following
        await _move(storage, chance)
        if chance.random() < 0.3:
            written += await storage.insert("m")
    found += (await reader.read(bookmark))[0]
    assert found == written


@pytest.mark.parametrize(("server", "timeline"), [(7, None), (None, "0000FFFF")])
async def test_a_place_of_another_server_or_timeline_is_refused(
    storage: StorageHarness, reader: Reader, server: int | None, timeline: str | None
) -> None:
    bookmark = (await reader.page()).following
    moved = replace(bookmark, server=server or bookmark.server, timeline=timeline or bookmark.timeline)
    assert (await reader.page(bookmark)).events == []
    with pytest.raises(BookmarkElsewhere):
        await reader.page(moved)


async def _expire(storage: StorageHarness) -> None:
    """Drop the oldest day as upkeep does when it is over: yesterday, before which a milestone was noted."""
    async with storage.database.pool("upkeep", 1, LEASE) as pool:
        assert await PostgresUpkeep(pool).drop_partitions(timedelta(0))


async def test_a_place_is_refused_when_what_is_behind_it_was_dropped(
    storage: StorageHarness, reader: Reader
) -> None:
    await storage.db.execute("UPDATE webhook.milestone SET at = at - interval '2 days'")
    await storage.insert("m", "{}", "{}")
    old = (await reader.page(limit=1)).following
    new = (await reader.page()).following
    await storage.db.execute(BURN.format(count=5))
    async with storage.database.pool("upkeep", 1, LEASE) as pool:
        await PostgresUpkeep(pool).note_milestone()
    latest = (await reader.page(new)).following
    assert len((await reader.page(old)).events) == 1, "nothing was dropped yet"
    await _expire(storage)
    with pytest.raises(BookmarkExpired):
        await reader.page(old)
    assert (await reader.page(latest)).events == [], "who kept reading goes on"
    assert len((await reader.page()).events) == 2, "and who begins again gets what is kept"


async def test_who_reads_an_old_backlog_is_not_refused_for_it(
    storage: StorageHarness, reader: Reader
) -> None:
    there = await storage.insert("m", *["{}"] * 5)
    await storage.db.execute("UPDATE webhook.outbox SET xid = '0'")
    page = await reader.page(limit=2)
    assert page.following.xid == 0
    assert [*seqs(page), *seqs(await reader.page(page.following))] == there


async def test_since_begins_at_a_milestone_before_it(storage: StorageHarness, reader: Reader) -> None:
    await storage.insert("m")
    await storage.db.execute("DELETE FROM webhook.milestone")
    now = await storage.now()
    horizon = await storage.db.fetchval(NEXT)
    for at, xid in ((now - timedelta(hours=2), horizon), (now + timedelta(hours=1), horizon + 1_000_000)):
        await storage.db.execute(
            "INSERT INTO webhook.milestone VALUES ($1, $2::bigint::text::xid8, $2::bigint::text::xid8)",
            at,
            xid,
        )
    [late] = await storage.insert("m")
    assert len((await reader.page(since=now - timedelta(hours=3))).events) == 2, "no milestone is as old"
    assert seqs(await reader.page(since=now)) == [late]
    assert seqs(await reader.page(since=now - timedelta(hours=2) + timedelta(seconds=30))) != [late]


async def test_upkeep_notes_a_milestone_now_and_then(storage: StorageHarness) -> None:
    count = "SELECT count(*) FROM webhook.milestone"
    await storage.db.execute("UPDATE webhook.milestone SET at = at - interval '1 hour'")
    async with storage.database.pool("upkeep", 1, LEASE) as pool:
        for _ in range(3):
            await PostgresUpkeep(pool).note_milestone()
    assert await storage.db.fetchval(count) == 2


async def test_without_the_index_there_is_no_feed_and_with_it_what_was_written_before_is_read(
    storage: StorageHarness, reader: Reader
) -> None:
    dsn, here = storage.database.dsn("postgres"), await storage.daemon("here")
    await schema.migrate(dsn, ChosenIndexes(feed=False))
    with pytest.raises(FeedNotIndexed):
        await reader.page()
    assert not await reader.events.is_indexed()
    finished, owed = await storage.insert("m", "{}", "{}")
    lease, [event, *_] = await here.claim("m")
    await here.records.write([answered(event, lease.epoch, await storage.now(), 200)], [], LEASE)
    assert await storage.db.fetchval("SELECT count(*) FROM webhook.delivery_log") == 1
    await schema.migrate(dsn, ChosenIndexes(feed=True))
    assert await reader.events.is_indexed()
    later = await storage.insert("m")
    assert (await reader.read())[0] == [finished, owed, *later]


async def test_a_daemon_of_the_version_before_has_an_event_given_twice_but_never_skipped(
    storage: StorageHarness, reader: Reader
) -> None:
    [seq] = await storage.insert("m")
    page = await reader.page()
    await storage.db.execute(
        "WITH gone AS (DELETE FROM webhook.outbox RETURNING *) INSERT INTO webhook.delivery_log "
        "(seq, event_id, merchant_id, type, created_at, object, state, attempts, finished_at) "
        "SELECT seq, id, merchant_id, type, created_at, object, 'delivered', 1, clock_timestamp() FROM gone"
    )
    assert seqs(await reader.page(page.following)) == [seq]


def _copy(source: EmbeddedPostgres, target: Database, name: str) -> None:
    """Dump a server's database, and restore it on another."""
    with tempfile.TemporaryDirectory() as folder:
        dump = str(Path(folder) / "dump")
        # They ask hundreds of questions once: where all of it is compiled, that takes minutes.
        env = os.environ | {"PGOPTIONS": "-c jit=off"}
        subprocess.run([servers.client("pg_dump"), "-Fc", "-f", dump, source.dsn()], check=True, env=env)
        into = target.server.dsn("postgres", name)
        subprocess.run([servers.client("pg_restore"), "-d", into, dump], check=True, env=env)


async def test_a_restored_database_is_read_again_when_it_was_adopted(database: Database) -> None:
    target = await database.connect()
    copy = Database(database.server, f"{database.name}_restored")
    with own_server({}) as source:
        await schema.migrate(source.dsn(), ChosenIndexes(feed=True), name="prod")
        there = await asyncpg.connect(source.dsn(), server_settings=servers.settings_of_tests())
        ahead = await target.fetchval(NEXT) + 20_000 - await there.fetchval(NEXT)
        await there.execute(INSERT)
        await there.execute(BURN.format(count=max(ahead, 1)))
        for _ in range(3):
            await there.execute(INSERT)
        token = await token_of(there, "m")
        await there.close()
        await target.execute(f"CREATE DATABASE {copy.name}")
        await asyncio.to_thread(_copy, source, database, copy.name)
    try:
        await _read_and_adopt(copy, token)
    finally:
        await target.execute(f"DROP DATABASE {copy.name} WITH (FORCE)")
        await target.close()


async def _read_and_adopt(copy: Database, token: bytes) -> None:
    async with api_pool(copy) as pool:
        reader = Reader(Events(pool), token)
        with pytest.raises(ServerChanged):
            await reader.page()
        async with administration(copy.dsn("webhook_admin")) as admin:
            await admin.adopt_installation("prod", "anna")
        owner = await copy.connect()
        after = await owner.fetchval(INSERT)
        found, bookmark = await reader.read()
        assert found == [1, 2, 3, 4, after], "none hidden, none twice, in order"
        late = await owner.fetchval(INSERT)
        assert (await reader.read(bookmark))[0] == [late]
        assert await owner.fetchval("SELECT count(*) FROM webhook.milestone") == 1
        await owner.close()


async def test_another_timeline_is_another_history() -> None:
    """A server that recovers from an archive, as a standby does that is promoted, begins a timeline."""
    with tempfile.TemporaryDirectory(prefix="webhook-tests-") as folder:
        bookmark = await _served(Path(folder), None)
        (Path(folder) / "postgres" / "recovery.signal").touch()
        with pytest.raises(BookmarkElsewhere):
            await _served(Path(folder), bookmark)


async def _served(folder: Path, bookmark: Bookmark | None) -> Bookmark:
    """Start the server, read on, and stop it."""
    options = {**servers.options(), "restore_command": "false"}
    with EmbeddedPostgres(folder, durable=False, options=options, bin_dir=servers.programs()) as server:
        if bookmark is None:
            await schema.migrate(server.dsn(), ChosenIndexes(feed=True), name="prod")
        database = Database(server, "postgres")
        owner = await database.connect()

        async def is_writable() -> bool:
            return not await owner.fetchval("SELECT pg_is_in_recovery()")

        await until_found(is_writable)
        token = await token_of(owner, "m")
        await owner.execute(INSERT)
        await owner.close()
        async with api_pool(database) as pool:
            return (await Reader(Events(pool), token).page(bookmark)).following
