"""Nothing is compiled, where the server would compile everything: it would cost more than the statements."""

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.world import World
from tests.integration.everything import Bearable, do_everything
from tests.integration.own_server import own_server, programs
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema

COMPILES_ALL = {
    "shared_preload_libraries": "pg_stat_statements",
    "jit": "on",
    "jit_above_cost": "0",
    "jit_inline_above_cost": "0",
    "jit_optimize_above_cost": "0",
}
COMPILED = """
SELECT query FROM pg_stat_statements WHERE userid::regrole = ANY($1::text[]::regrole[]) AND jit_functions > 0
"""
ROLES = ["webhook_dispatcher", "webhook_admin"]


def has_jit() -> bool:
    """Tell whether this server's programs come with what compiles (pg_jit_available() says the same)."""
    return any((programs().parent / "lib").rglob("llvmjit.so"))


@pytest.fixture
def compiling() -> Iterator[EmbeddedPostgres]:
    if not has_jit():
        pytest.skip("this PostgreSQL is built without JIT (Debian's postgresql-15 has it)")
    with own_server(COMPILES_ALL) as server:
        yield server


async def test_no_statement_of_ours_is_compiled(compiling: EmbeddedPostgres, tmp_path: Path) -> None:
    await schema.migrate(compiling.dsn())
    async with World(Bearable(compiling, "postgres"), tmp_path) as world:
        await world.owner.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
        await do_everything(world)
        assert await world.owner.fetch(COMPILED, ROLES) == []
        # It would have been seen: the same server compiles for whoever does not say no.
        stranger = await asyncpg.connect(compiling.dsn("webhook_dispatcher"))
        await stranger.fetch("SELECT merchant_id FROM webhook.lane WHERE epoch > 0")
        await stranger.close()
        assert len(await world.owner.fetch(COMPILED, ROLES)) == 1
