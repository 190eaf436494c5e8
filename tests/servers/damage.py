"""Real damage: values whose stored pieces are gone, as after a failed disk.

A value beyond 2 kB is kept in pieces in a table of its own (TOAST). Without them its row can be seen but not
read, and not updated either where a check reads the value.
"""

import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from tests.waiting import until_found

PAGE = (Path(__file__).parents[2] / "docs" / "operate" / "standing-still.md").read_text(encoding="utf-8")
ARE_ALONE = """
SELECT count(*) = 0 FROM pg_stat_activity
WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
"""


def large_object() -> str:
    """Make a JSON object that is too large for its row and cannot be compressed into it."""
    return json.dumps({"id": secrets.token_hex(8_000)})


@asynccontextmanager
async def damaging(
    superuser: asyncpg.Connection, table: str = "webhook.outbox", *, is_stuck: bool = False
) -> AsyncIterator[None]:
    """Lose what is stored in pieces while entered.

    is_stuck: the pieces' remains stand in the way of deleting the row, too; else only reading fails.
    """
    pieces = await superuser.fetchval(
        "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = $1::text::regclass", table
    )
    before = await _values(superuser, pieces)
    yield
    lost = await _values(superuser, pieces) - before
    assert lost, "nothing was large enough"
    async with superuser.transaction():
        # Only a plain table may be written to.
        await superuser.execute("UPDATE pg_class SET relkind = 'r' WHERE oid = $1::text::regclass", pieces)
        await superuser.execute(f"DELETE FROM {pieces} WHERE chunk_id = ANY($1::oid[])", list(lost))
        await superuser.execute("UPDATE pg_class SET relkind = 't' WHERE oid = $1::text::regclass", pieces)
    if not is_stuck:
        # A vacuum leaves what an open snapshot may still see, such as autovacuum's.
        await until_found(lambda: superuser.fetchval(ARE_ALONE))
        await superuser.execute(f"VACUUM {pieces}")


async def _values(superuser: asyncpg.Connection, pieces: str) -> set[int]:
    return {row["chunk_id"] for row in await superuser.fetch(f"SELECT DISTINCT chunk_id FROM {pieces}")}


def documented(name: str, seq: int = 0) -> str:
    """Return a statement as the page for operators has it, with this number in place of the example's."""
    [text] = re.findall(rf"<!-- statement: {name} -->\n *```sql\n(.*?)```", PAGE, re.DOTALL)
    assert text.count("4711") == (seq > 0)
    return str(text).replace("4711", str(seq))
