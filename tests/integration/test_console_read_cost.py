"""What the console's pages cost in a log of 31 days: some buffers for each partition and row, however full.

No statement reads a partition of a log without an index. Sessions are the console's: plans are made once.
`make bench-console-reads` has it at the size that is promised, and prints what it found.
"""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from tests.integration.console_history import MERCHANTS, fill
from tests.integration.console_readers import reader_of
from tests.integration.read_cost import Found, patience, set_as_programs_do
from tests.integration.statement_cost import Cost, execute, kept_plans, prepare
from tests.servers.database import Database, copy_database
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import statements
from webhook_dispatcher.storage.console import health
from webhook_dispatcher.storage.console.deliveries import LOOK, NEWEST
from webhook_dispatcher.storage.console.merchants import (
    MAX_EVENTS_LOOKED_AT,
    MAX_FAILED_LOOKED_AT,
    MAX_JUDGED,
    MAX_KEYS,
    MAX_LANES_LOOKED_AT,
    MAX_LANES_THAT_FAILED,
)
from webhook_dispatcher.storage.console.overview import (
    MAX_DISPATCHERS,
    MAX_LAGS,
    MAX_MERCHANTS_LOOKED_AT,
    MAX_ROWS_LOOKED_AT,
)
from webhook_dispatcher.storage.console.reading import MAX_COUNTED
from webhook_dispatcher.storage.delivery import questions
from webhook_dispatcher.storage.statements import CONSOLE, load

FEW, MANY = 40_000, int(os.environ.get("CONSOLE_READ_ROWS", "100000"))

pytestmark = [pytest.mark.asyncio(loop_scope="module"), patience(MANY)]

PARTITIONS = 31
BUFFERS = 4
"""For each partition of each log and for each row that it may be about."""
PLACES = 2 * PARTITIONS + 6
PAGE = 51
SUBJECTS = ("overview", "merchants", "deliveries", "delivery", "previews", "commands", "health", "reading")
NOT_OF_PAGES = {"accounts", "actions", "sessions"}
"""Files of statements that no page shows."""
STATEMENTS = {
    each.name: each
    for asked in (
        *(load(f"console_{subject}") for subject in SUBJECTS),
        *(questions(CONSOLE), load("fares", CONSOLE)),
    )
    for each in asked.values()
}


LATELY = """
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, attempts, finished_at
)
SELECT
    1000000000 + n, gen_random_uuid(), 'm9', 'charge.succeeded', clock_timestamp(), '{}', 'delivered', 1,
    clock_timestamp()
FROM generate_series(1, 200) AS n;
INSERT INTO webhook.attempt_log (event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome)
SELECT event_id, merchant_id, 1, 'schedule', finished_at, 5, 'delivered' FROM webhook.delivery_log
WHERE seq > 1000000000;
"""
"""Finished within the hour, as many as the overview measures, however many rows there are."""


async def _session(postgres: EmbeddedPostgres, rows: int) -> tuple[asyncpg.Connection, str]:
    database = Database(postgres, f"webhook_console_{rows}")
    await copy_database(postgres, database.name)
    session = await database.connect()
    await fill(session, rows)
    await session.execute(LATELY)
    person = await reader_of(session, "operator")
    await set_as_programs_do(session)
    for name, statement in STATEMENTS.items():
        await prepare(session, name, statement)
    # What a function's first calls read of the catalog, to be planned, is no page's, whichever is the first.
    for _ in range(6):
        await session.execute("SELECT webhook.delivery_ids(gen_random_uuid())")
    return session, f"'\\x{person.hex()}'"


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    """Keep what reads cost, to be printed in the end."""
    found = Found(FEW, MANY)
    yield found
    found.print()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(postgres: EmbeddedPostgres) -> AsyncIterator[Mapping[int, tuple[asyncpg.Connection, str]]]:
    opened = {rows: await _session(postgres, rows) for rows in (FEW, MANY)}
    yield opened
    for session, _ in opened.values():
        await session.close()
    admin = await asyncpg.connect(postgres.dsn())
    for rows in opened:
        await admin.execute(f"DROP DATABASE webhook_console_{rows} WITH (FORCE)")
    await admin.close()


def _list(before: str = str(NEWEST), **filters: str) -> tuple[str, ...]:
    names = ("state", "type", "outcome", "status", "since", "until")
    conditions = [filters.get(name, "NULL") for name in names]
    return (
        "show_deliveries",
        "{person}",
        before,
        "0",
        *conditions,
        str(LOOK),
        str(PAGE),
        filters.get("of_end", "false"),
    )


