"""The console in a real Chromium: what people do first, and whether everybody can read it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.async_api import Error, Page

from tests.acceptance.console_people import PASSWORD, RunningConsole, start_console
from tests.acceptance.installation import Installation
from tests.browser.chromium import HOW, PROGRAM, chromium
from tests.browser.stage import CALM, NEW, REFUSING, fill
from webhook_dispatcher.console import names
from webhook_dispatcher.console.static_files import StaticFiles
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.arrivals import Signature

PACKAGES = Path(__file__).parent / "node_modules"
AXE = PACKAGES / "axe-core" / "axe.min.js"
NEEDS_PACKAGES = pytest.mark.needs(AXE.exists(), "axe-core and htmx from npm (make test installs them)")
SERIOUS = ("serious", "critical")
HOSTILE = (
    "<script>window.ran = 1</script>",
    '"><img src=x onerror=window.ran=1>',
    "'-(window.ran=1)-'",
    "javascript:window.ran=1",
    "{{ 7 * 7 }}{% raw %}${window.ran=1}",
    "</pre></title></textarea><svg onload=window.ran=1>",
    "%3Cscript%3Ewindow.ran=1%3C/script%3E",
    "../..//?a=b#c",
)

pytestmark = pytest.mark.needs(PROGRAM is not None, f"chromium ({HOW})")


class Watched:
    """A page whose console is read: whatever the policy keeps from running is said there."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))

    async def open(self, path: str) -> None:
        """Show a page."""
        await self.page.goto(self.base + path)

    async def sign_in(self, name: str) -> None:
        """Sign in by the form."""
        await self.open("/sign-in")
        await self.page.fill("#name", name)
        await self.page.fill("#password", PASSWORD)
        await self.page.click("button:has-text('Sign in')")
        await self.page.wait_for_selector("h1:has-text('Overview')")


@pytest.fixture
async def console(installation: Installation) -> RunningConsole:
    """Run the console with an operator's account."""
    running = await start_console(installation)
    await running.account("grace", Role.OPERATOR)
    return running


@pytest.fixture
async def watched(console: RunningConsole) -> AsyncIterator[Watched]:
    """Have a page, in which nothing may fail."""
    async with chromium() as browser:
        watched = Watched(await browser.new_page(), console.base)
        yield watched
        assert watched.said == []


async def test_a_merchant_is_configured_and_gets_a_test_event(
    installation: Installation, watched: Watched
) -> None:
    await installation.start()
    page = watched.page
    await watched.sign_in("grace")
    await page.click("nav >> text=Merchants")
    await page.click("summary:has-text('Configure a merchant')")
    await page.fill("#new", "acme")
    await page.click("button:has-text('Open')")
    await page.type("#url", "http://10.1.2.3/")
    await page.wait_for_selector("#verdict:has-text('10.1.2.3 is not a public address')")
    await page.fill("#url", installation.receiver.url("acme"))
    await page.wait_for_selector("#verdict:has-text('Events may be sent here.')")
    await page.click("button:has-text('Configure')")
    secret = await page.inner_text("#secret")
    installation.receiver.accept("acme", Secret(secret))
    await page.click("a:has-text('I have kept it')")
    assert secret not in await page.content()
    # The answer that showed it was not kept, and is not asked for again.
    with pytest.raises(Error, match="ERR_CACHE_MISS"):
        await page.go_back()
    # The browser goes on to its own page about that, which would interrupt what is opened meanwhile.
    await page.wait_for_url("chrome-error://chromewebdata/")
    await watched.open("/merchants/acme")
    kept = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, history.state])")
    assert secret not in kept
    await page.click("button:has-text('Send test event')")
    await page.wait_for_selector("#live .notice.good:has-text('Delivered: HTTP 200')")
    assert [arrival.signature for arrival in installation.receiver.of("acme")] == [Signature.RIGHT]
    await page.click("text=Show the test event")
    await page.wait_for_selector("h1:has-text('webhook.test')")


