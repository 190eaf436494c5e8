"""What the console asks in texts that others ask too shows nothing without a session, whatever they forget.

The same texts as the Partner API asks them are among those of test_api_walls.py.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from tests.integration.console_readers import console_pool, reader_of
from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.domain.command import LONG_AGO
from webhook_dispatcher.storage.statements import CONSOLE, Statement, load

DAY = timedelta(days=1)
UNKNOWN = b"\x00" * 32
TEXTS = {
    name: statement
    for subject in ("attempts", "delivery", "fares")
    for name, statement in load(subject, CONSOLE).items()
}
EVERY_TEXT = pytest.mark.parametrize("name", TEXTS)
FINISHED_AND_FAILING = """
INSERT INTO webhook.attempt_log (
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome, response_excerpt
)
VALUES ($1, 'm', 1, 'schedule', clock_timestamp() - interval '1 minute', 5, 500, 'status', 'an echo')
"""
COMMANDS = """
INSERT INTO webhook.control (command, merchant_id, event_id, requested_by, status, handled_at)
VALUES
    ('pause', 'm', NULL, 'ana', 'done', clock_timestamp()),
    ('retry', NULL, $1, 'ana', 'done', clock_timestamp())
"""
FAILING = "UPDATE webhook.lane SET failing_since = clock_timestamp() WHERE merchant_id = 'm'"


async def _asked(storage: StorageHarness) -> Mapping[str, Sequence[object]]:
    """Have something for each text to show, and return what it is asked."""
    await storage.configure("m")
    finished, _waiting = await storage.insert("m", "{}", "{}")
    await storage.finish(finished, state="failed")
    event, now = await storage.id_of(finished), await storage.now()
    await storage.db.execute(FINISHED_AND_FAILING, event)
    await storage.db.execute(COMMANDS, event)
    await storage.db.execute(FAILING)
    return {
        "read_deliveries": ([event], 10, ["m"]),
        "read_attempts": (event, 10),
        "read_excerpts": (event, 10),
        "read_latest_attempts": ("m", now, 10),
        "read_neighbours": ("m", now - DAY, now, 10),
        "read_circumstances": (["m"], 2**62, 10, None),
        "read_pauses": ("m",),
        "read_endpoints_since": ("m", now),
        "read_commands_about": ([event], 10, 1),
        "read_kept": (),
        "find_whoever_failed": (LONG_AGO, "", "", True, DAY, 100, 10, 10),
        "read_fares": (["m"], 10, DAY, 100, True),
        "find_stranded": (timedelta(0), 10),
    }


@EVERY_TEXT
async def test_it_is_shown_to_a_session_and_to_no_other(storage: StorageHarness, name: str) -> None:
    values, session = (await _asked(storage))[name], await reader_of(storage.db, "operator")
    async with console_pool(storage.database) as pool:
        assert await pool.fetch(TEXTS[name].text, UNKNOWN, *values) == []
        assert len(await pool.fetch(TEXTS[name].text, session, *values)) == 1


@EVERY_TEXT
async def test_without_the_reader_the_second_wall_shows_nothing(storage: StorageHarness, name: str) -> None:
    """The same text, which takes somebody as it is told instead of asking whose the session is."""
    values, session = (await _asked(storage))[name], await reader_of(storage.db, "operator")
    forgetful = _without_reader(TEXTS[name])
    async with console_pool(storage.database) as pool, pool.acquire() as connection:
        hidden = await connection.fetch(forgetful, session, *values)
        # Of merchants who were named a row each comes back, as of those whom nobody knows.
        assert [{*row.values()} - {"m", None, False} for row in hidden] == [set()] * len(hidden)
        assert len(hidden) == (name == "read_fares")
        async with connection.transaction():
            await connection.execute("SELECT set_config('webhook.console_session', $1, true)", session.hex())
            shown = await connection.fetch(forgetful, session, *values)
        assert shown != hidden, "only the setting was missing"


def _without_reader(statement: Statement) -> str:
    forgetful = statement.text.replace(
        "webhook.console_reader($1) AS me", "(SELECT 'ana' AS name WHERE $1::bytea IS NOT NULL) AS me"
    )
    assert forgetful != statement.text
    return forgetful


async def test_a_viewer_is_shown_no_answer(storage: StorageHarness) -> None:
    values, viewer = (await _asked(storage))["read_excerpts"], await reader_of(storage.db, "viewer")
    async with console_pool(storage.database) as pool:
        assert await pool.fetch(TEXTS["read_excerpts"].text, viewer, *values) == []
