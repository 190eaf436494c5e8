"""What went wrong is sent again, in a real Chromium: ticked ones, all that match."""

from tests.acceptance.installation import Installation
from tests.browser.chromium import NEEDS_CHROMIUM
from tests.browser.watched import Watched
from tests.waiting import until_found
from webhook_dispatcher.local.behaviour import Behaviour

MANY, STILL_REFUSED = 120, 7
"""More than a page shows, and more than a look takes."""
RUNNING = """
INSERT INTO webhook.control (command, merchant_id, args, requested_by, status, running_until, result)
VALUES (
    'retry_failed', 'acme', '{}', 'ana', 'running', clock_timestamp() + interval '1 hour',
    '{"matched": 120, "retried": 100}'
)
RETURNING id
"""

pytestmark = NEEDS_CHROMIUM


async def test_hundreds_that_match_are_retried_and_those_that_fail_again_are_named(
    installation: Installation, watched: Watched
) -> None:
    await installation.start(RETRY_SCHEDULE="PT0.05S")
    await installation.configure("acme", "books")
    installation.receiver.behave("acme", Behaviour(503))
    installation.receiver.behave("books", Behaviour(503))
    await installation.emit_each(["books"], MANY)
    other = await installation.emit("acme")
    await until_found(lambda: _failed(installation, MANY + 1))
    installation.receiver.behave("books", *[Behaviour(500)] * STILL_REFUSED, Behaviour())
    seen = len(installation.receiver.arrivals)
    page = watched.page
    await watched.sign_in("grace")
    await watched.open("/deliveries")
    await page.fill("#merchant", "books")
    await page.select_option("#state", "failed")
    await page.click("button:has-text('Filter')")
    await page.wait_for_selector("a[rel=next]")
    assert await page.locator("input[name=event]").count() < MANY, "most of them are on further pages"
    await page.click("button:has-text('Retry failed')")
    assert await page.inner_text("dt:has-text('Failed') + dd") == f"{MANY}"
    await page.click("main button:has-text('Retry failed')")
    await page.wait_for_selector("#live .badge:has-text('Attempts asked for')")
    assert f"Matched: {MANY}, done: {MANY}" in await page.inner_text("#live")
    await installation.all_delivered(MANY - STILL_REFUSED)
    await page.reload()
    await page.click("a:has-text('Only those that failed')")
    shown = await page.eval_on_selector_all("tbody a", "found => found.map(each => each.pathname)")
    again = installation.receiver.arrivals[seen:]
    refused = [arrival.event_id for arrival in again if arrival.status == 500]
    assert sorted(shown) == sorted(f"/deliveries/{event}" for event in refused)
    assert (await installation.delivery(other.id))["attempts"] == 2, "what does not match is left alone"
    assert (len(again), len(refused)) == (MANY, STILL_REFUSED)


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


async def _failed(installation: Installation, count: int) -> bool:
    return await installation.count("state = 'failed'") == count


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
