"""What a statement reads: prepared as the daemon prepares it, planned for its values and in general.

The daemon's sessions that claim and record ask for the general plan from the start (docs/adr/0013); through
a pooler the server plans for the values.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from webhook_dispatcher.storage.statements import Statement

PLANS = pytest.mark.parametrize("plan_cache_mode", ["force_custom_plan", "force_generic_plan"])


@dataclass(frozen=True, slots=True)
class Cost:
    """One executed plan."""

    plan: dict[str, Any]

    @property
    def buffers(self) -> int:
        return int(self.plan["Shared Hit Blocks"]) + int(self.plan["Shared Read Blocks"])

    def nodes(self) -> Iterator[dict[str, Any]]:
        waiting = [self.plan]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])

    def most_rows(self, table: str) -> float:
        """Return the most rows of a table that one node of the plan read, those it threw away included."""
        most: float = max(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in self.nodes()
            if node.get("Relation Name") == table and "Scan" in node["Node Type"]
        )
        return most

    def indexes(self, table: str) -> set[str]:
        """Name how a table was read: its indexes, or the node that used none."""
        return {
            str(node.get("Index Name", node["Node Type"]))
            for node in self.nodes()
            if node.get("Relation Name") == table and "Scan" in node["Node Type"]
        }


async def explain(
    connection: asyncpg.Connection, name: str, statement: Statement, plan_cache_mode: str, *values: str
) -> Cost:
    """Prepare a statement under a name, and execute it once for its plan; values are SQL."""
    await prepare(connection, name, statement)
    async with connection.transaction():
        await connection.execute(f"SET LOCAL plan_cache_mode = {plan_cache_mode}")
        return await execute(connection, name, *values)


async def prepare(connection: asyncpg.Connection, name: str, statement: Statement) -> None:
    """Prepare a statement under a name; it is planned when it is executed."""
    types = ", ".join(sqltype for _, sqltype in statement.parameters)
    await connection.execute(f"PREPARE {name} ({types}) AS {statement.text}")


async def execute(connection: asyncpg.Connection, name: str, *values: str) -> Cost:
    """Execute a prepared statement for its plan; values are SQL."""
    text = await connection.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {name} ({', '.join(values)})"
    )
    return Cost(json.loads(text)[0]["Plan"])
