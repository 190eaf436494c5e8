"""The database's link: who is let in, and what every session sets for itself.

The wheel's Postgres is built without TLS: a gate in front of it speaks it instead.
"""

import asyncio
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.servers.database import Database, free_port, own_server
from tests.servers.tls_gate import SSL_REQUEST, Gate, listening
from webhook_dispatcher.domain.errors import ConfigurationError, StorageUnavailable
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage import chosen_indexes, installation, link, schema
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.connection import connect, create_pool

PATIENCE = timedelta(seconds=20)


@pytest.fixture
def gate(database: Database, tmp_path: Path) -> Iterator[Gate]:
    with Gate(database, tmp_path).open() as gate:
        yield gate


@pytest.fixture
def nothing_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat 127.0.0.1 like a server elsewhere."""
    monkeypatch.setattr(link, "LOOPBACK", ())


def dsn(url: str, **more: str) -> str:
    """Send a URL through the settings, as every command does."""
    return load_settings({"WEBHOOK_DATABASE_URL": url, **more}).database_dsn()


async def reach(url: str) -> None:
    connection = await connect(url, application_name="test", command_timeout=PATIENCE)
    await connection.close()


@pytest.mark.usefixtures("nothing_is_local")
async def test_the_right_server_is_let_in_by_every_way(gate: Gate) -> None:
    url = dsn(gate.url(f"sslrootcert={gate.right_ca}"))
    await reach(url)
    async with create_pool(url, application_name="test", command_timeout=PATIENCE, size=1) as pool:
        assert await pool.fetchval("SELECT 1") == 1
    async with administration(url) as database:
        await database.check_schema()
    await schema.migrate(url)
    assert len(gate.passed) >= 5
    assert all(gate.passed)


@pytest.mark.usefixtures("nothing_is_local")
async def test_of_several_servers_the_one_that_answers_is_let_in(gate: Gate) -> None:
    """As after a failover, with a URL that names both."""
    both = gate.url(f"sslrootcert={gate.right_ca}").replace("@", f"@127.0.0.1:{free_port()},")
    await reach(dsn(both))
    await schema.migrate(dsn(both))
    assert all(gate.passed)


@pytest.mark.usefixtures("nothing_is_local")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
async def test_another_server_is_refused_by_every_way(gate: Gate, host: str) -> None:
    # By 127.0.0.1 the authority is the wrong one, by 127.0.0.2 the name.
    ca_file = gate.wrong_ca if host == "127.0.0.1" else gate.right_ca
    url = dsn(gate.url(f"sslrootcert={ca_file}", host))
    said = "does not prove who it is .*sslrootcert=FILE"
    with pytest.raises(StorageUnavailable, match=said):
        await reach(url)
    with pytest.raises(StorageUnavailable, match=said):
        await schema.migrate(url)
    with pytest.raises(StorageUnavailable, match=said):
        async with administration(url):
            pass
    async with create_pool(url, application_name="test", command_timeout=PATIENCE, size=1) as pool:
        with pytest.raises(StorageUnavailable, match=said):
            await pool.fetchval("SELECT 1")
    assert gate.passed == []


@pytest.mark.usefixtures("nothing_is_local")
@pytest.mark.parametrize("options", ["", "sslrootcert=system", "sslmode=verify-full"])
async def test_without_a_file_the_systems_authorities_decide(
    gate: Gate, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageUnavailable, match="does not prove who it is"):
        await reach(dsn(gate.url(options)))
    monkeypatch.setenv("SSL_CERT_FILE", str(gate.right_ca))
    await reach(dsn(gate.url(options)))
    pool = create_pool(dsn(gate.url(options)), application_name="test", command_timeout=PATIENCE, size=1)
    async with pool as connections:
        assert await connections.fetchval("SELECT 1") == 1
    assert gate.passed == [True, True]


@pytest.mark.usefixtures("nothing_is_local")
@pytest.mark.parametrize("options", ["sslrootcert={0.right_ca}", "sslrootcert=system"])
async def test_certificates_that_are_exchanged_on_disk_count_for_the_next_connection(
    gate: Gate, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(gate.right_ca))
    gate.exchange(asks_for_ours=True)
    url = dsn(gate.url(f"{options}&sslcert={{0.client}}&sslkey={{0.client}}".format(gate)))
    async with create_pool(url, application_name="test", command_timeout=PATIENCE, size=1) as pool:
        for _ in range(2):
            assert await pool.fetchval("SELECT 1") == 1
            gate.exchange(asks_for_ours=True)
            await pool.expire_connections()
        certificate = gate.client.read_bytes()
        gate.client.unlink()
        with pytest.raises(StorageUnavailable, match="No such file"):
            await pool.fetchval("SELECT 1")
        gate.client.write_bytes(certificate)
        assert await pool.fetchval("SELECT 1") == 1


@pytest.mark.usefixtures("nothing_is_local")
async def test_environment_variables_of_postgres_do_not_weaken_it(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSSLMODE", "disable")
    with pytest.raises(StorageUnavailable, match="does not prove who it is"):
        await reach(dsn(gate.url()))
    assert gate.passed == []


@pytest.mark.usefixtures("nothing_is_local")
async def test_waived_the_urls_own_word_counts(gate: Gate) -> None:
    await reach(dsn(gate.url("sslmode=disable"), WEBHOOK_DATABASE_TLS="waived"))
    await reach(dsn(gate.url("sslmode=require"), WEBHOOK_DATABASE_TLS="waived"))
    assert gate.passed == [False, True]
    with pytest.raises(ConfigurationError, match=r"^WEBHOOK_DATABASE_URL: sslmode='require'"):
        dsn(gate.url("sslmode=require"))


@pytest.mark.usefixtures("nothing_is_local")
def test_a_server_without_tls_hears_nothing_but_the_question() -> None:
    heard: list[bytes] = []

    def answer_no(client: socket.socket) -> None:
        heard.append(client.recv(100))
        client.sendall(b"N")
        heard.append(client.recv(100))

    with (
        listening(answer_no, "127.0.0.1", 0) as port,
        pytest.raises(StorageUnavailable, match="rejected SSL upgrade"),
    ):
        asyncio.run(reach(dsn(f"postgresql://u:sesame@127.0.0.1:{port}/x")))
    assert heard == [SSL_REQUEST, b""]


def expected(command_timeout: timedelta) -> dict[str, str]:
    milliseconds = command_timeout // timedelta(milliseconds=1)
    return {
        "transaction_isolation": "read committed",
        "default_transaction_isolation": "read committed",
        "timezone": "UTC",
        "statement_timeout": str(milliseconds * 9 // 10),
        "lock_timeout": str(milliseconds // 2),
        "idle_in_transaction_session_timeout": str(milliseconds),
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
        "search_path": "pg_catalog",
        "standard_conforming_strings": "on",
        "jit": "off",
        "plan_cache_mode": "auto",
        "max_parallel_workers_per_gather": "0",
        "exit_on_error": "off",
    }


async def settings_of(connection: Any, names: dict[str, str]) -> dict[str, str]:
    """Read settings in their own units, as they stand in this session."""
    rows = await connection.fetch(
        "SELECT lower(name) AS name, setting FROM pg_settings WHERE lower(name) = ANY($1)", list(names)
    )
    return {row["name"]: row["setting"] for row in rows}


async def make_other_defaults(server: EmbeddedPostgres) -> None:
    connection = await asyncpg.connect(server.dsn())
    for setting in (
        "default_transaction_isolation = 'serializable'",
        "statement_timeout = 0",
        "lock_timeout = 0",
        "idle_in_transaction_session_timeout = 0",
        "tcp_keepalives_idle = 7200",
        "timezone = 'Asia/Kathmandu'",
        "search_path = elsewhere",
        "standard_conforming_strings = off",
        "jit = on",
        "plan_cache_mode = force_generic_plan",
        "max_parallel_workers_per_gather = 8",
        "exit_on_error = on",
    ):
        await connection.execute(f"ALTER ROLE postgres SET {setting}")
    await connection.close()


def test_every_session_sets_isolation_time_outs_and_keepalives_whatever_the_role_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Over TCP: a socket in the file system has no keepalives.
    port = free_port()
    with own_server({"listen_addresses": "127.0.0.1", "port": str(port)}) as server:
        asyncio.run(make_other_defaults(server))
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        asyncio.run(look_at_sessions(url, monkeypatch))


async def look_at_sessions(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = expected(PATIENCE)
    connection = await connect(url, application_name="test", command_timeout=PATIENCE)
    assert await settings_of(connection, wanted) == wanted
    await connection.close()
    async with create_pool(url, application_name="test", command_timeout=PATIENCE, size=2) as pool:
        # Twice: what a session sets must survive its way back into the pool.
        for _ in range(2):
            async with pool.acquire() as one, pool.acquire() as other:
                assert await settings_of(one, wanted) == await settings_of(other, wanted) == wanted

    # The migration's sessions, seen as they are opened.
    opened: list[dict[str, str]] = []
    really_connect = asyncpg.connect

    async def spy(*arguments: Any, **options: Any) -> asyncpg.Connection:
        connection: asyncpg.Connection = await really_connect(*arguments, **options)
        opened.append(await settings_of(connection, wanted))
        return connection

    monkeypatch.setattr(asyncpg, "connect", spy)
    await schema.migrate(url)
    migrating = expected(timedelta(minutes=10))
    brief = [expected(each) for each in (installation.PATIENCE, schema.PATIENCE, chosen_indexes.PATIENCE)]
    assert opened.count(migrating) == 2
    assert all(session in (*brief, migrating) for session in opened)


def test_nothing_connects_past_the_one_place_that_sets_all_this() -> None:
    package = Path(link.__file__).parents[1]
    files = [*package.rglob("*.py"), *package.parents[1].glob("migrations/**/*.py")]
    found = {
        file.relative_to(package.parents[1]).as_posix()
        for file in files
        if any(call in file.read_text() for call in ("asyncpg.connect(", "asyncpg.create_pool("))
    }
    # The producer stands in for the charge service, on a laptop.
    ours = "src/webhook_dispatcher/storage/connection.py"
    assert found == {ours, "src/webhook_dispatcher/local/producer.py"}
