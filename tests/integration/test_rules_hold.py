"""The rules for rows hold whatever their writer has made of names, types, operators and settings.

Attacks are run by the role that would run them, each before its session's first INSERT and after it: what a
function has looked up once is kept for a session.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from math import isfinite

import asyncpg
import pytest

from tests.servers.database import Connect, Database
from webhook_dispatcher.domain.event import sample_of
from webhook_dispatcher.domain.ports import OldestSearch
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

INSERT = "INSERT INTO webhook.outbox (merchant_id, type, created_at, object) VALUES ($1, $2, $3::{}, $4)"
TYPE, OWN = "charge.created", "refund.created"
NOW = "2026-11-22T08:00:00Z"
LARGE = '{"a":"' + "x" * 2_000_000 + '"}'
BROKEN = {
    "no merchant": ("", TYPE, NOW, "{}", "merchant_id_has_1_to_128_printable_characters"),
    "a long merchant": ("m" * 129, TYPE, NOW, "{}", "merchant_id_has_1_to_128_printable_characters"),
    "a line break": ("m\n1", TYPE, NOW, "{}", "merchant_id_has_1_to_128_printable_characters"),
    "a hidden character": ("m\u200b1", TYPE, NOW, "{}", "merchant_id_has_1_to_128_printable_characters"),
    "an unknown type": ("m", "charge.invented", NOW, "{}", "type_is_one_of_the_published_event_types"),
    "a retired type": ("m", "retired.type", NOW, "{}", "type_is_one_of_the_published_event_types"),
    "no end": ("m", TYPE, "infinity", "{}", "created_at_is_between_the_years_2000_and_2100"),
    "no beginning": ("m", TYPE, "-infinity", "{}", "created_at_is_between_the_years_2000_and_2100"),
    "a late year": ("m", TYPE, "294276-01-01", "{}", "created_at_is_between_the_years_2000_and_2100"),
    "an array": ("m", TYPE, NOW, "[]", "object_is_a_json_object"),
    "2 MB": ("m", TYPE, NOW, LARGE, "object_has_at_most_256_kib"),
}
"""Rows that break a rule: merchant, type, time, object, and the rule."""

TEMPORARY_TYPES = """
CREATE DOMAIN pg_temp.text AS pg_catalog.varchar(10);
CREATE DOMAIN pg_temp.json AS pg_catalog.varchar(10);
CREATE DOMAIN pg_temp.timestamptz AS pg_catalog.date;
CREATE DOMAIN pg_temp.bool AS pg_catalog.varchar(10);
CREATE DOMAIN pg_temp.int4 AS pg_catalog.numeric;
"""
OWN_SCHEMA = """
SET search_path = "$user", pg_catalog;
"""
FUNCTIONS = """
CREATE FUNCTION length(text) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 5';
CREATE FUNCTION octet_length(text) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 5';
CREATE FUNCTION btrim(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT text 'somebody' $$;
CREATE FUNCTION json_typeof(json) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT text 'object' $$;
CREATE FUNCTION format(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT text 'fine' $$;
"""


def _answering(answer: str, kind: str, *operators: str) -> str:
    """Write operators that compare two values of a type, whatever these are, with the same answer."""
    name = f"says_{answer}"
    function = (
        f"CREATE FUNCTION {name}({kind}, {kind}) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT {answer}';"
    )
    return function + "".join(
        f"CREATE OPERATOR {operator} (FUNCTION = {name}, LEFTARG = {kind}, RIGHTARG = {kind});"
        for operator in operators
    )


OPERATORS = "".join(
    _answering("false", kind, "<", ">", "<>", "~") + _answering("true", kind, "=", "<=", ">=")
    for kind in ("integer", "text")
) + _answering("false", "timestamptz", "<", "<=", ">=", ">")
ATTACKS = {
    "none": "SELECT",
    "temporary types": TEMPORARY_TYPES,
    "functions": OWN_SCHEMA + FUNCTIONS,
    "operators": OWN_SCHEMA + OPERATORS,
    "all of it": OWN_SCHEMA + FUNCTIONS + OPERATORS + TEMPORARY_TYPES,
    "no path": "SET search_path = ''",
    "a temporary path": TEMPORARY_TYPES + "SET search_path = pg_temp",
    "settings": "SET standard_conforming_strings = off; SET DateStyle = 'SQL, DMY'; "
    "SET TimeZone = 'Pacific/Kiritimati'; SET transform_null_equals = on; SET array_nulls = off",
}


@pytest.fixture
async def producer(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Connect as a producer who has a schema of its own."""
    superuser = await database.connect()
    await superuser.execute("CREATE SCHEMA AUTHORIZATION webhook_producer")
    for name in (OWN, "retired.type"):
        await superuser.execute(
            "SELECT webhook.add_event_type($1, $2, NULL, 'a')", name, sample_of(name, "id").decode()
        )
    await superuser.execute("SELECT webhook.retire_event_type('retired.type', 'a')")
    await superuser.close()
    connection = await database.connect("webhook_producer")
    yield connection
    await connection.close()


async def insert(connection: asyncpg.Connection, merchant: str, kind: str, at: str, text: str) -> str:
    """Insert one event as literals of the server's own types: parameters would be checked by the driver."""
    typed = INSERT.format("pg_catalog.text::pg_catalog.timestamptz")
    return str(await connection.execute(typed, merchant, kind, at, text))


@pytest.mark.parametrize("is_late", [False, True], ids=["before the first", "after the first"])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_attack_gets_a_broken_row_past_its_rule(
    producer: asyncpg.Connection, attack: str, is_late: bool
) -> None:
    if is_late:
        await insert(producer, "m", TYPE, NOW, "{}")
    await producer.execute(ATTACKS[attack])
    said = {}
    for name, (merchant, kind, at, text, _) in BROKEN.items():
        try:
            said[name] = await insert(producer, merchant, kind, at, text)
        except asyncpg.CheckViolationError as refused:
            said[name] = f"{refused.constraint_name}: {refused}"
    assert said == {
        name: f'{rule}: an event for webhook.outbox breaks the rule "{rule}"'
        for name, (*_, rule) in BROKEN.items()
    }
    for kind in (TYPE, OWN):
        assert await insert(producer, "m", kind, NOW, "{}") == "INSERT 0 1", "what is right goes in"


async def test_no_attack_makes_an_object_look_smaller(producer: asyncpg.Connection, connect: Connect) -> None:
    await producer.execute(ATTACKS["all of it"])
    await insert(producer, "m", TYPE, NOW, LARGE[:1000] + '"}')
    superuser = await connect()
    assert await superuser.fetchval("SELECT object_bytes FROM webhook.outbox") == 1002


async def test_no_attack_hides_who_asks_nor_keeps_a_lane_from_being_recalled(connect: Connect) -> None:
    superuser = await connect()
    await superuser.execute("CREATE SCHEMA AUTHORIZATION webhook_admin")
    await superuser.execute(
        "INSERT INTO webhook.lane (merchant_id, lease_until) "
        "VALUES ('m', clock_timestamp() + interval '1 hour')"
    )
    admin = await connect("webhook_admin")
    await admin.execute(ATTACKS["all of it"])
    with pytest.raises(asyncpg.CheckViolationError):
        await admin.execute("INSERT INTO webhook.control (command, requested_by) VALUES ('pause', '')")
    await admin.execute(
        "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ('m', '', '', '')"
    )
    assert await superuser.fetchval("SELECT recalled FROM webhook.lane")


TRAP = """
GRANT CREATE ON SCHEMA public TO webhook_producer;
SET ROLE webhook_producer;
CREATE FUNCTION public.to_char(date, text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'run as %', current_user;
END
$$;
"""
"""Fits a call in the migrations better than the server's own function does."""


@pytest.mark.parametrize("is_printed", [False, True], ids=["by us", "printed"])
async def test_migrating_runs_no_function_of_somebody_else(
    database: Database, connect: Connect, is_printed: bool
) -> None:
    superuser = await connect()
    await superuser.execute("DROP SCHEMA webhook CASCADE;" + TRAP + "RESET ROLE")
    if is_printed:
        await superuser.execute(schema.migration_sql())
    else:
        await schema.migrate(database.dsn("postgres"))
    assert await superuser.fetchval("SELECT schema_version FROM webhook.state") == schema.SCHEMA_VERSION


async def test_bytes_that_are_no_text_name_no_merchant(database: Database) -> None:
    superuser = await database.connect()
    await superuser.execute(
        f"CREATE DATABASE {database.name}_ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
    )
    ascii_only = Database(database.server, f"{database.name}_ascii")
    try:
        await schema.migrate(ascii_only.dsn("postgres"))
        producer = await ascii_only.connect("webhook_producer")
        with pytest.raises(asyncpg.CharacterNotInRepertoireError):
            await producer.execute(
                "INSERT INTO webhook.outbox (merchant_id, type, object) "
                r"VALUES (E'm\xff', 'charge.created', '{}')"
            )
        assert await insert(producer, "m\u00e9", TYPE, NOW, "{}") == "INSERT 0 1"
        await producer.close()
    finally:
        await superuser.execute(f"DROP DATABASE {ascii_only.name} WITH (FORCE)")
        await superuser.close()


async def test_what_is_owed_is_measured_whatever_its_instants(database: Database, connect: Connect) -> None:
    superuser = await connect()
    await superuser.execute("ALTER TABLE webhook.outbox DROP CONSTRAINT event_can_be_sent")
    async with database.pool("upkeep", 1, timedelta(seconds=20)) as pool:
        for instant in ("infinity", "-infinity", "294276-12-31", "4713-01-01 BC"):
            await superuser.execute("TRUNCATE webhook.outbox, webhook.lane")
            await superuser.execute(
                "INSERT INTO webhook.outbox (merchant_id, type, object, created_at) "
                f"VALUES ('m', 'charge.created', '{{}}', '{instant}')"
            )
            await superuser.execute(
                f"INSERT INTO webhook.lane (merchant_id, retry_at) VALUES ('m', '{instant}')"
            )
            owed = await PostgresUpkeep(pool).measure(100, OldestSearch())
            assert owed.pending == 1
            assert isfinite(owed.oldest_pending_age + owed.oldest_due_retry_age)