def _of(merchant: str, **filters: str) -> tuple[str, ...]:
    _name, person, *rest = _list(**filters)
    return "show_deliveries_of_merchant", person, merchant, *rest, filters.get("endpoint", "NULL")


def _failed(**filters: str) -> tuple[str, ...]:
    conditions = [filters.get(name, "NULL") for name in ("type", "outcome", "status", "since", "until")]
    return (
        "show_failed_deliveries",
        "{person}",
        "NULL",
        str(NEWEST),
        *conditions,
        str(LOOK),
        str(PAGE),
        "true",
    )


def _recovery(
    merchant: str = "NULL",
    kinds: str = "ARRAY['failed', 'pending_retry', 'delivered']",
    types: str = "NULL",
) -> tuple[str, ...]:
    period = f"{NOW} - interval '30 days'", f"{NOW} + interval '1 day'", f"{NOW} - interval '6 hours'", NOW
    end = "false", "7", "ARRAY['last_attempts', 'failing']", "NULL", str(NEWEST), str(COUNTED), "10"
    return "show_recovery", "{person}", merchant, str(NEWEST), *period, kinds, types, "NULL", *end


EVENT = "lpad('1000', 32, '0')::uuid"
NOW = "clock_timestamp()"
COUNTED = MAX_COUNTED + 1
OF_FARES = "1001", "'1 day'", "100"
SKIPPED = f"{NOW} - interval '6 hours'", NOW, "ARRAY['charge.reversed']", "'ch_none'", "NULL"
ASKED: Mapping[str, tuple[tuple[str, ...], int]] = {
    "all": (_list(), PAGE),
    "all, further on": (_list("{rows} / 2"), PAGE),
    "all, delivered": (_list("{rows}", state="'delivered'"), PAGE),
    "all, pending": (_list(state="'pending'"), PAGE),
    "all, of a type": (_list("{rows}", type="'charge.reversed'"), LOOK),
    "all, timed out": (_list("{rows}", outcome="'timeout'"), LOOK),
    "all, of yesterday": (_list("{rows}", since=f"{NOW} - interval '30 hours'"), LOOK),
    "all, that ended lately": (_list("{rows}", since=f"{NOW} - interval '30 hours'", of_end="true"), LOOK),
    "failed": (_failed(), PAGE),
    "failed, of a type": (_failed(type="'charge.reversed'"), LOOK),
    "failed, long ago": (_failed(until=f"{NOW} - interval '22 days'"), LOOK),
    "of a small merchant": (_of("'m7'"), PAGE),
    "of a large merchant": (_of("'m0'"), PAGE),
    "of a large merchant, failed": (_of("'m0'", state="'failed'"), LOOK),
    "of a large merchant, of a type": (_of("'m0'", type="'charge.reversed'"), LOOK),
    "of a large merchant, to another endpoint": (_of("'m0'", endpoint="2"), LOOK),
    "of one event": (
        ("show_few_deliveries", "{person}", EVENT, "NULL", "NULL", str(NEWEST), *["NULL"] * 6, "50")
        + ("false", "NULL"),
        1,
    ),
    "of one charge": (
        ("show_few_deliveries", "{person}", "NULL", "'ch_250'", "NULL", str(NEWEST), *["NULL"] * 6, "50")
        + ("false", "NULL"),
        4,
    ),
    "numbers": (("show_numbers", "{person}", NOW, NOW, "NULL"), 2),
    "numbers of a merchant": (("show_numbers", "{person}", NOW, NOW, "'m0'"), 2),
    "a story": (("console_read_deliveries", "{person}", f"ARRAY[{EVENT}]", "20", "ARRAY['m7']"), 1),
    "where it was to go": (("console_read_endpoints_since", "{person}", "'m7'", NOW), 1),
    "its payload": (("show_payload", "{person}", EVENT, "1000"), 1),
    "its attempts": (("console_read_attempts", "{person}", EVENT, "100"), 1),
    "what was answered": (("console_read_excerpts", "{person}", EVENT, "100"), 1),
    "attempts before": (("console_read_latest_attempts", "{person}", "'m0'", NOW, "5"), 5),
    "who came before and after": (
        ("console_read_neighbours", "{person}", "'m0'", f"{NOW} - interval '22 days'", NOW, "50"),
        # Each of fifty may have finished on any of ten days.
        300,
    ),
    # Each of twenty may have finished on any of ten days.
    "latest attempts": (("show_latest_attempts", "{person}", "'m0'", "20"), 200),
    "commands around": (
        ("show_commands_around", "{person}", "'m0'", "'2000-01-01'", NOW, "50", str(LOOK), "1"),
        PAGE,
    ),
    "which command sent it": (
        ("show_commands_that_sent", "{person}", "1", EVENT, f"ARRAY[{NOW}]", "400"),
        400,
    ),
    "changes around": (("show_changes", "{person}", "'m0'", "'2000-01-01'", NOW, "50", "1"), 50),
    "a recovery": (_recovery(), 3 * COUNTED),
    "a recovery of what there is not": (
        _recovery(types="ARRAY['charge.reversed']"),
        3 * COUNTED,
    ),
    "a retry of what failed": (_recovery(kinds="ARRAY['failed']"), COUNTED),
    "a recovery of a large merchant": (_recovery("'m0'"), 2 * COUNTED),
    "a recovery of a small merchant": (_recovery("'m7'"), 50),
    "a skip": (("show_skip", "{person}", "NULL", *SKIPPED, str(COUNTED), "10"), COUNTED),
    "how ticked ones stand": (("show_states", "{person}", f"ARRAY[{EVENT}]::uuid[]", "'test'"), 50),
    "a skip of one merchant": (("show_skip", "{person}", "'m7'", *SKIPPED, str(COUNTED), "10"), 20),
    "circumstances": (
        ("console_read_circumstances", "{person}", "ARRAY['m7']", str(NEWEST), "10000", "'m7'"),
        20,
    ),
    "counts": (("show_counts", "{person}", str(COUNTED)), 4 * COUNTED),
    "what waits longest": (
        ("show_oldest_waiting", "{person}", str(MAX_MERCHANTS_LOOKED_AT), str(MAX_ROWS_LOOKED_AT)),
        MAX_MERCHANTS_LOOKED_AT + MAX_ROWS_LOOKED_AT,
    ),
    "lag": (("show_lag", "{person}", str(MAX_LAGS)), 3 * MAX_LAGS),
    "attempts of an hour": (
        ("show_attempts_by_step", "{person}", f"{NOW} - interval '1 hour'", "'1 minute'"),
        60,
    ),
    "attempts of a day": (
        ("show_attempts_by_step", "{person}", f"{NOW} - interval '1 day'", "'15 minutes'"),
        1_440,
    ),
    "merchants": (("show_merchants_by_id", "{person}", "''", "'m'", "'m~'", str(PAGE)), PAGE),
    "merchants of a prefix that none has": (
        ("show_merchants_by_id", "{person}", "''", "'a'", "'a~'", str(PAGE)),
        1,
    ),
    "paused": (("show_paused_merchants", "{person}", "''", "''", "'~'", str(PAGE)), PAGE),
    # Many lanes are on a page, and each of those that are judged has some attempts of two days.
    "failing": (
        ("console_find_whoever_failed", "{person}", "'2000-01-01'", "''", "''", "true", "'1 day'", "100")
        + (str(MAX_LANES_THAT_FAILED), str(MAX_JUDGED)),
        MERCHANTS // 10 + 10 * MAX_JUDGED,
    ),
    "behind": (
        ("show_merchants_behind", "{person}", "'2000-01-01'", "''", "''")
        + (str(MAX_LANES_LOOKED_AT), str(MAX_EVENTS_LOOKED_AT), str(PAGE)),
        2_000 + MAX_EVENTS_LOOKED_AT,
    ),
    "by volume": (
        ("show_merchants_by_volume", "{person}", "{rows}", str(NEWEST), "''", "''")
        + (str(MAX_EVENTS_LOOKED_AT), str(PAGE)),
        MAX_EVENTS_LOOKED_AT,
    ),
    "fares": (
        ("console_read_fares", "{person}", f"ARRAY{[f'm{n}' for n in range(50)]}", *OF_FARES, "false"),
        50 * 112,
    ),
    "fares of those that fail": (
        ("console_read_fares", "{person}", f"ARRAY{[f'm{10 * n}' for n in range(50)]}", *OF_FARES, "true"),
        50 * (112 + PARTITIONS + 10),
    ),
    # As many in both logs, at any time of day: the look ends it, not the span.
    "failed of merchants": (
        ("show_failed_of", "{person}", "ARRAY['m0']", "'30 days'", str(MAX_FAILED_LOOKED_AT)),
        MAX_FAILED_LOOKED_AT,
    ),
    "one merchant": (("show_merchant", "{person}", "'m7'"), 1),
    "its endpoints": (("show_endpoints", "{person}", "'m7'"), 1),
    "commands": (("show_commands", "{person}", str(NEWEST), *["NULL"] * 4, str(LOOK), str(PAGE)), PAGE),
    "a command's events": (
        ("show_command_events", "{person}", "7", "0", "false", "1000", str(PAGE)),
        3 * PAGE,
    ),
    "which of them failed": (
        ("show_command_events", "{person}", "7", "0", "true", "1000", str(PAGE)),
        3 * 1_000,
    ),
    "one command": (("show_command", "{person}", "7"), 1),
    "commands about an event": (
        ("console_read_commands_about", "{person}", f"ARRAY[{EVENT}]", "100", "1"),
        100,
    ),
    "changes": (("show_audit", "{person}", str(NEWEST), str(PAGE)), PAGE),
    "changes of a merchant": (("show_audit_of_merchant", "{person}", "'m7'", str(NEWEST), str(PAGE)), PAGE),
    "changes, further on": (("show_audit", "{person}", "{rows} / 20", str(PAGE)), PAGE),
    "who paused": (("console_read_pauses", "{person}", "'m7'"), 20),
    "who paused everything": (("console_read_pauses", "{person}", "''"), 2_000),
    "API keys": (("show_api_keys", "{person}", "'m7'", str(MAX_KEYS)), MAX_KEYS),
    "all API keys": (("show_all_api_keys", "{person}", str(NEWEST), str(PAGE)), PAGE),
    "whose a key is": (("show_merchant_of_key", "{person}", "'client'"), 4),
    "dispatchers": (("show_dispatchers", "{person}", "'1 minute'", str(MAX_DISPATCHERS)), 4),
    "kept since": (("console_read_kept", "{person}"), 4 * PARTITIONS),
    "whether charges are indexed": (("is_charge_shown", "{person}"), 1),
    "who asks": (("is_somebody", "{person}"), 1),
    "now": (("show_now", "{person}"), 1),
    "health": (("show_health", "{person}", str(COUNTED)), 200),
    "missing partitions": (("show_missing_partitions", "{person}", "3"), 50),
    "who is suspended": (("show_suspended", "{person}", "10"), 10),
    "what is stranded": (
        ("console_find_stranded", "{person}", "'5 seconds'", str(health.MAX_MERCHANTS_LOOKED_AT)),
        3 * health.MAX_MERCHANTS_LOOKED_AT,
    ),
    "where merchants are sent to": (("show_urls", "{person}", str(health.MAX_URLS + 1)), health.MAX_URLS + 1),
}
"""By name, what is asked, and how many rows it may be about."""


