"""What operators do while the daemons run: endpoints changed, merchants paused, rows locked and edited."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg

from lab.chaos.evidence import Life, Repeats
from lab.chaos.faults import endpoints, ranges, storm, withdrawals  # noqa: F401 (they register)
from lab.chaos.faults.asking import PATIENCE, CommandRequest, ask, rejected, taken_up
from lab.chaos.faults.hold import hold_over_all
from lab.chaos.hit import Hit
from lab.chaos.kinds import NotHitError, Track, fault
from lab.chaos.labels import label_of, merchant_of, number_of
from lab.chaos.merchants import WANTED
from lab.chaos.testbed import Testbed
from webhook_dispatcher.dispatch.attempt import ENDPOINT_WAIT

ROTATE = """
UPDATE webhook.endpoint SET
    previous_secret = CASE WHEN $4 THEN secret END,
    previous_key_id = CASE WHEN $4 THEN key_id END,
    previous_until = CASE WHEN $4 THEN clock_timestamp() + interval '1 second' END,
    secret = $2, key_id = $3, secret_created_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE webhook.merchant_of(merchant_id) = $1
"""
UNSET = """
DELETE FROM webhook.endpoint
USING unnest($1::text[]) AS named (merchant_id)
WHERE endpoint.merchant_id = webhook.lane_of(named.merchant_id, 1::smallint)
"""
SET_TYPES = """
UPDATE webhook.endpoint SET types = $3
FROM unnest($1::text[], $2::smallint[]) AS named (merchant_id, number)
WHERE endpoint.merchant_id = webhook.lane_of(named.merchant_id, named.number)
"""
WANTED_MEANWHILE = (WANTED[-1], "charge.split_completed")
HEADS = """
SELECT merchant_id FROM webhook.outbox
WHERE seq IN (
    SELECT min(seq) FROM webhook.outbox
    WHERE webhook.merchant_of(merchant_id) = ANY($1) AND due_at IS NULL
    GROUP BY merchant_id
)
ORDER BY seq
FOR UPDATE
"""
RETRIES = """
SELECT merchant_id FROM webhook.outbox
WHERE webhook.merchant_of(merchant_id) = ANY($1) AND due_at IS NOT NULL
ORDER BY seq
LIMIT 20
FOR UPDATE SKIP LOCKED
"""
LANES = """
SELECT merchant_id FROM webhook.lane WHERE webhook.merchant_of(merchant_id) = ANY($1)
ORDER BY merchant_id
FOR UPDATE
"""
CHOSEN = """
SELECT id FROM webhook.outbox WHERE webhook.merchant_of(merchant_id) = ANY($1)
ORDER BY random()
LIMIT 5
FOR UPDATE SKIP LOCKED
"""
DELETE = "DELETE FROM webhook.outbox WHERE id = ANY($1)"
MISLED = (
    "UPDATE webhook.lane SET retry_at = 'infinity' WHERE webhook.merchant_of(merchant_id) = ANY($1)",
    "UPDATE webhook.lane SET from_seq = 0 WHERE webhook.merchant_of(merchant_id) = ANY($1)",
    "UPDATE webhook.outbox SET due_at = clock_timestamp() + random() * interval '1 second' "
    "WHERE webhook.merchant_of(merchant_id) = ANY($1) AND due_at IS NOT NULL AND claim IS NULL",
)


@fault("merchants paused and resumed", Track.OPERATORS, Repeats.NONE)
async def pause_merchants(testbed: Testbed, hit: Hit) -> None:
    """Pause a few for a while."""
    with testbed.borrow(4) as merchants:
        hit.touches(merchants)
        await _pause(testbed, hit, list(merchants))


@fault("everything paused and resumed", Track.OPERATORS, Repeats.NONE)
async def pause_everything(testbed: Testbed, hit: Hit) -> None:
    """Pause everybody for a while."""
    hit.stops_all = True
    await _pause(testbed, hit, [None])


async def _pause(testbed: Testbed, hit: Hit, whom: Sequence[str | None]) -> None:
    pauses: list[int] = []
    try:
        pauses = await ask(testbed, [CommandRequest("pause", merchant_id) for merchant_id in whom])
        await taken_up(testbed, pauses)
        await testbed.wait(testbed.random.uniform(0.5, 2))
    finally:
        resumes = await ask(testbed, [CommandRequest("resume", merchant_id) for merchant_id in whom])
        await taken_up(testbed, resumes)
    hit.note = "; ".join(await rejected(testbed, [*pauses, *resumes]))


@fault("secrets rotated", Track.OPERATORS, Repeats.NONE)
async def rotate(testbed: Testbed, hit: Hit) -> None:
    """Give merchants another secret of theirs; the one before goes on for a second, or not at all."""
    with testbed.borrow(10) as merchants:
        hit.touches(merchants)
        for merchant_id in merchants:
            sealed = testbed.keyring.seal(merchant_id, testbed.random.choice(testbed.secrets[merchant_id]))
            keeps_old = testbed.random.random() < 0.5
            await testbed.server.execute(
                ROTATE, merchant_id, sealed.sealed, sealed.key_id, keeps_old, patience=PATIENCE
            )


@fault("URLs changed", Track.OPERATORS, Repeats.NONE)
async def change_urls(testbed: Testbed, hit: Hit) -> None:
    """Send merchants' events to another spelling of their URL, by command."""
    with testbed.borrow(5) as merchants:
        hit.touches(merchants)
        spelling = f"?n={testbed.random.randrange(1000)}"
        requests = [
            CommandRequest("set_url", name, args={"url": testbed.url(name) + spelling}) for name in merchants
        ]
        ids = await ask(testbed, requests)
        await taken_up(testbed, ids)
        hit.note = "; ".join(await rejected(testbed, ids))


