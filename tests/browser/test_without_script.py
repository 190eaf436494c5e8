"""A browser that runs no scripts: what is folded and offered; test_console_pages.py has the rest."""

from collections.abc import AsyncIterator

from playwright.async_api import Browser

from tests.acceptance.console_people import RunningConsole
from tests.acceptance.installation import Installation
from tests.browser.chromium import IN_ONE_LOOP, NEEDS_CHROMIUM
from tests.browser.watched import Watched, watching

pytestmark = NEEDS_CHROMIUM


@IN_ONE_LOOP
async def plain(console: RunningConsole, browser: Browser) -> AsyncIterator[Watched]:
    """Have a page without scripts, in which somebody is signed in."""
    async with watching(browser, console.base, java_script_enabled=False) as plain:
        await plain.sign_in("grace")
        yield plain


async def test_filters_are_folded_where_there_is_no_room(installation: Installation, plain: Watched) -> None:
    for merchant_id in ("acme", "books"):
        await installation.emit(merchant_id)
    page = plain.page
    await page.set_viewport_size({"width": 360, "height": 800})
    await plain.open("/deliveries")
    assert not await page.is_visible("#merchant")
    await page.click("summary:has-text('Filters')")
    await page.fill("#merchant", "acme")
    await page.click("button:has-text('Filter')")
    assert await page.inner_text("summary:has-text('Filters')") == "Filters 1 set"
    assert not await page.is_visible("#merchant")
    assert await page.locator("input[name=event]").count() == 1
    await page.set_viewport_size({"width": 1280, "height": 800})
    assert await page.is_visible("#merchant")
    assert not await page.is_visible("summary:has-text('Filters')")
    await page.set_viewport_size({"width": 360, "height": 800})
    await plain.open("/deliveries?status=abc")
    assert await page.is_visible("#status"), "what is to be mended is not hidden"
    plain.forgive("status of 422")


async def test_what_needs_scripts_is_not_offered(installation: Installation, plain: Watched) -> None:
    await installation.configure("acme")
    sent = await installation.emit("acme")
    for path in ("/merchants/acme", f"/deliveries/{sent.id}", "/deliveries"):
        await plain.open(path)
        assert await plain.page.locator("[data-copy]:visible, [data-all]:visible").count() == 0, path
