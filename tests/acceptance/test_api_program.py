"""`webhook-dispatcher api` on a real database: what it refuses to run with, and when it is ready."""

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.api_process import ANYWHERE
from tests.acceptance.processes import Daemon, http_get
from tests.acceptance.raw_http import asked
from tests.servers.database import Database
from tests.waiting import until_found
from webhook_dispatcher.api import catalogue as codes

KEY = base64.b64encode(b"k" * 32).decode()


@contextmanager
def started(folder: Path, settings: Mapping[str, str], program: str = "api") -> Iterator[Daemon]:
    named = ("webhook_dispatcher", program)
    daemon = Daemon.spawn({**ANYWHERE, **settings}, folder / "log", folder, named)
    try:
        yield daemon
    finally:
        daemon.kill()


async def test_it_serves_and_says_that_it_is_ready(database: Database, tmp_path: Path) -> None:
    with started(tmp_path, database.settings("webhook_api")) as daemon:
        line = await daemon.logged("api.started")
        assert await http_get(line["ops_port"], "/readyz") == (200, "ready\n")
        reply = await asked(line["port"], b"GET /v1/webhook HTTP/1.1\r\nHost: api\r\n\r\n")
        assert (reply.status, reply.error["code"]) == (401, codes.TOKEN_MISSING)
        daemon.terminate()
        assert await daemon.ended() == 0
        assert daemon.problems() == []


async def test_it_does_not_hold_the_keys_that_open_secrets(database: Database, tmp_path: Path) -> None:
    with started(tmp_path, database.settings("webhook_api") | {"SECRET_KEYS": f"k1:{KEY}"}) as daemon:
        assert await daemon.ended() == 2
        assert "must not hold the keys that open secrets" in daemon.log_file.read_text()


@pytest.mark.parametrize("user", ["webhook_dispatcher", "postgres"])
async def test_it_does_not_connect_as_who_may_read_secrets(
    database: Database, tmp_path: Path, user: str
) -> None:
    with started(tmp_path, database.settings(user)) as daemon:
        assert await daemon.ended() == 2
        said = daemon.log_file.read_text()
        assert "this database user may read webhook.endpoint.secret" in said
        assert "connect as webhook_api" in said


@pytest.mark.parametrize("program", ["api", "console"])
@pytest.mark.parametrize("user", ["webhook_producer", "webhook_admin"])
async def test_who_connects_as_somebody_else_is_told_as_whom(
    database: Database, tmp_path: Path, program: str, user: str
) -> None:
    with started(tmp_path, database.settings(user), program) as daemon:
        assert await daemon.ended() == 2
        assert re.search(f"connects? as webhook_{program}", daemon.log_file.read_text())


async def test_it_needs_a_database(tmp_path: Path) -> None:
    with started(tmp_path, {}) as daemon:
        assert await daemon.ended() == 2
        assert "WEBHOOK_DATABASE_URL" in daemon.log_file.read_text()


async def test_an_address_that_is_taken_is_named(database: Database, tmp_path: Path) -> None:
    with started(tmp_path, database.settings("webhook_api")) as first:
        port = (await first.logged("api.started"))["port"]
        (tmp_path / "second").mkdir()
        taken = {**database.settings("webhook_api"), "API_ADDRESS": f"127.0.0.1:{port}"}
        with started(tmp_path / "second", taken) as second:
            assert await second.ended() == 2
            assert f"WEBHOOK_API_ADDRESS: cannot listen on 127.0.0.1:{port}" in second.log_file.read_text()


@pytest.mark.scaled_time
async def test_another_schema_ends_it_at_the_start_and_later(database: Database, tmp_path: Path) -> None:
    connection = await database.connect()
    with started(tmp_path, database.settings("webhook_api")) as daemon:
        await daemon.logged("api.started")
        await connection.execute("UPDATE webhook.state SET compatible_from = 99, schema_version = 99")
        assert await daemon.ended() == 3
    with started(tmp_path, database.settings("webhook_api")) as daemon:
        assert await daemon.ended() == 3
    await connection.close()


async def test_another_installation_is_refused(database: Database, tmp_path: Path) -> None:
    connection = await database.connect()
    await connection.execute("UPDATE webhook.state SET installation = 'prod'")
    await connection.close()
    with started(tmp_path, database.settings("webhook_api") | {"INSTALLATION": "staging"}) as daemon:
        assert await daemon.ended() == 2
        assert "belongs to 'prod'" in daemon.log_file.read_text()


async def test_a_database_that_is_away_is_named_and_the_others_are_served(
    database: Database, tmp_path: Path
) -> None:
    urls = f"eu1={database.dsn('webhook_api')} eu2=postgresql://nobody@127.0.0.1:1/none"
    with started(tmp_path, {"DATABASE_URL": urls}) as daemon:
        line = await daemon.logged("api.started")
        status, text = await http_get(line["ops_port"], "/readyz")
        assert (status, text.count("\n")) == (503, 1)
        assert "database 'none' at 127.0.0.1:1" in text
        reply = await asked(line["port"], b"GET /v1/webhook HTTP/1.1\r\nHost: api\r\n\r\n")
        assert reply.status == 401


@pytest.mark.scaled_time
async def test_a_database_that_comes_back_is_noticed(database: Database, tmp_path: Path) -> None:
    connection = await database.connect()
    await connection.execute("ALTER ROLE webhook_api CONNECTION LIMIT 0")
    try:
        with started(tmp_path, database.settings("webhook_api")) as daemon:
            line = await daemon.logged("api.started")
            assert (await http_get(line["ops_port"], "/readyz"))[0] == 503
            await connection.execute("ALTER ROLE webhook_api CONNECTION LIMIT -1")

            async def is_ready() -> bool:
                return (await http_get(line["ops_port"], "/readyz"))[0] == 200

            await until_found(is_ready)
    finally:
        await connection.execute("ALTER ROLE webhook_api CONNECTION LIMIT -1")
        await connection.close()
