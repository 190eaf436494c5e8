"""What operators do while the daemons run: endpoints changed, merchants paused, rows locked and edited."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from tests.chaos.evidence import Repeats
from tests.chaos.faults import storm  # noqa: F401 (it registers)
from tests.chaos.faults.asking import PATIENCE, CommandRequest, ask, rejected, taken_up
from tests.chaos.faults.hold import hold_over_all
from tests.chaos.hit import Hit
from tests.chaos.kinds import NotHitError, Track, fault
from tests.chaos.stage import Stage
from webhook_dispatcher.dispatch.attempt import RETRY_WAIT

ROTATE = """
UPDATE webhook.endpoint SET
    previous_secret = CASE WHEN $4 THEN secret END,
    previous_key_id = CASE WHEN $4 THEN key_id END,
    previous_until = CASE WHEN $4 THEN clock_timestamp() + interval '1 second' END,
    secret = $2, key_id = $3, secret_created_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE merchant_id = $1
"""
SET = """
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ($1, $2, $3, $4)
ON CONFLICT (merchant_id) DO NOTHING
"""
UNSET = "DELETE FROM webhook.endpoint WHERE merchant_id = ANY($1)"
HEADS = """
SELECT merchant_id FROM webhook.outbox
WHERE seq IN (
    SELECT min(seq) FROM webhook.outbox
    WHERE merchant_id = ANY($1) AND due_at IS NULL
    GROUP BY merchant_id
)
ORDER BY seq
FOR UPDATE
"""
RETRIES = """
SELECT merchant_id FROM webhook.outbox
WHERE merchant_id = ANY($1) AND due_at IS NOT NULL
ORDER BY seq
LIMIT 20
FOR UPDATE SKIP LOCKED
"""
LANES = "SELECT merchant_id FROM webhook.lane WHERE merchant_id = ANY($1) ORDER BY merchant_id FOR UPDATE"
CHOSEN = """
SELECT id FROM webhook.outbox WHERE merchant_id = ANY($1)
ORDER BY random()
LIMIT 5
FOR UPDATE SKIP LOCKED
"""
DELETE = "DELETE FROM webhook.outbox WHERE id = ANY($1)"
MISLED = (
    "UPDATE webhook.lane SET retry_at = 'infinity' WHERE merchant_id = ANY($1)",
    "UPDATE webhook.lane SET from_seq = 0 WHERE merchant_id = ANY($1)",
    "UPDATE webhook.outbox SET due_at = clock_timestamp() + random() * interval '1 second' "
    "WHERE merchant_id = ANY($1) AND due_at IS NOT NULL AND claim IS NULL",
)


@fault("merchants paused and resumed", Track.OPERATORS, Repeats.NONE)
async def pause_merchants(stage: Stage, hit: Hit) -> None:
    """Pause a few for a while."""
    with stage.borrow(4) as merchants:
        hit.touches(merchants)
        await _pause(stage, hit, list(merchants))


@fault("everything paused and resumed", Track.OPERATORS, Repeats.NONE)
async def pause_everything(stage: Stage, hit: Hit) -> None:
    """Pause everybody for a while."""
    hit.stops_all = True
    await _pause(stage, hit, [None])


async def _pause(stage: Stage, hit: Hit, whom: Sequence[str | None]) -> None:
    pauses: list[int] = []
    try:
        pauses = await ask(stage, [CommandRequest("pause", merchant_id) for merchant_id in whom])
        await taken_up(stage, pauses)
        await stage.wait(stage.random.uniform(0.5, 2))
    finally:
        resumes = await ask(stage, [CommandRequest("resume", merchant_id) for merchant_id in whom])
        await taken_up(stage, resumes)
    hit.note = "; ".join(await rejected(stage, [*pauses, *resumes]))


@fault("secrets rotated", Track.OPERATORS, Repeats.NONE)
async def rotate(stage: Stage, hit: Hit) -> None:
    """Give merchants another secret of theirs; the one before goes on for a second, or not at all."""
    with stage.borrow(10) as merchants:
        hit.touches(merchants)
        for merchant_id in merchants:
            sealed = stage.keyring.seal(merchant_id, stage.random.choice(stage.secrets[merchant_id]))
            keeps_old = stage.random.random() < 0.5
            await stage.server.execute(
                ROTATE, merchant_id, sealed.sealed, sealed.key_id, keeps_old, patience=PATIENCE
            )


@fault("URLs changed", Track.OPERATORS, Repeats.NONE)
async def change_urls(stage: Stage, hit: Hit) -> None:
    """Send merchants' events to another spelling of their URL, by command."""
    with stage.borrow(5) as merchants:
        hit.touches(merchants)
        spelling = f"?n={stage.random.randrange(1000)}"
        requests = [
            CommandRequest("set_url", name, args={"url": stage.url(name) + spelling}) for name in merchants
        ]
        ids = await ask(stage, requests)
        await taken_up(stage, ids)
        hit.note = "; ".join(await rejected(stage, ids))


