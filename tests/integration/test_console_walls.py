"""Who may call and read what of the console's and of the Partner API's: from the catalog, role by role."""

import itertools
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.integration.console_harness import Console, open_console
from tests.servers.database import Database

ROLES = (
    *("webhook_producer", "webhook_admin", "webhook_observer", "webhook_api", "webhook_dispatcher"),
    "webhook_console",
)
OF_THE_CONSOLE = {
    *(
        "console_sign_in_parameters",
        "console_sign_in_wait",
        "console_sign_in",
        "console_sign_in_by_code",
        "console_sign_in_by_proxy",
    ),
    *("console_person", "console_reader", "current_person", "current_person_role", "console_sign_out"),
    *("console_own_sessions", "console_revoke_session"),
    *("console_revoke_sessions", "console_preferences", "console_change_password"),
    *(
        "console_put_endpoint",
        "console_add_endpoint",
        "console_set_order",
        "console_rotate_secret",
        "console_remove_endpoint",
        "console_command",
    ),
    *("console_withdraw_command", "console_stop_command"),
    *("console_create_api_key", "console_revoke_api_key"),
}
OF_ADMINISTRATORS = {
    *("add_account", "set_account_password", "set_account_role", "set_account_disabled"),
    "create_sign_in_code",
}
OF_THE_API = {
    *("admit_token", "bearer", "current_merchant", "feed_horizon", "forget_request", "issue_token"),
    *("note_key_use", "only_reads", "release_limit", "settle_request", "take_limits", "timeline"),
}
"""Besides those whose names begin with own_."""
OF_NOBODY = {
    *("audit_account", "sign_in_subjects", "wait_after_failures", "lock_failures", "count_failure"),
    *(
        "begin_session",
        "revoke_sessions",
        "own_account",
        "person_who_changes",
        "person_who_configures",
        "put_endpoint",
        "set_order",
        "rotate_secret",
    ),
}
TABLES = ("account", "console_session", "sign_in_code", "sign_in_failure", "sign_in_key")
RELATIONS = """
SELECT relname
FROM pg_class
WHERE
    relnamespace = 'webhook'::regnamespace AND relkind IN ('r', 'p', 'v', 'S')
    AND CASE relkind
        WHEN 'S' THEN has_sequence_privilege($1, oid, 'USAGE, SELECT, UPDATE')
        ELSE has_any_column_privilege($1, oid, 'SELECT, INSERT, UPDATE, REFERENCES')
        OR has_table_privilege($1, oid, 'DELETE, TRUNCATE, TRIGGER')
    END
"""


@pytest.fixture
async def console(database: Database) -> AsyncIterator[Console]:
    async with open_console(database) as console:
        yield console


async def callable_by(db: asyncpg.Connection, role: str) -> set[str]:
    rows = await db.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'webhook'::regnamespace "
        "AND has_function_privilege($1, oid, 'EXECUTE')",
        role,
    )
    return {row["proname"] for row in rows}


async def test_every_function_is_for_one_role_and_what_it_is_made_of_for_none(console: Console) -> None:
    ours = OF_THE_CONSOLE | OF_ADMINISTRATORS | OF_NOBODY
    there = await console.db.fetch(
        "SELECT proname, proconfig, prosecdef FROM pg_proc WHERE pronamespace = 'webhook'::regnamespace"
    )
    assert ours <= {row["proname"] for row in there}
    expected = {role: set[str]() for role in ROLES} | {
        "webhook_console": OF_THE_CONSOLE,
        "webhook_admin": OF_ADMINISTRATORS,
    }
    found = {role: await callable_by(console.db, role) for role in (*ROLES, "public")}
    assert {role: found[role] & ours for role in ROLES} == expected
    assert not found["public"] & ours
    for row in there:
        if row["proname"] in ours:
            assert row["proconfig"] == ["search_path=pg_catalog, pg_temp"], row["proname"]
            assert row["prosecdef"] == (row["proname"] not in OF_NOBODY), row["proname"]


async def test_the_console_calls_its_functions_and_those_that_everybody_may(console: Console) -> None:
    everybodys = await callable_by(console.db, "public")
    assert await callable_by(console.db, "webhook_console") - everybodys == OF_THE_CONSOLE | {"delivery_ids"}
    assert not everybodys & (OF_ADMINISTRATORS | OF_NOBODY)
    is_member = "SELECT pg_has_role('webhook_console', oid, 'MEMBER') FROM pg_roles WHERE rolname = $1"
    others = {*ROLES, "webhook_owner"} - {"webhook_console"}
    assert not [role for role in others if await console.db.fetchval(is_member, role)]


