"""One command: command.sql, bound for whoever asks."""

import json
from collections.abc import Mapping
from typing import Any

from webhook_dispatcher.domain.command import CommandView
from webhook_dispatcher.storage.statements import Ask


async def read_command(ask: Ask, command_id: int) -> CommandView | None:
    """Return what became of a command; None where there is none that who asks may see."""
    rows = await ask("read_command", command_id)
    return CommandView(**parsed(rows[0], "result")) if rows else None


def parsed(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Read JSON objects of a row; whoever wrote a command may have written anything else, which is None."""
    return {**row, **{name: _object(row[name]) for name in names}}


def _object(text: str | None) -> Mapping[str, Any] | None:
    found = None if text is None else json.loads(text)
    return found if isinstance(found, dict) else None
