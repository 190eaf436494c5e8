"""The control table at the end of a run, as the judge needs it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from lab.chaos.evidence import Command
from webhook_dispatcher.domain.command import RECOVERED_BY_DEFAULT, CommandName, CommandStatus

_COMMANDS = """
SELECT id, command, status, merchant_id, event_id, args, result, stopping, is_operators,
    extract(epoch FROM created_at)::float8 AS given_at, extract(epoch FROM handled_at)::float8 AS handled_at
FROM webhook.control
ORDER BY id
"""


async def read_commands(connection: asyncpg.Connection, to_monotonic: float) -> list[Command]:
    """Read every command that was given; to_monotonic: what makes an instant one of our clock."""
    return [_read(row, to_monotonic) for row in await connection.fetch(_COMMANDS)]


def done(commands: Sequence[Command], name: str) -> Counter[str]:
    """Count, by event, the commands of one name that were done."""
    return Counter(
        command.event_id
        for command in commands
        if command.name == name and command.status == CommandStatus.DONE and command.event_id is not None
    )


def _read(row: asyncpg.Record, to_monotonic: float) -> Command:
    args = json.loads(row["args"] or "{}")
    given_at = row["given_at"] + to_monotonic
    is_range = row["command"] in (CommandName.RECOVER, CommandName.SKIP)
    period = _period(args, to_monotonic, given_at) if is_range else {}
    return Command(
        id=row["id"],
        name=row["command"],
        status=row["status"],
        given_at=given_at,
        handled_at=None if row["handled_at"] is None else row["handled_at"] + to_monotonic,
        merchant_id=row["merchant_id"],
        event_id=None if row["event_id"] is None else str(row["event_id"]),
        states=_states(args) if row["command"] == CommandName.RECOVER else frozenset(),
        is_whole=not row["stopping"] and "limit" not in args,
        is_operators=row["is_operators"],
        **period,
    )


def _period(args: Mapping[str, Any], to_monotonic: float, given_at: float) -> dict[str, float]:
    """Read what a recover or skip is about: nothing that came after it."""
    instants = {
        name: datetime.fromisoformat(args[name]).timestamp() + to_monotonic
        for name in ("since", "until", "before")
        if name in args
    }
    return {name: min(at, given_at) for name, at in instants.items()}


def _states(args: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(args.get("states") or map(str, RECOVERED_BY_DEFAULT))
