"""What the first migration made: the statements of inventory.sql, bound."""

from dataclasses import dataclass
from datetime import timedelta

from webhook_dispatcher.storage.connection import as_owner, connect, translated
from webhook_dispatcher.storage.statements import load

PATIENCE = timedelta(seconds=30)
_STATEMENTS = load("inventory")


@dataclass(frozen=True, slots=True)
class Inventory:
    """How much there is. roles: those that the server had not."""

    schema_version: int
    tables: int
    views: int
    partitions: int
    roles: list[str]


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a migration did. applied: the names of its files; made: None where there was a schema already."""

    applied: tuple[str, ...]
    made: Inventory | None


async def read_roles(dsn: str) -> list[str]:
    """Name the schema's roles that the server has; not as the owner, who may be missing."""
    connection = await connect(dsn, application_name="webhook-dispatcher migrate", command_timeout=PATIENCE)
    try:
        with translated():
            return [row["role"] for row in await connection.fetch(_STATEMENTS["read_roles"].text)]
    finally:
        await connection.close()


async def read(dsn: str, known_roles: list[str]) -> Inventory:
    """Count what there is now; known_roles: those that there were before."""
    roles = [role for role in await read_roles(dsn) if role not in known_roles]
    async with as_owner(dsn, PATIENCE) as connection:
        with translated():
            row = await connection.fetchrow(_STATEMENTS["read_inventory"].text)
    assert row is not None
    return Inventory(**row, roles=roles)