async def test_every_statement_of_a_page_is_asked() -> None:
    folder = Path(statements.__file__).parent / "sql"
    assert {path.stem.removeprefix("console_") for path in folder.glob("console_*.sql")} == {
        *SUBJECTS,
        *NOT_OF_PAGES,
    }
    assert {statement for (statement, *_), _ in ASKED.values()} == set(STATEMENTS)


@kept_plans("integration/test_console_read_cost.py::test_pages_are_bounded_and_flat")
@pytest.mark.parametrize("name", ASKED)
async def test_pages_are_bounded_and_flat(
    sessions: Mapping[int, tuple[asyncpg.Connection, str]], found: Found, name: str, plan_cache_mode: str
) -> None:
    (statement, *values), about = ASKED[name]
    costs = dict[int, Cost]()
    for rows, (session, person) in sessions.items():
        await session.execute(f"SET plan_cache_mode = {plan_cache_mode}")
        given = [value.format(person=person, rows=rows) for value in values]
        costs[rows] = await execute(session, statement, *given)
    found.add(name, costs)
    assert costs[MANY].buffers <= BUFFERS * (PLACES + about)
    few, many = (costs[rows].buffers_of("_log") for rows in (FEW, MANY))
    assert many <= few * 1.5 + 2 * PLACES, "an index may be a level higher, and a row of its own page"
    scanned = [node for cost in costs.values() for node in cost.nodes() if node["Node Type"] == "Seq Scan"]
    assert [node["Relation Name"] for node in scanned if "_log" in node["Relation Name"]] == []
