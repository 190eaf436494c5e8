"""Pages that refresh themselves while somebody uses them: what is open, focused or typed stays so."""

import pytest
from playwright.async_api import Page

from tests.acceptance.console_people import PASSWORD, RunningConsole
from tests.acceptance.installation import Installation
from tests.browser.chromium import IN_ONE_LOOP, NEEDS_CHROMIUM
from tests.browser.watched import Watched
from tests.waiting import until_found
from webhook_dispatcher.domain.account import Role

pytestmark = NEEDS_CHROMIUM
TEN_TIMES_AS_OFTEN = """
const usual = setInterval;
setInterval = (act, milliseconds) => usual(act, milliseconds / 10);
"""


@IN_ONE_LOOP
async def page(watched: Watched) -> Page:
    """Have a page of an operator who has signed in; it need not wait for seconds to ask for itself again."""
    await watched.page.add_init_script(TEN_TIMES_AS_OFTEN)
    await watched.sign_in("grace")
    return watched.page


async def refreshed(page: Page) -> None:
    """Wait until the page has asked for itself, and shows that."""
    async with page.expect_response(lambda response: "hx-request" in response.request.headers):
        pass
    await page.evaluate("new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))")


async def test_a_delivery_that_is_watched_keeps_what_is_open_and_focused(
    installation: Installation, console: RunningConsole, page: Page
) -> None:
    await installation.configure("m1")
    sent = await installation.emit("m1")
    await page.goto(f"{console.base}/deliveries/{sent.id}")
    await page.click("summary:has-text('Cancel')")
    await page.focus("button:has-text('Give it up')")
    for _ in range(2):
        await refreshed(page)
        assert await page.is_visible("button:has-text('Give it up')")
        assert await page.evaluate("document.activeElement.textContent") == "Give it up"
    await installation.start()
    await page.wait_for_selector("summary:has-text('Send again')")
    # What can be done now is another thing, and stands behind a fold of its own.
    assert not await page.is_visible("button:has-text('Send it again')")
    assert await page.locator("table:has-text('Attempts') tbody tr").count() == 1
    assert await page.locator("button:has-text('Give it up')").count() == 0


async def test_a_pause_can_be_ended_on_the_page_that_shows_it_carried_out(
    installation: Installation, console: RunningConsole, page: Page
) -> None:
    await installation.configure("m1")
    await page.goto(f"{console.base}/merchants/m1")
    await page.click("button:has-text('Pause')")
    await page.fill("#url", "https://typed.example/")
    await installation.start()
    await page.wait_for_selector("#live button:has-text('Resume')")
    assert await page.input_value("#url") == "https://typed.example/"
    await page.click("button:has-text('Resume')")
    await page.wait_for_selector("#live button:has-text('Pause')")


async def test_what_a_command_sent_again_fills_in_while_it_is_looked_at(
    installation: Installation, console: RunningConsole, page: Page
) -> None:
    await installation.configure("m1")
    await installation.start(RETRY_SCHEDULE="PT1H")
    sent = await installation.emit("m1")
    await installation.settled(sent.id, "delivered", 1)
    await installation.do("pause")
    await page.goto(f"{console.base}/merchants/m1")
    await page.click("a:has-text('Send again')")
    await page.check("input[value='delivered']")
    await page.click("button:has-text('Count again')")
    await page.click("button:has-text('Send again (1)')")
    await page.wait_for_selector("#live h2:has-text('Which ones')")
    await page.wait_for_selector("#live .badge:has-text('Waiting')")
    await installation.do("resume")
    await page.wait_for_selector("#live td .badge:has-text('Delivered')")


async def refuse_sessions(installation: Installation, console: RunningConsole) -> None:
    """Keep the console from its database, until it may log in again."""
    await installation.owner.execute("ALTER ROLE webhook_console NOLOGIN")
    await installation.owner.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'webhook_console'"
    )