@fault("filters changed", Track.OPERATORS, Repeats.NONE)
async def change_filters(testbed: Testbed, hit: Hit) -> None:
    """Let endpoints want other types for a while: one that they want anyway, one that they do not."""
    with testbed.borrow(4, list(testbed.book.filters)) as names:
        hit.touches(names)
        about = list(map(merchant_of, names)), list(map(number_of, names))
        for name in names:
            testbed.book.filters[name] |= {frozenset(WANTED_MEANWHILE), frozenset(WANTED)}
        try:
            await testbed.server.execute(SET_TYPES, *about, WANTED_MEANWHILE, patience=PATIENCE)
            await testbed.wait(testbed.random.uniform(0.2, 1.5))
        finally:
            await testbed.server.execute(SET_TYPES, *about, WANTED, patience=PATIENCE)


@fault("endpoints removed and set again", Track.OPERATORS, Repeats.NONE)
async def remove_endpoints(testbed: Testbed, hit: Hit) -> None:
    """Leave a few merchants without an endpoint for a while."""
    with testbed.borrow(6) as merchants:
        hit.touches(merchants)
        hit.lingers = ENDPOINT_WAIT.total_seconds()  # for retries that came due meanwhile
        testbed.book.unconfigured.update(merchants)
        gap = Life(removed_from=await testbed.given())
        try:
            await testbed.server.execute(UNSET, merchants, patience=PATIENCE)
            await testbed.wait(testbed.random.uniform(0.2, 1.5))
        finally:
            for merchant_id in merchants:
                await testbed.set_endpoint(merchant_id)
                ended = replace(gap, removed_by=await testbed.given())
                testbed.book.gaps.setdefault(merchant_id, []).append(ended)


@fault("head rows locked", Track.OPERATORS, Repeats.NONE)
async def lock_heads(testbed: Testbed, hit: Hit) -> None:
    """Hold merchants' oldest unattempted rows, for longer than a lease."""
    await _lock(testbed, hit, HEADS, 60)


@fault("retry rows locked", Track.OPERATORS, Repeats.EXPOSED)
async def lock_retries(testbed: Testbed, hit: Hit) -> None:
    """Hold rows that wait for a retry or are in flight, for longer than a lease: claims lapse meanwhile."""
    await _lock(testbed, hit, RETRIES, 60)


@fault("lanes locked", Track.OPERATORS, Repeats.EXPOSED)
async def lock_lanes(testbed: Testbed, hit: Hit) -> None:
    """Hold lanes, for longer than a lease: they can be neither renewed nor recorded for meanwhile."""
    await _lock(testbed, hit, LANES, 20)


async def _lock(testbed: Testbed, hit: Hit, statement: str, most: int) -> None:
    with testbed.borrow(most) as merchants:
        async with _locked(testbed, statement, merchants) as locked:
            hit.begins()
            hit.touches(locked)
            hit.note = f"{len(locked)} merchants"
            await hold_over_all(testbed, hit, testbed.lease * 1.2)


@asynccontextmanager
async def _locked(testbed: Testbed, statement: str, merchants: list[str]) -> AsyncIterator[set[str]]:
    """Lock rows as soon as there are any, and keep them while entered."""
    async with testbed.server.connect(patience=PATIENCE) as operator:
        for _ in range(40):
            async with operator.transaction():
                try:
                    rows = await operator.fetch(statement, merchants)
                except asyncpg.LockNotAvailableError:
                    raise NotHitError("somebody else holds them") from None
                if rows:
                    yield {label_of(row["merchant_id"]) for row in rows}
                    return
            await testbed.wait(0.05)
    raise NotHitError("there was nothing to lock")


@fault("rows edited and deleted", Track.OPERATORS, Repeats.NONE)
async def edit_rows(testbed: Testbed, hit: Hit) -> None:
    """Delete owed rows, and mislead lanes about what is owed; sweeps put that right."""
    with testbed.borrow(30) as merchants:
        hit.touches(merchants)
        async with testbed.server.connect(patience=PATIENCE) as operator, operator.transaction():
            deleted = [row["id"] for row in await operator.fetch(CHOSEN, merchants)]
            # Before the commit: if its answer is lost, they may be gone all the same.
            testbed.book.deleted.update(map(str, deleted))
            await operator.execute(DELETE, deleted)
        misleading = testbed.random.randrange(len(MISLED))
        await testbed.server.execute(MISLED[misleading], merchants, patience=PATIENCE)
        hit.note = f"{len(deleted)} deleted, edit {misleading + 1}"


@fault("late commits", Track.OPERATORS, Repeats.NONE)
async def commit_late(testbed: Testbed, hit: Hit) -> None:
    """Take numbers and keep the transactions open; later ones overtake them, and some are rolled back."""
    with testbed.borrow(8) as merchants:
        ends = [(testbed.random.uniform(0.5, 5), testbed.random.random() < 0.7) for _ in merchants]
        async with asyncio.TaskGroup() as group:
            for merchant_id, (seconds, commits) in zip(merchants, ends, strict=True):
                group.create_task(testbed.writers.write_late(merchant_id, seconds, commits))
        hit.note = f"{sum(commits for _, commits in ends)} of {len(ends)} committed"
