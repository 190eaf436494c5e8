"""Every page, both themes, narrow and wide: for people to look at (`make screenshots`).

Run by pytest, which has the database: SCREENSHOTS names the folder that they are written to.
"""

import os
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.acceptance.console_people import PASSWORD, RunningConsole, start_console
from tests.acceptance.installation import Installation
from tests.browser.chromium import NEEDS_CHROMIUM, chromium
from tests.browser.stage import CALM, NEW, PAUSED, REFUSING, fill
from tests.waiting import until_found
from webhook_dispatcher.domain.account import Role

WIDTHS = (360, 1280)
THEMES = ("light", "dark")
FOLDER = os.environ.get("SCREENSHOTS")


@NEEDS_CHROMIUM
@pytest.mark.skipif(FOLDER is None, reason="SCREENSHOTS names no folder")
async def test_screenshots(installation: Installation) -> None:
    """Take a picture of every page."""
    assert FOLDER is not None
    folder = Path(FOLDER)
    await installation.start(RETRY_SCHEDULE="PT1H")
    events = await fill(installation)
    await dispatcher_has_noted(installation)
    console = await start_console(installation)
    await console.account("grace", Role.OPERATOR)
    pages = {
        "overview": "/",
        "deliveries": "/deliveries",
        "deliveries-failing": f"/deliveries?merchant={REFUSING}&state=pending_retry",
        "deliveries-empty": "/deliveries?state=failed&type=charge.reversed",
        "delivery": f"/deliveries/{events[CALM]}",
        "delivery-failing": f"/deliveries/{events[REFUSING]}",
        "act": f"/deliveries/act?act=recover_all&only_merchant={REFUSING}",
        "merchants": "/merchants",
        "merchant": f"/merchants/{CALM}",
        "merchant-paused": f"/merchants/{PAUSED}",
        "merchant-new": f"/merchants/{NEW}",
        "commands": "/commands",
        "changes": "/commands?view=changes",
        "command": "/commands/1",
        "health": "/health",
        "account": "/account",
        "search": "/search?q=c",
        "search-empty": "/search",
        "missing": "/nowhere",
    }
    async with chromium() as browser:
        for theme in THEMES:
            for width in WIDTHS:
                await take(browser, console, pages, folder, theme, width)


async def dispatcher_has_noted(installation: Installation) -> None:
    """Wait until the plots have something to show."""

    async def noted() -> bool:
        return bool(await installation.owner.fetchval("SELECT count(*) FROM webhook.attempts_by_minute"))

    await until_found(noted)


async def take(
    browser: Browser, console: RunningConsole, pages: dict[str, str], folder: Path, theme: str, width: int
) -> None:
    """Take them all in one theme and width."""
    context = await browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme="dark" if theme == "dark" else "light"
    )
    page = await context.new_page()
    page.on("console", lambda message: print("console:", message.text))
    await page.goto(f"{console.base}/sign-in")
    await shoot(page, folder, "sign-in", theme, width)
    await sign_in(page, "grace")
    for name, path in pages.items():
        await page.goto(console.base + path)
        await shoot(page, folder, name, theme, width)
    await context.close()


async def sign_in(page: Page, name: str) -> None:
    """Sign in by the form."""
    await page.fill("#name", name)
    await page.fill("#password", PASSWORD)
    await page.click("button:has-text('Sign in')")
    await page.wait_for_url("**/")


async def shoot(page: Page, folder: Path, name: str, theme: str, width: int) -> None:
    """Take one; say where a page is wider than its window."""
    wide = await page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    if wide:
        print(f"{name} is wider than {width}")
    await page.screenshot(path=folder / f"{name}-{theme}-{width}.png", full_page=True)
