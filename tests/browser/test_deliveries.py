"""Many deliveries at once, in a real Chromium: ticked ones, and a command that goes through them."""

from tests.acceptance.installation import Installation
from tests.browser.chromium import NEEDS_CHROMIUM
from tests.browser.watched import Watched

RUNNING = """
INSERT INTO webhook.control (command, merchant_id, args, requested_by, status, running_until, result)
VALUES (
    'retry_failed', 'acme', '{}', 'ana', 'running', clock_timestamp() + interval '1 hour',
    '{"matched": 120, "retried": 100}'
)
RETURNING id
"""

pytestmark = NEEDS_CHROMIUM


async def test_a_command_that_runs_shows_how_far_it_has_come(
    installation: Installation, watched: Watched
) -> None:
    number = await installation.owner.fetchval(RUNNING)
    await watched.sign_in("grace")
    await watched.open(f"/commands/{number}")
    await watched.page.wait_for_selector("#live >> text='100 / 120'")
    done = "UPDATE webhook.control SET status = 'done', handled_at = clock_timestamp() WHERE id = $1"
    await installation.owner.execute(done, number)
    await watched.page.wait_for_selector("#live .badge:has-text('Attempts asked for')")


async def test_rows_are_ticked_all_at_once(installation: Installation, watched: Watched) -> None:
    for _ in range(3):
        await installation.emit("acme")
    page = watched.page
    await watched.sign_in("grace")
    await watched.open("/deliveries")
    await page.check("[data-all]")
    await page.click("button:has-text('Cancel')")
    await page.click("button:has-text('Cancel 3 deliveries')")
    await page.wait_for_selector("text=3 commands were given.")
