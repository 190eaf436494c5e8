"""Merchants' own commands by the hundred, and an operator who pauses everything in the midst of them."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any
from uuid import uuid4

import asyncpg

from lab.chaos.evidence import Repeats
from lab.chaos.faults.asking import PATIENCE, CommandRequest, ask, ended, taken_up
from lab.chaos.faults.merchants import MEASURED, maybe_alone
from lab.chaos.hit import Hit
from lab.chaos.kinds import Track, fault
from lab.chaos.testbed import Testbed
from lab.chaos.writers import AWAY

SHARE = 0.4
"""The part of all merchants that ask."""
ASKING = 4
"""How many ask at once."""
RETRIED = 3
"""Events that each asks to be sent again, beside all that have failed."""
PAUSES = 2
HELD = 2.0
"""Seconds for which everything is paused: a second is allowed until that is heeded."""
BETWEEN = 1.0
ENDED_WITHIN = 15.0
KEYS = """
SELECT webhook.create_api_key(merchant_id, $2 || merchant_id, sha256($2::text::bytea), 'flood', 'operator')
FROM unnest($1::text[]) AS asking (merchant_id)
"""
TOKENS = """
SELECT webhook.issue_token(
    $2 || merchant_id, sha256($2::text::bytea), sha256(($2 || merchant_id)::bytea), '1 hour'
)
FROM unnest($1::text[]) AS asking (merchant_id)
"""
GIVE = "SELECT webhook.own_command(sha256($1::text::bytea), $2, $3, $4::timestamptz - interval '1 hour', $4)"
NOW = "SELECT clock_timestamp() AS now"
UNDELIVERED = """
SELECT merchant_id, event_id FROM webhook.deliveries
WHERE merchant_id = ANY($1) AND state <> 'delivered' AND type <> 'webhook.test'
"""
OPEN = """
SELECT id FROM webhook.control
WHERE subject = ANY($1) AND NOT is_operators AND status IN ('pending', 'running')
"""
PAUSED = """
SELECT DISTINCT webhook.merchant_of(merchant_id) AS merchant_id FROM webhook.lane
WHERE paused AND webhook.merchant_of(merchant_id) = ANY($1)
"""


@fault("merchants flood commands, and all is paused", Track.MERCHANTS, Repeats.NONE)
async def flood(testbed: Testbed, hit: Hit) -> None:
    """Let merchants pause, resume, retry and test as fast as they can, and pause everything meanwhile."""
    with testbed.borrow(round(SHARE * len(testbed.merchants))) as merchants:
        async with AsyncExitStack() as stack:
            await maybe_alone(testbed, hit, stack)
            known = f"flood-{uuid4().hex}-"
            await testbed.server.fetch(KEYS, merchants, known, patience=PATIENCE)
            await testbed.server.fetch(TOKENS, merchants, known, patience=PATIENCE)
            if hit.alone_since is not None:
                await testbed.wait(MEASURED)
            hit.begins()
            hit.touches(merchants)
            testbed.heartbeat.worst()
            flooding = asyncio.create_task(_flood(testbed, hit, merchants, known))
            try:
                for _ in range(PAUSES):
                    await _pause_everything(testbed)
            finally:
                await flooding
                hit.slowness = testbed.heartbeat.worst()
                await _settle(testbed, merchants)


async def _flood(testbed: Testbed, hit: Hit, merchants: Sequence[str], known: str) -> None:
    """Give what each merchant may; the book knows before of what may be tried again."""
    [row] = await testbed.server.fetch(NOW, patience=PATIENCE)
    until = row["now"]
    failed: dict[str, list[Any]] = {}
    for row in await testbed.server.fetch(UNDELIVERED, merchants, patience=PATIENCE):
        testbed.book.by_hand[str(row["event_id"])] += 1
        failed.setdefault(row["merchant_id"], []).append(row["event_id"])
    commands = [
        (known + merchant_id, command, event_id, until)
        for command in ("retry_failed", "pause", "retry", "test_event", "resume", "pause", "resume")
        for merchant_id in merchants
        for event_id in (failed.get(merchant_id, [])[-RETRIED:] if command == "retry" else [None])
    ]
    given = sum(await asyncio.gather(*(_give(testbed, commands[number::ASKING]) for number in range(ASKING))))
    hit.note = f"{given} of {len(commands)} commands of {len(merchants)} merchants"


async def _give(testbed: Testbed, commands: Sequence[tuple[Any, ...]]) -> int:
    """Give commands as the Partner API does, until the database is away; return how many it took.

    Some are refused, since too many of the merchant's are open.
    """
    given = 0
    with suppress(*AWAY):
        async with testbed.server.connect("webhook_api", patience=PATIENCE) as merchant:
            for command in commands:
                try:
                    given += await merchant.fetchval(GIVE, *command) is not None
                except asyncpg.PostgresError as error:
                    if error.sqlstate != "WH409":
                        raise
    return given


async def _pause_everything(testbed: Testbed) -> None:
    try:
        await taken_up(testbed, await ask(testbed, [CommandRequest("pause")]))
        await testbed.wait(HELD)
    finally:
        await taken_up(testbed, await ask(testbed, [CommandRequest("resume")]))
    await testbed.wait(BETWEEN)


async def _settle(testbed: Testbed, merchants: Sequence[str]) -> None:
    """Resume those whose own resume was refused."""
    open_ones = [row["id"] for row in await testbed.server.fetch(OPEN, merchants, patience=PATIENCE)]
    await ended(testbed, open_ones, ENDED_WITHIN)
    paused = await testbed.server.fetch(PAUSED, merchants, patience=PATIENCE)
    resumes = await ask(testbed, [CommandRequest("resume", row["merchant_id"]) for row in paused])
    await taken_up(testbed, resumes)