async def test_what_is_not_answered_any_more_is_said_and_greyed(
    installation: Installation, console: RunningConsole, page: Page, watched: Watched
) -> None:
    await refreshed(page)
    assert not await page.is_visible("#away")
    await refuse_sessions(installation, console)
    try:
        await page.wait_for_selector("#away:has-text('does not answer')")
        answered = await page.inner_text("#answered")
        assert await page.evaluate("getComputedStyle(document.getElementById('live')).opacity") == "0.55"
        await refreshed(page)
        assert await page.inner_text("#answered") == answered, "the time of the last answer stands"
    finally:
        await installation.owner.execute("ALTER ROLE webhook_console LOGIN")
    await page.wait_for_selector("#away", state="hidden")
    assert await page.inner_text("#answered") != answered
    console.daemon.process.kill()
    await page.wait_for_selector("#away:has-text('does not answer')")
    watched.said.clear()


async def test_the_overview_keeps_what_is_focused_and_selected_and_can_be_paused(
    installation: Installation, page: Page
) -> None:
    await page.focus(".figure a >> nth=2")
    await page.evaluate("getSelection().selectAllChildren(document.querySelector('#live h2'))")
    selected = await page.evaluate("String(getSelection())")
    assert selected
    await installation.configure("m1")
    await installation.emit("m1")
    await page.wait_for_selector(".figure:has-text('Waiting') .value:text('1')")
    assert await page.evaluate("document.activeElement === document.querySelectorAll('.figure a')[2]")
    assert await page.evaluate("String(getSelection())") == selected
    await page.click("button:has-text('Stop refreshing')")
    await page.evaluate(
        "window.turns = []; document.addEventListener('htmx:before:request', (event) => "
        "queueMicrotask(() => window.turns.push(event.defaultPrevented)))"
    )

    async def turns() -> list[bool]:
        """Tell of each time that the page was about to ask for itself whether it was kept from it."""
        found: list[bool] = await page.evaluate("window.turns")
        return found if len(found) > 1 else []

    assert set(await until_found(turns)) == {True}
    await page.click("button[aria-pressed=true]")
    await refreshed(page)


async def test_what_was_typed_outlives_an_idle_session_and_go_back_goes_back(
    installation: Installation, console: RunningConsole, page: Page, watched: Watched
) -> None:
    await page.goto(f"{console.base}/merchants/m1?new=yes")
    await page.fill("#url", "https://typed.example/hook")
    await installation.owner.execute(
        "UPDATE webhook.console_session SET acted_at = acted_at - interval '16 min'"
    )
    await page.click("button:has-text('Configure')")
    await page.wait_for_selector("h1:has-text('Sign in')")
    await page.fill("#name", "grace")
    await page.fill("#password", PASSWORD)
    await page.click("button:has-text('Sign in')")
    await page.wait_for_selector("h1:has-text('m1')")
    assert await page.input_value("#url") == "https://typed.example/hook"
    await page.goto(f"{console.base}/merchants")
    await page.goto(f"{console.base}/merchants/m1")
    assert await page.input_value("#url") == "", "it is kept once"
    await page.goto(f"{console.base}/commands")
    await page.goto(f"{console.base}/nowhere")
    await page.click("a:has-text('Go back')")
    await page.wait_for_selector("h1:has-text('Commands')")
    watched.said.clear()


SIGNED_OUT = pytest.mark.slow("browser/test_refreshing.py::test_what_was_typed_is_shown_to_nobody_else")


@pytest.mark.parametrize("way", ["it is over", pytest.param("signed out", marks=SIGNED_OUT)])
async def test_what_was_typed_is_shown_to_nobody_else(
    installation: Installation, console: RunningConsole, page: Page, watched: Watched, way: str
) -> None:
    await console.account("heidi", Role.OPERATOR)
    await page.goto(f"{console.base}/merchants/m1?new=yes")
    await page.fill("#url", "https://typed.example/hook")
    if way == "it is over":
        await installation.owner.execute("DELETE FROM webhook.console_session")
        await page.click("button:has-text('Configure')")
    else:
        await page.click("button:has-text('Sign out')")
        await page.wait_for_selector("h1:has-text('Sign in')")
        assert await page.evaluate("sessionStorage.length") == 0
        await page.goto(f"{console.base}/sign-in?next=/merchants/m1%3Fnew%3Dyes")
    await page.wait_for_selector("h1:has-text('Sign in')")
    await page.fill("#name", "heidi")
    await page.fill("#password", PASSWORD)
    await page.click("button:has-text('Sign in')")
    await page.wait_for_selector("h1:has-text('m1')")
    assert await page.input_value("#url") == ""
    assert await page.evaluate("sessionStorage.length") == 0
    watched.said.clear()