async def test_a_page_refreshes_by_itself_until_the_session_is_over(
    installation: Installation, watched: Watched
) -> None:
    page = watched.page
    await watched.sign_in("grace")
    await page.wait_for_selector(".figure:has-text('Dispatchers alive') .value:has-text('0')")
    await installation.start()
    await page.wait_for_selector(".figure:has-text('Dispatchers alive') .value:has-text('1')")
    await installation.owner.execute("UPDATE webhook.console_session SET revoked_at = clock_timestamp()")
    await page.wait_for_selector("text=The session is over. Sign in to go on.")


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


async def test_what_others_wrote_never_runs(installation: Installation, watched: Watched) -> None:
    page = watched.page
    await watched.sign_in("grace")
    for number, text in enumerate(HOSTILE):
        merchant_id = f"{text}{number}"
        sent = await installation.emit(merchant_id, json.dumps({"id": text, "note": [text], text: text}))
        await installation.ask("pause", merchant_id, note=text)
        shown = names.written(merchant_id)
        for path in (
            "/deliveries",
            f"/deliveries?{urlencode({'merchant': merchant_id, 'charge': text, 'type': text})}",
            f"/deliveries?{urlencode({'merchant': merchant_id})}",
            f"/deliveries/{sent.id}",
            f"/merchants?{urlencode({'prefix': text})}",
            f"/merchants/{shown}",
            f"/search?{urlencode({'q': text})}",
            "/commands",
            f"/commands/{number + 1}",
        ):
            await watched.open(path)
            assert (await page.title()).endswith("webhook-dispatcher")
            assert await page.evaluate("window.ran") is None, path
        await watched.open(f"/merchants/{shown}")
        assert await page.inner_text("h1") == merchant_id
        await page.fill("#url", text)
        await page.wait_for_selector("#verdict:has-text('Events cannot be sent here')")
        assert await page.evaluate("window.ran") is None
    # A filter that can be nothing is answered with 422, which the browser notes.
    watched.said = [text for text in watched.said if "status of 422" not in text]


@NEEDS_PACKAGES
async def test_every_page_can_be_read_by_everybody(installation: Installation, watched: Watched) -> None:
    await installation.start(RETRY_SCHEDULE="PT1H")
    events = await fill(installation)
    page = watched.page
    await watched.open("/sign-in")
    found = {("/sign-in", ""): await serious(page)}
    await watched.sign_in("grace")
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme="light" if theme == "light" else "dark")
        for path in (
            "/",
            "/deliveries",
            "/deliveries?state=failed",
            f"/deliveries/{events[REFUSING]}",
            f"/deliveries/act?act=recover_all&only_merchant={REFUSING}",
            "/merchants",
            f"/merchants/{CALM}",
            f"/merchants/{NEW}",
            "/commands",
            "/commands?view=changes",
            "/commands/1",
            "/health",
            "/account",
            "/search?q=c",
        ):
            await watched.open(path)
            found[path, theme] = await serious(page)
    assert {place: problems for place, problems in found.items() if problems} == {}


async def serious(page: Page) -> list[str]:
    """Return what axe-core finds that keeps somebody from using a page."""
    # Evaluated by the browser's debugger, which the page's policy does not bind.
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    result: dict[str, Any] = await page.evaluate("axe.run()")
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in result["violations"]
        if each["impact"] in SERIOUS
    ]


@NEEDS_PACKAGES
def test_htmx_is_what_its_package_has() -> None:
    packed = PACKAGES / "htmx.org"
    served = StaticFiles()
    for name, file in (("htmx-4.0.1.min.js", "dist/htmx.min.js"), ("htmx-4.0.1.LICENSE.txt", "LICENSE")):
        found = served.find(served.path(name).removeprefix("/static/"))
        assert found is not None
        assert found.body == (packed / file).read_bytes()
