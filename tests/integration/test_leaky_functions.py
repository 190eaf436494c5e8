"""Whoever may read a view learns of no row that it does not show, whatever functions they bring along.

Everybody may make functions in pg_temp. One that costs nothing is called before a view's own condition,
unless a barrier keeps it out; one behind an operator is called by the planner, with what statistics hold.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from tests.integration.api_harness import token_of
from tests.integration.console_harness import Console, open_console
from tests.integration.console_readers import reader_of
from tests.servers.database import Database

MERCHANTS = ("alice", "bob", "carol")
EVENTS = """
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT merchant, 'charge.created', json_build_object('id', 'ch_' || merchant)
FROM unnest($1::text[]) AS merchant, generate_series(1, 9)
"""
LOGGED = """
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at
)
SELECT
    nextval('webhook.outbox_seq_seq'), gen_random_uuid(), merchant, 'charge.created', clock_timestamp(),
    json_build_object('id', 'ch_0_' || merchant), 'failed', 'exhausted', 1, clock_timestamp()
FROM unnest($1::text[]) AS merchant, generate_series(1, 9)
"""
ATTEMPTS = """
INSERT INTO webhook.attempt_log (
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome, reason, response_excerpt
)
SELECT
    gen_random_uuid(), merchant, 1, 'schedule', clock_timestamp(), 3, 'status', 'reason of ' || merchant,
    'excerpt of ' || merchant
