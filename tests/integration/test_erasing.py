"""What docs/security/gdpr.md has typed in: a charge's payloads are erased, and what stays for how long."""

import re
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.dispatch.upkeep import CONTROL_KEPT

PAGE = (Path(__file__).parents[2] / "docs" / "security" / "gdpr.md").read_text(encoding="utf-8")
ATTEMPTS = """
INSERT INTO webhook.attempt_log (
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome, response_excerpt
)
SELECT event_id, merchant_id, 1, 'schedule', now(), 1, 'status', 'Ada' FROM webhook.delivery_log
"""
LEFT = """
SELECT delivery_log.object::text, attempt_log.response_excerpt
FROM webhook.delivery_log JOIN webhook.attempt_log USING (event_id) ORDER BY seq
"""


def documented(name: str) -> str:
    [text] = re.findall(rf"<!-- statement: {name} -->\n```sql\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


async def test_a_finished_charge_loses_its_payloads_and_no_other_does(storage: StorageHarness) -> None:
    payer = '{"id":"ch_1","payer":"Ada"}'
    other = '{"id":"ch_2","payer":"Ada"}'
    await storage.finish(*await storage.insert("m", payer, other, payer))
    await storage.db.execute(ATTEMPTS)
    await storage.db.execute(documented("erase") + "RESET ROLE")
    left = [tuple(row) for row in await storage.db.fetch(LEFT)]
    assert left == [("null", None), (other, "Ada"), ("null", None)]


async def test_the_audit_keeps_its_rows(storage: StorageHarness) -> None:
    assert "The audit keeps its rows" in PAGE
    await storage.db.execute(
        "INSERT INTO webhook.audit (action) VALUES ('signed in'); SET ROLE webhook_owner"
    )
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="only added to"):
        await storage.db.execute("DELETE FROM webhook.audit")
    await storage.db.execute("RESET ROLE")


def test_a_command_is_kept_for_as_long_as_the_page_says() -> None:
    assert "`webhook.control` | a year |" in PAGE
    assert timedelta(days=366) == CONTROL_KEPT