async def test_the_console_reads_no_table_but_the_versions_and_the_names_of_types(console: Console) -> None:
    """All else are views of its own, which ask whose session it is."""
    rows = await console.db.fetch(RELATIONS, "webhook_console")
    of_its_own = {row["relname"] for row in rows if row["relname"].startswith("console_")}
    assert {row["relname"] for row in rows} - of_its_own == {"state", "current_sealing_key", "event_type"}
    views = await console.db.fetch(
        "SELECT viewname, definition FROM pg_views "
        "WHERE schemaname = 'webhook' AND viewname = ANY($1::text[])",
        list(of_its_own),
    )
    assert {view["viewname"] for view in views} == of_its_own
    # Those of parts of others ask in these parts.
    assert [view["viewname"] for view in views if not _asks_who_reads(view["definition"])] == []
    writable = "has_any_column_privilege('webhook_console', $1, 'INSERT, UPDATE')"
    for name in ("state", "current_sealing_key", "event_type"):
        assert not await console.db.fetchval(f"SELECT {writable}", f"webhook.{name}")


def _asks_who_reads(definition: str) -> bool:
    return "current_person" in definition or "webhook.console_" in definition


async def test_nobody_reads_what_proves_a_person(console: Console) -> None:
    """Upkeep alone finds what expired, by hashes that prove nothing; administrators see a view without."""
    for role, table in itertools.product(ROLES, (*TABLES, "live_sessions")):
        await is_closed(console, role, table)


async def is_closed(console: Console, role: str, table: str) -> None:
    rights = {
        right: await console.db.fetchval(
            "SELECT has_any_column_privilege($1, $2, $3)", role, f"webhook.{table}", right
        )
        for right in ("SELECT", "INSERT", "UPDATE")
    }
    is_upkeep = role == "webhook_dispatcher" and table in (
        *("console_session", "sign_in_code", "sign_in_failure"),
    )
    assert rights == {"SELECT": is_upkeep, "INSERT": False, "UPDATE": is_upkeep}, (role, table)
    for column in ("verifier", "salt", "account_id", "address", "key", "failed_at"):
        if await console.db.fetchval(
            "SELECT count(*) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attname = $2",
            f"webhook.{table}",
            column,
        ):
            may = "SELECT has_column_privilege($1, $2, $3, 'SELECT')"
            assert not await console.db.fetchval(may, role, f"webhook.{table}", column), (role, table, column)


async def test_administrators_alone_list_accounts_and_see_no_hash(console: Console) -> None:
    readers = [
        role
        for role in ROLES
        if await console.db.fetchval("SELECT has_table_privilege($1, 'webhook.accounts', 'SELECT')", role)
    ]
    assert readers == ["webhook_admin"]
    kinds = await console.db.fetch(
        "SELECT format_type(atttypid, NULL) FROM pg_attribute "
        "WHERE attrelid = 'webhook.accounts'::regclass AND attnum > 0"
    )
    assert "bytea" not in {row[0] for row in kinds}


async def test_the_partner_api_reads_its_views_and_calls_its_functions_and_nothing_else(
    console: Console,
) -> None:
    rows = await console.db.fetch(RELATIONS, "webhook_api")
    assert {row["relname"] for row in rows if not row["relname"].startswith("own_")} == {
        *("current_sealing_key", "cursor_key", "event_type", "milestone", "sealing_key", "state")
    }
    changes = (
        "has_any_column_privilege('webhook_api', oid, 'INSERT, UPDATE, REFERENCES') "
        "OR has_table_privilege('webhook_api', oid, 'DELETE, TRUNCATE, TRIGGER')"
    )
    ours = "relnamespace = 'webhook'::regnamespace AND relkind IN ('r', 'p', 'v')"
    assert await console.db.fetch(f"SELECT relname FROM pg_class WHERE {ours} AND ({changes})") == []
    its_own = await callable_by(console.db, "webhook_api") - await callable_by(console.db, "public")
    assert {name for name in its_own if not name.startswith("own_")} == OF_THE_API
    for role in set(ROLES) - {"webhook_api", "webhook_dispatcher"}:
        assert not await callable_by(console.db, role) & {"admit_token", "issue_token", "take_limits"}, role
        for secret in (("api_key", "secret_hash"), ("api_token", "hash")):
            may = "SELECT has_column_privilege($1, 'webhook.' || $2, $3, 'SELECT')"
            assert not await console.db.fetchval(may, role, *secret), (role, secret)


async def test_the_partner_api_can_lift_no_lock_of_the_consoles(console: Console) -> None:
    """Its role, which the internet reaches, may release the limits that are its own."""
    for _ in range(10):
        await console.fail()
    api = await console.storage.database.connect("webhook_api")
    at = await console.db.fetchval("SELECT failed_at[1] FROM webhook.sign_in_failure WHERE subject ~ '^name'")
    for is_durable in (True, False):
        assert not await api.fetchval("SELECT webhook.release_limit('name oleg', $1, $2)", is_durable, at)
    assert (await console.try_()).outcome == "locked"
    await api.close()
