"""Every statement that reads a merchant's own rows finds whose they are by the token, before anything else.

The first wall is bearer(), which each statement begins with; the second is in the views, which show nothing
to a statement that forgot it.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import TypeVar
from uuid import UUID, uuid4

import asyncpg
import pytest
from asyncpg.pool import PoolConnectionProxy

from tests.integration.api_harness import UNKNOWN, api_pool, token_of
from tests.integration.statement_cost import PLANS, explain
from tests.integration.storage_harness import StorageHarness
from tests.servers.database import Database
from webhook_dispatcher.storage.statements import PARTNER_API, Role, Statement, load

HOUR = timedelta(hours=1)
SUBJECTS: Sequence[tuple[str, Role | None]] = (
    *(("api_deliveries", None), ("api_charges", None), ("api_events", None)),
    ("attempts", PARTNER_API),
)
OWN_VIEW = re.compile(r"webhook\.own_[a-z_]+")
READS = {
    name: statement
    for subject in SUBJECTS
    for name, statement in load(*subject).items()
    if OWN_VIEW.search(statement.text)
}
VIEWS = """
SELECT relname FROM pg_class
WHERE relnamespace = 'webhook'::regnamespace AND relname LIKE 'own!_%' ESCAPE '!'
"""
VALUES: Mapping[str, object] = {
    "before_seq": 2**63 - 1,
    "state": None,
    "type": None,
    "since": None,
    "until": None,
    "endpoint": None,
    "most": 10,
    "charge_id": "ch_1",
    "xid": None,
    "seq": None,
    "most_bytes": 1000,
}
"""What each statement is asked, by the names of its parameters; token and event id are the test's."""
INSERT = """
INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m', 'charge.created', '{"id": "ch_1"}')
RETURNING id
"""
ATTEMPT = """
INSERT INTO webhook.attempt_log (event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome)
VALUES ($1, 'm', 1, 'schedule', clock_timestamp(), 5, 'timeout')
"""
LOGGED = """
INSERT INTO webhook.delivery_log
    (seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at)
VALUES
    (1000, gen_random_uuid(), 'm', 'charge.created', clock_timestamp(), '{"id": "ch_2"}', 'failed',
     'exhausted', 1, clock_timestamp())
RETURNING event_id
"""
COMMAND = """
INSERT INTO webhook.control (command, merchant_id, requested_by) VALUES ('pause', 'm', 'ana') RETURNING id
"""
SCANS = """
SELECT oid::regclass::text AS name, pg_stat_get_xact_numscans(oid) AS scans
FROM pg_class
WHERE relnamespace = 'webhook'::regnamespace AND relkind IN ('r', 'i')
"""
"""How often this transaction has gone through each table and index, functions included."""
T = TypeVar("T")
EVERY_READ = pytest.mark.parametrize("statement", READS.values(), ids=READS)


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[asyncpg.Pool]:
    async with api_pool(database) as opened:
        yield opened


def _asked_by(token: T) -> dict[str, T]:
    """Name a token as those statements do that the Partner API alone asks, and as others do."""
    return {"token": token, "reader": token}


async def _values(storage: StorageHarness, token_hash: bytes, asked_by: str = "") -> dict[str, object]:
    """Insert an event of merchant m that was attempted, and return what a statement asks for it."""
    event_id = await storage.db.fetchval(LOGGED if asked_by == "list_own_failed" else INSERT)
    await storage.db.execute(ATTEMPT, event_id)
    return {**VALUES, **_asked_by(token_hash), "event_id": event_id}


def _shown(rows: Sequence[asyncpg.Record]) -> list[asyncpg.Record]:
    """Leave out a row that shows nothing of a merchant's: one says how far the server is besides."""
    return [row for row in rows if row.get("looked", 1) is not None]


def _arguments(statement: Statement, values: Mapping[str, object]) -> list[object]:
    return [values[name] for name, _ in statement.parameters]


@EVERY_READ
async def test_the_owner_finds_it(storage: StorageHarness, pool: asyncpg.Pool, statement: Statement) -> None:
    values = await _values(storage, await token_of(storage.db, "m"), statement.name)
    assert len(await pool.fetch(statement.text, *_arguments(statement, values))) == 1


@EVERY_READ
@pytest.mark.parametrize("state", ["unknown", "expired", "revoked", "foreign"])
async def test_nobody_else_does(
    storage: StorageHarness, pool: asyncpg.Pool, statement: Statement, state: str
) -> None:
    tokens = {
        "unknown": UNKNOWN,
        "expired": await token_of(storage.db, "m", -HOUR),
        "revoked": await token_of(storage.db, "m", is_revoked=True),
        "foreign": await token_of(storage.db, "other"),
    }
    values = await _values(storage, tokens[state], statement.name)
    assert _shown(await pool.fetch(statement.text, *_arguments(statement, values))) == []


@EVERY_READ
@PLANS
async def test_the_token_is_looked_up_before_anything_is_read(
    storage: StorageHarness, statement: Statement, plan_cache_mode: str
) -> None:
    token_hash = await token_of(storage.db, "m")
    values = {name: f"'{value}'" if value is not None else "NULL" for name, value in VALUES.items()}
    values |= {**_asked_by(f"'\\x{token_hash.hex()}'"), "event_id": "gen_random_uuid()"}
    given = ", ".join(values[name] for name, _ in statement.parameters)
    types = ", ".join(sqltype for _, sqltype in statement.parameters)
    await storage.db.execute(f"SET plan_cache_mode = {plan_cache_mode}")
    await storage.db.execute(f"PREPARE asked ({types}) AS {statement.text}")
    explained = await storage.db.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked ({given})")
    plan = json.loads(explained)[0]["Plan"]
    if plan["Node Type"] == "Sort":
        (plan,) = plan["Plans"]
    assert plan["Node Type"] == "Nested Loop"
    outer, inner = plan["Plans"]
    assert outer.get("Function Name") == "bearer", "the outer side comes first"
    assert "bearer" not in json.dumps(inner)