@fault("endpoints removed and set again", Track.OPERATORS, Repeats.NONE)
async def remove_endpoints(stage: Stage, hit: Hit) -> None:
    """Leave a few merchants without an endpoint for a while."""
    with stage.borrow(6) as merchants:
        hit.touches(merchants)
        hit.lingers = RETRY_WAIT.total_seconds()  # for retries that came due meanwhile
        stage.book.unconfigured.update(merchants)
        try:
            await stage.server.execute(UNSET, merchants, patience=PATIENCE)
            await stage.wait(stage.random.uniform(0.2, 1.5))
        finally:
            for merchant_id in merchants:
                sealed = stage.keyring.seal(merchant_id, stage.random.choice(stage.secrets[merchant_id]))
                url = stage.url(merchant_id)
                await stage.server.execute(
                    SET, merchant_id, url, sealed.sealed, sealed.key_id, patience=PATIENCE
                )


@fault("head rows locked", Track.OPERATORS, Repeats.NONE)
async def lock_heads(stage: Stage, hit: Hit) -> None:
    """Hold merchants' oldest unattempted rows, for longer than a lease."""
    await _lock(stage, hit, HEADS, 60)


@fault("retry rows locked", Track.OPERATORS, Repeats.EXPOSED)
async def lock_retries(stage: Stage, hit: Hit) -> None:
    """Hold rows that wait for a retry or are in flight, for longer than a lease: claims lapse meanwhile."""
    await _lock(stage, hit, RETRIES, 60)


@fault("lanes locked", Track.OPERATORS, Repeats.EXPOSED)
async def lock_lanes(stage: Stage, hit: Hit) -> None:
    """Hold lanes, for longer than a lease: they can be neither renewed nor recorded for meanwhile."""
    await _lock(stage, hit, LANES, 20)


async def _lock(stage: Stage, hit: Hit, statement: str, most: int) -> None:
    with stage.borrow(most) as merchants:
        async with _locked(stage, statement, merchants) as locked:
            hit.begins()
            hit.touches(locked)
            hit.note = f"{len(locked)} merchants"
            await hold_over_all(stage, hit, stage.lease * 1.2)


@asynccontextmanager
async def _locked(stage: Stage, statement: str, merchants: list[str]) -> AsyncIterator[set[str]]:
    """Lock rows as soon as there are any, and keep them while entered."""
    async with stage.server.connect(patience=PATIENCE) as operator:
        for _ in range(40):
            async with operator.transaction():
                try:
                    rows = await operator.fetch(statement, merchants)
                except asyncpg.LockNotAvailableError:
                    raise NotHitError("somebody else holds them") from None
                if rows:
                    yield {row["merchant_id"] for row in rows}
                    return
            await stage.wait(0.05)
    raise NotHitError("there was nothing to lock")


@fault("rows edited and deleted", Track.OPERATORS, Repeats.NONE)
async def edit_rows(stage: Stage, hit: Hit) -> None:
    """Delete owed rows, and mislead lanes about what is owed; sweeps put that right."""
    with stage.borrow(30) as merchants:
        hit.touches(merchants)
        async with stage.server.connect(patience=PATIENCE) as operator, operator.transaction():
            deleted = [row["id"] for row in await operator.fetch(CHOSEN, merchants)]
            # Before the commit: if its answer is lost, they may be gone all the same.
            stage.book.deleted.update(map(str, deleted))
            await operator.execute(DELETE, deleted)
        misleading = stage.random.randrange(len(MISLED))
        await stage.server.execute(MISLED[misleading], merchants, patience=PATIENCE)
        hit.note = f"{len(deleted)} deleted, edit {misleading + 1}"


@fault("late commits", Track.OPERATORS, Repeats.NONE)
async def commit_late(stage: Stage, hit: Hit) -> None:
    """Take numbers and keep the transactions open; later ones overtake them, and some are rolled back."""
    with stage.borrow(8) as merchants:
        ends = [(stage.random.uniform(0.5, 5), stage.random.random() < 0.7) for _ in merchants]
        async with asyncio.TaskGroup() as group:
            for merchant_id, (seconds, commits) in zip(merchants, ends, strict=True):
                group.create_task(stage.writers.write_late(merchant_id, seconds, commits))
        hit.note = f"{sum(commits for _, commits in ends)} of {len(ends)} committed"