FROM unnest($1::text[]) AS merchant, generate_series(1, 9)
"""
ENDPOINTS = """
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id)
SELECT merchant, 'https://' || merchant || '.example.com/', '\\x00', 'k1' FROM unnest($1::text[]) AS merchant
"""
COMMANDS = """
INSERT INTO webhook.control (command, merchant_id, requested_by)
SELECT 'pause', merchant, 'op of ' || merchant FROM unnest($1::text[]) AS merchant
"""
LANES = """
INSERT INTO webhook.lane (merchant_id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING
"""
TEMPORARY = """
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;
CREATE FUNCTION pg_temp.leak(seen anyelement) RETURNS boolean LANGUAGE plpgsql COST 0.0000001
AS $$BEGIN RAISE NOTICE '%', seen; RETURN false; END$$;
CREATE FUNCTION pg_temp.strict_leak(seen anyelement) RETURNS boolean LANGUAGE plpgsql STRICT COST 0.0000001
AS $$BEGIN RAISE NOTICE '%', seen; RETURN false; END$$;
"""
# The planner tells a function of polymorphic types nothing.
OPERATORS = """
CREATE FUNCTION pg_temp.compare(seen {0}, other {0}) RETURNS boolean LANGUAGE plpgsql COST 0.0000001
AS $$BEGIN RAISE NOTICE '%', seen; RAISE NOTICE '%', other; RETURN false; END$$;
CREATE OPERATOR pg_temp.=== (LEFTARG = {0}, RIGHTARG = {0}, FUNCTION = pg_temp.compare, RESTRICT = eqsel);
CREATE OPERATOR pg_temp.<<< (
    LEFTARG = {0}, RIGHTARG = {0}, FUNCTION = pg_temp.compare, RESTRICT = scalarltsel
);
"""
CONSTANTS = {
    "text": "", "bigint": "0", "integer": "0", "smallint": "0", "boolean": "true", "jsonb": "{}",
    "timestamp with time zone": "epoch", "uuid": "00000000-0000-0000-0000-000000000000", "xid8": "0",
}  # fmt: skip
"""What columns are compared with, by their types: the planner then looks their statistics up."""
CONSTANTS_AS_TOLD = ("t", "1970-01-01 00:00:00+00")
READABLE = """
SELECT view.oid::regclass::text AS view, attname AS name, format_type(atttypid, NULL) AS type
FROM pg_class AS view
JOIN pg_attribute ON attrelid = view.oid AND attnum > 0
WHERE
    relnamespace = 'webhook'::regnamespace AND relkind = 'v'
    AND has_column_privilege($1, view.oid, attnum, 'SELECT')
ORDER BY view.oid, attnum
"""
SAMPLED = "webhook.console_"
"""Of these the planner may show what statistics hold, to who may make operators: security/not-covered.md."""
LOGINS = "SELECT rolname FROM pg_roles WHERE starts_with(rolname, 'webhook_') AND rolcanlogin"
ROLES = (
    *("webhook_producer", "webhook_admin", "webhook_observer", "webhook_dispatcher"),
    *("webhook_api", "webhook_console"),
)


@pytest.fixture
async def console(database: Database) -> AsyncIterator[Console]:
    """Three merchants of everything there is, as statistics know it."""
    async with open_console(database) as console:
        for statement in (EVENTS, LOGGED, ATTEMPTS, ENDPOINTS, COMMANDS, LANES):
            await console.db.execute(statement, MERCHANTS)
        await console.db.execute("ANALYZE")
        yield console


PLAIN = "SET client_min_messages = notice; SET datestyle = ISO; SET timezone = UTC"
"""What the server tells of itself is no leak, and CONSTANTS_AS_TOLD are as these have them."""


@dataclass(frozen=True)
class Attacker:
    """A connection as one role, before whose statements `shows` is called with a token or session."""

    connection: asyncpg.Connection
    shows: str
    credential: bytes

    async def fetch(self, statement: str) -> list[asyncpg.Record]:
        async with self.connection.transaction():
            if self.shows:
                await self.connection.fetch(f"SELECT webhook.{self.shows}($1)", self.credential)
            return list(await self.connection.fetch(statement))

    async def told_by(self, statement: str) -> set[str]:
        """Return what functions and errors of a statement tell."""
        told: list[str] = []

        def note(_: object, message: Any) -> None:
            told.append(message.message)

        self.connection.add_log_listener(note)
        try:
            await self.fetch(statement)
        except asyncpg.DataError as error:
            told.append(str(error).split('"', 1)[1].rsplit('"', 1)[0])
        finally:
            self.connection.remove_log_listener(note)
        return set(told)


def _conditions(name: str, sqltype: str, *, by_planner: bool) -> Iterator[str]:
    """Each way to have a column's values told by a condition."""
    yield f"pg_temp.leak({name})"
    yield f"pg_temp.strict_leak({name})"
    yield f"format('%s', {name})::integer IS NULL"
    if by_planner and (constant := CONSTANTS.get(sqltype)) is not None:
        for operator in ("===", "<<<"):
            yield f"{name} OPERATOR(pg_temp.{operator}) '{constant}'::{sqltype}"


async def _leaks(attacker: Attacker, columns: list[asyncpg.Record]) -> list[str]:
    """Return which views tell more than they show, and to what condition."""
    leaks = []
    for column in columns:
        name, constant = column["name"], CONSTANTS.get(column["type"], "")
        shown = await attacker.fetch(f"SELECT DISTINCT format('%s', {name}) FROM {column['view']}")
        known = {row[0] for row in shown} | {"<NULL>", constant, *CONSTANTS_AS_TOLD}
        by_planner = not column["view"].startswith(SAMPLED)
        for condition in _conditions(name, column["type"], by_planner=by_planner):
            told = await attacker.told_by(f"SELECT FROM {column['view']} WHERE {condition}")
            if told - known:
                leaks.append(f"{column['view']} WHERE {condition}: {min(told - known)}")
    return leaks


@pytest.mark.parametrize("role", ROLES)
async def test_no_condition_tells_more_than_the_view_shows(
    console: Console, database: Database, role: str
) -> None:
    columns = await console.db.fetch(READABLE, role)
    assert columns or role == "webhook_producer"
    connection = await database.connect(role)
    try:
        await connection.execute(PLAIN)
        await connection.execute("".join([TEMPORARY, *(OPERATORS.format(name) for name in CONSTANTS)]))
        leaks = {
            shows: await _leaks(Attacker(connection, *credential), columns)
            for shows, credential in (await _credentials(console, role)).items()
        }
    finally:
        await connection.close()
    assert {shows: found for shows, found in leaks.items() if found} == {}


async def _credentials(console: Console, role: str) -> dict[str, tuple[str, bytes]]:
    """Return by what a role may show whose rows it sees: a function and what it takes."""
    known = {"nothing": ("", b"")}
    if role == "webhook_api":
        known["alice's token"] = ("bearer", await token_of(console.db, "alice"))
    if role == "webhook_console":
        for person in ("viewer", "operator"):
            known[f"session of a {person}"] = ("console_reader", await reader_of(console.db, person))
    return known


async def test_every_role_that_logs_in_is_tried(console: Console) -> None:
    assert {row[0] for row in await console.db.fetch(LOGINS)} == set(ROLES)
