"""What a statement reads: prepared as the daemon prepares it, planned for its values and in general.

The daemon's sessions that claim and record ask for the general plan from the start (docs/adr/0013); through
a pooler the server plans for the values.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from webhook_dispatcher.storage.statements import Statement

PLANS = pytest.mark.parametrize("plan_cache_mode", ["force_custom_plan", "force_generic_plan"])


def kept_plans(quick: str) -> pytest.MarkDecorator:
    """Try the plans of sessions that keep them; those through a pooler, for each question its own, are slow.

    quick: the test, by its file below tests.
    """
    of_a_pooler = pytest.param("force_custom_plan", marks=pytest.mark.slow(quick))
    return pytest.mark.parametrize("plan_cache_mode", ["force_generic_plan", of_a_pooler])


@dataclass(frozen=True, slots=True)
class Cost:
    """One executed plan."""

    plan: dict[str, Any]

    milliseconds: float = 0.0

    @property
    def buffers(self) -> int:
        """Count all buffers: what a WITH changes at the end is not among those of the topmost node."""
        return sum(_own_buffers(node) for node in self.nodes())

    def buffers_of(self, part: str) -> int:
        """Count the buffers of tables that have this in their names, and of their indexes."""
        return sum(
            _own_buffers(node)
            for node in self.nodes()
            if part in node.get("Relation Name", "") + node.get("Index Name", "")
        )

    @property
    def most_handled(self) -> float:
        """Return the most rows that one node of the plan read or compared."""
        most: float = max(_handled(node) * node["Actual Loops"] for node in self.nodes())
        return most

    def nodes(self) -> Iterator[dict[str, Any]]:
        waiting = [self.plan]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])

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
    types = _bracketed(sqltype for _, sqltype in statement.parameters)
    await connection.execute(f"PREPARE {name}{types} AS {statement.text}")


async def execute(connection: asyncpg.Connection, name: str, *values: str) -> Cost:
    """Execute a prepared statement for its plan; values are SQL."""
    explained = await _explained(connection, "ANALYZE, BUFFERS", name, values)
    return Cost(explained["Plan"], explained["Execution Time"])


async def is_compiled(connection: asyncpg.Connection, name: str, *values: str) -> bool:
    """Tell whether a prepared statement would be compiled, which takes far longer than to plan it."""
    return "JIT" in await _explained(connection, "ANALYZE off", name, values)


async def _explained(
    connection: asyncpg.Connection, options: str, name: str, values: Iterable[str]
) -> dict[str, Any]:
    text = await connection.fetchval(f"EXPLAIN ({options}, FORMAT JSON) EXECUTE {name}{_bracketed(values)}")
    explained: dict[str, Any] = json.loads(text)[0]
    return explained


def _own_buffers(node: dict[str, Any]) -> int:
    """Count what a node read itself; where a WITH is read, it is the WITH's nodes that do."""
    if node["Node Type"] == "CTE Scan":
        return 0
    below = [child for child in node.get("Plans", []) if child["Parent Relationship"] != "InitPlan"]
    return max(0, _buffers(node) - sum(map(_buffers, below)))


def _buffers(node: dict[str, Any]) -> int:
    return int(node["Shared Hit Blocks"]) + int(node["Shared Read Blocks"])


def _handled(node: dict[str, Any]) -> float:
    thrown_away: float = sum(rows for name, rows in node.items() if name.startswith("Rows Removed by"))
    return float(node["Actual Rows"]) + thrown_away


def _bracketed(entries: Iterable[str]) -> str:
    text = ", ".join(entries)
    return f" ({text})" if text else ""
