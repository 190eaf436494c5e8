"""Nothing is compiled, where the server would compile everything: it would cost more than the statements."""

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.installation import Installation
from tests.integration.every_operation import Bearable, do_everything
from tests.servers import COMPILES_ALL, has_jit, programs, wanted_settings
from tests.servers.database import own_server
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema

COMPILED = """
SELECT query FROM pg_stat_statements WHERE userid::regrole = ANY($1::text[]::regrole[]) AND jit_functions > 0
"""
ROLES = ["webhook_dispatcher", "webhook_admin"]


@pytest.fixture
def compiling() -> Iterator[EmbeddedPostgres]:
    if not has_jit(programs()) and wanted_settings() != "jit":
        pytest.skip("this PostgreSQL is built without JIT (Debian's postgresql-15 has it)")
    with own_server({**COMPILES_ALL, "shared_preload_libraries": "pg_stat_statements"}) as server:
        yield server


async def test_no_statement_of_ours_is_compiled(compiling: EmbeddedPostgres, tmp_path: Path) -> None:
    await schema.migrate(compiling.dsn())
    async with Installation(Bearable(compiling, "postgres"), tmp_path) as installation:
        await installation.owner.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
        await do_everything(installation)
        assert await installation.owner.fetch(COMPILED, ROLES) == []
        # It would have been seen: the same server compiles for whoever does not say no.
        stranger = await asyncpg.connect(compiling.dsn("webhook_dispatcher"))
        await stranger.fetch("SELECT merchant_id FROM webhook.lane WHERE epoch > 0")
        await stranger.close()
        assert len(await installation.owner.fetch(COMPILED, ROLES)) == 1
