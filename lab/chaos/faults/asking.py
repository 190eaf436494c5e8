"""Asking the daemons for something through the control table."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from lab.chaos.testbed import Testbed

PATIENCE = 20.0
ASK = """
INSERT INTO webhook.control (command, merchant_id, event_id, args, requested_by)
SELECT $1, $2, $3, $4, $5 WHERE NOT EXISTS (SELECT FROM webhook.control WHERE requested_by = $5)
"""
ASKED = "SELECT id FROM webhook.control WHERE requested_by = $1"
WAITING = "SELECT id FROM webhook.control WHERE id = ANY($1) AND status = 'pending'"
GOING_ON = "SELECT id FROM webhook.control WHERE id = ANY($1) AND status IN ('pending', 'running')"
REJECTED = "SELECT command, error_message FROM webhook.control WHERE id = ANY($1) AND status = 'rejected'"


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """One command."""

    command: str
    merchant_id: str | None = None
    event_id: UUID | None = None
    args: dict[str, Any] = field(default_factory=dict)


async def ask(testbed: Testbed, requests: Sequence[CommandRequest]) -> list[int]:
    """Give commands, in this order, each once even if the database is away meanwhile; return their ids."""
    ids = []
    for request in requests:
        asker = f"operator {uuid4()}"
        args = json.dumps(request.args)
        await testbed.server.execute(
            ASK, request.command, request.merchant_id, request.event_id, args, asker, patience=PATIENCE
        )
        ids += [row["id"] for row in await testbed.server.fetch(ASKED, asker, patience=PATIENCE)]
    return ids


async def taken_up(testbed: Testbed, ids: Sequence[int]) -> None:
    """Wait until commands are taken up, however long the daemons are away: short ones are done then."""
    while await testbed.server.fetch(WAITING, ids, patience=PATIENCE):
        await asyncio.sleep(0.05)


async def rejected(testbed: Testbed, ids: Sequence[int]) -> list[str]:
    """Return what was rejected, and why."""
    rows = await testbed.server.fetch(REJECTED, ids, patience=PATIENCE)
    return [f"{row['command']}: {row['error_message']}" for row in rows]


async def ended(testbed: Testbed, ids: Sequence[int], seconds: float) -> None:
    """Wait until commands have ended, for so many seconds at most."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and await testbed.server.fetch(GOING_ON, ids, patience=PATIENCE):
        await testbed.wait(0.1)