@EVERY_READ
@PLANS
async def test_what_is_anothers_is_looked_for_as_what_is_not_there(
    storage: StorageHarness, statement: Statement, plan_cache_mode: str
) -> None:
    """The same plan, nodes and indexes, and no row; planned in general as the API plans, and for values."""
    values = await _values(storage, await token_of(storage.db, "other"), statement.name)
    literals = {name: f"'{value}'" if value is not None else "NULL" for name, value in values.items()}
    literals |= _asked_by(f"'\\x{values['token'].hex()}'")  # type: ignore[attr-defined]
    nobodys = literals | {"event_id": f"'{uuid4()}'", "charge_id": "'ch_none'"}
    plans = []
    for number, given in enumerate((literals, nobodys)):
        asked = [given[name] for name, _ in statement.parameters]
        cost = await explain(storage.db, f"asked_{number}", statement, plan_cache_mode, *asked)
        # Of events that are nobody's it still says how far they are complete.
        assert cost.plan["Actual Rows"] == (1 if statement.name == "list_own_events" else 0)
        plans.append([(node["Node Type"], node.get("Index Name")) for node in cost.nodes()])
    assert plans[0] == plans[1]


@dataclass(frozen=True)
class Named:
    """Values of the parameters by which statements name a thing."""

    event_id: UUID
    charge_id: str
    id: int


ENDPOINTS = {**load("api_endpoints"), **load("command", PARTNER_API)}
BY_NAMES = {
    name: statement
    for name, statement in {**READS, **ENDPOINTS}.items()
    if {parameter for parameter, _ in statement.parameters} & {field.name for field in fields(Named)}
}


async def _scans_of(
    connection: PoolConnectionProxy, statement: Statement, values: Mapping[str, object]
) -> dict[str, int]:
    """Ask once, and count how often each table and index was gone through for it."""
    async with connection.transaction():
        before = {row["name"]: row["scans"] for row in await connection.fetch(SCANS)}
        await connection.fetch(statement.text, *_arguments(statement, values))
        after = await connection.fetch(SCANS)
    counted = {row["name"]: row["scans"] - before[row["name"]] for row in after}
    return {name: scans for name, scans in counted.items() if scans}


@pytest.mark.parametrize("statement", BY_NAMES.values(), ids=BY_NAMES)
async def test_what_functions_read_does_not_tell_what_is_anothers(
    storage: StorageHarness, pool: asyncpg.Pool, statement: Statement
) -> None:
    """Statements within functions leave no plan to look at; the server counts what they read."""
    owed, logged = await storage.db.fetchval(INSERT), await storage.db.fetchval(LOGGED)
    command = await storage.db.fetchval(COMMAND)
    values = {**VALUES, "command": "retry", **_asked_by(await token_of(storage.db, "other"))}
    nobodys = Named(uuid4(), "ch_none", 2**62)
    async with pool.acquire() as connection:
        # What is planned and cached at first is read once.
        await _scans_of(connection, statement, {**values, **asdict(nobodys)})
        read = [
            await _scans_of(connection, statement, {**values, **asdict(named)})
            for named in (nobodys, Named(owed, "ch_1", command), Named(logged, "ch_2", command))
        ]
    assert sum(read[0].values()) > 2
    assert read[1] == read[0], "of what is owed"
    assert read[2] == read[0], "of what is finished"


@EVERY_READ
async def test_without_bearer_the_second_wall_shows_nothing(
    storage: StorageHarness, pool: asyncpg.Pool, statement: Statement
) -> None:
    """The same statement, which takes the merchant as it is told instead of asking whose the token is."""
    token_hash = await token_of(storage.db, "m")
    values = await _values(storage, token_hash, statement.name)
    forgetful = statement.text.replace(
        "webhook.bearer($1) AS me", "(SELECT 'm' AS merchant_id WHERE $1::bytea IS NOT NULL) AS me"
    )
    assert forgetful != statement.text
    arguments = _arguments(statement, values)
    async with pool.acquire() as connection:
        assert _shown(await connection.fetch(forgetful, *arguments)) == []
        async with connection.transaction():
            await connection.execute("SELECT set_config('webhook.bearer', $1, true)", token_hash.hex())
            found = _shown(await connection.fetch(forgetful, *arguments))
            assert len(found) == 1, "only the setting was missing"


async def test_every_view_alone_shows_nothing(storage: StorageHarness, pool: asyncpg.Pool) -> None:
    await _values(storage, await token_of(storage.db, "m"))
    views = [row["relname"] for row in await storage.db.fetch(VIEWS)]
    assert {"own_owed", "own_finished", "own_deliveries", "own_attempts", "own_owed_events"} <= set(views)
    for view in views:
        assert await pool.fetch(f"SELECT * FROM webhook.{view}") == []
    assert await pool.fetch("SELECT * FROM webhook.own_owed WHERE merchant_id = 'm'") == []


async def test_what_one_statement_was_allowed_the_next_is_not(
    storage: StorageHarness, pool: asyncpg.Pool
) -> None:
    values = await _values(storage, await token_of(storage.db, "m"))
    statement = READS["read_own_delivery"]
    async with pool.acquire() as connection:
        assert await connection.fetch(statement.text, *_arguments(statement, values))
        assert await connection.fetch("SELECT * FROM webhook.own_owed") == []
