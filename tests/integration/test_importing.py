"""`endpoint import` against a real database: everything or nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.acceptance import forked
from tests.acceptance.installation import make_key
from tests.acceptance.processes import environment
from tests.servers.database import Database
from tests.waiting import until_found
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.endpoint import EndpointView
from webhook_dispatcher.domain.signing import Keyring, SealedSecret
from webhook_dispatcher.storage.administration import Administration, administration

HELD = "whsec_held-by-the-merchant-already"
CONFIGURE = "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ($1, 'u', '', 'k1')"
ADD = "SELECT result FROM webhook.add_endpoint($1, 'u', '', 'k1', NULL, NULL, NULL)"


class Unaware(Administration):
    """Somebody configures a merchant just after it has looked who is."""

    async def list_endpoints(self, merchant_id: str | None = None) -> list[EndpointView]:
        return []


@asynccontextmanager
async def opened_unaware(dsn: str, pooled: bool) -> AsyncIterator[Administration]:
    async with administration(dsn, pooled) as opened:
        yield Unaware(opened.connection)


async def stored(database: Database) -> dict[str, tuple[str, SealedSecret]]:
    db = await database.connect()
    rows = await db.fetch("SELECT merchant_id, url, key_id, secret FROM webhook.endpoint")
    audits = await db.fetchval("SELECT count(*) FROM webhook.audit WHERE person = 'ana'")
    await db.close()
    assert audits == len(rows)
    return {
        merchant: (url, SealedSecret(key_id, bytes(secret)))
        for merchant, url, key_id, secret in map(tuple, rows)
    }


def test_hundreds_are_configured_together_or_not_at_all(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, file = make_key("k1"), tmp_path / "merchants.csv"
    environ = {f"WEBHOOK_{name}": value for name, value in database.settings("webhook_admin").items()}
    environ["WEBHOOK_SECRET_KEYS"] = keys
    command = ["endpoint", "import", str(file), "--requested-by", "ana"]
    lines = [f"m{number},https://m{number}.example.com/,{HELD}{number}" for number in range(300)]
    file.write_text("\n".join(["merchant_id,url,secret", *lines]))
    assert main(command, CliContext(environ)) == 0
    assert capsys.readouterr().out == "300 configured, 0 replaced\n"
    before = asyncio.run(stored(database))
    assert len(before) == 300
    for number in (0, 299):
        url, sealed = before[f"m{number}"]
        assert url == f"https://m{number}.example.com/"
        assert Keyring.parse(keys).open(f"m{number}", sealed).revealed.decode() == f"{HELD}{number}"
    # By merchant: a0 comes before m7, and is taken back.
    file.write_text("merchant_id,url\na0,https://a0.example.com/\nm7,https://m7.example.com/new\n")
    assert main(command, CliContext(environ, open_administration=opened_unaware)) == 1
    assert "line 3: m7 was changed meanwhile; nothing was done" in capsys.readouterr().err
    assert asyncio.run(stored(database)) == before


async def test_what_locks_the_state_comes_last_so_that_nobody_waits_for_it_with_an_endpoint(
    database: Database, tmp_path: Path
) -> None:
    settings = {**database.settings("webhook_admin"), "SECRET_KEYS": make_key("k1")}
    file = tmp_path / "merchants.csv"
    rows = [
        f"{merchant},https://{merchant}.example.com/,charge.failed" for merchant in ("gone", "m0", "m1", "m2")
    ]
    file.write_text("\n".join(["merchant_id,url,types", *rows]))
    db, watch = await database.connect(), await database.connect()
    importing = ["webhook_dispatcher", "endpoint", "import", str(file), "--replace"]
    # Two have several endpoints, the first of them no number 1 any more; one had several.
    some = tmp_path / "some.csv"
    some.write_text("\n".join(["merchant_id,url,types", *rows[:3]]))
    configuring = [*importing[:-2], str(some)]
    done = await asyncio.to_thread(forked.run, configuring, environment(settings), tmp_path)
    assert done.returncode == 0, done
    for merchant in ("gone", "m0", "m1"):
        assert await db.fetchval(ADD, merchant) == "created"
    await db.execute(
        "DELETE FROM webhook.endpoint WHERE merchant_id = E'm0\\x1f1' OR merchant_id LIKE 'gone%'"
    )
    assert await db.fetchval("SELECT webhook.become_direct('gone')")
    async with db.transaction():
        await db.execute(CONFIGURE, "m2")
        imported = asyncio.create_task(
            asyncio.to_thread(forked.run, importing, environment(settings), tmp_path)
        )

        async def has_come_to_the_second() -> bool:
            return bool(await watch.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

        await until_found(has_come_to_the_second)
        await db.execute("SELECT FROM webhook.state FOR NO KEY UPDATE NOWAIT")
        await db.execute("DELETE FROM webhook.endpoint WHERE merchant_id = 'm2'")
    assert (await imported).returncode == 0
    filters = await db.fetch(
        "SELECT merchant_id, types FROM webhook.endpoints WHERE number = 1 ORDER BY merchant_id"
    )
    assert [tuple(row) for row in filters] == [
        (merchant, ["charge.failed"]) for merchant in ("gone", "m0", "m1", "m2")
    ]
    for connection in (db, watch):
        await connection.close()
