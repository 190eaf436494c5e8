"""Every page, both themes, narrow and wide: for people to look at (`make screenshots`).

Run by pytest, which has the database: SCREENSHOTS names the folder that they are written to.
"""

import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, Page

from tests.acceptance.console_people import PASSWORD, RunningConsole, start_console
from tests.acceptance.installation import Installation
from tests.browser.chromium import NEEDS_CHROMIUM, chromium
from tests.browser.demo_day import NEW, SCHEDULE, fill, freeze_a_command
from webhook_dispatcher.cli.demo import cast
from webhook_dispatcher.domain.account import Role

WIDTHS = (360, 1280)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
FOLDER = os.environ.get("SCREENSHOTS")
PERSON = "grace"
CREATE_KEY = "SELECT webhook.create_api_key($1, $2, sha256('secret'), 'online shop', 'ada@example.com')"
IS_TOO_WIDE = """
document.documentElement.scrollWidth > window.innerWidth
|| [...document.querySelectorAll(".card .table")].some(
    each => each.offsetWidth > each.closest(".card").clientWidth
)
"""


@dataclass(frozen=True)
class Camera:
    """A window of one theme and width."""

    page: Page
    name: str

    async def take(self, name: str) -> bool:
        """Take a picture of what is shown; tell whether it, or a table in it, is too wide."""
        file = f"{name}-{self.name}.png"
        await self.page.screenshot(path=Path(FOLDER or "") / file, full_page=True)
        return bool(await self.page.evaluate(IS_TOO_WIDE))


@NEEDS_CHROMIUM
@pytest.mark.skipif(FOLDER is None, reason="SCREENSHOTS names no folder")
async def test_screenshots(installation: Installation) -> None:
    """Take a picture of every page."""
    working, last = await fill(installation)
    await dispatcher_has_noted(installation)
    console = await start_console(installation, RETRY_SCHEDULE=SCHEDULE)
    await console.account(PERSON, Role.OPERATOR)
    failing, healthy = cast.FAILING.id, cast.HEALTHY.id
    for merchant, client in ((failing, "museum-tickets"), (healthy, "bakery-online-shop-2")):
        await installation.admin.execute(CREATE_KEY, merchant, client)
    await installation.admin.execute("SELECT webhook.revoke_api_key('museum-tickets', 'grace')")
    pages = {
        "overview": "/",
        "deliveries": "/deliveries",
        "deliveries-failing": f"/deliveries?merchant={failing}&state=pending_retry",
        "deliveries-empty": "/deliveries?state=failed&type=charge.reversed&outcome=tls",
        "delivery": f"/deliveries/{last[healthy].id}",
        "delivery-failing": f"/deliveries/{last[failing].id}",
        "delivery-failed": f"/deliveries/{last[cast.HANGING.id].id}",
        "act": f"/deliveries/act?act=recover_all&only_merchant={failing}",
        "act-skip": f"/deliveries/act?act=skip_all&only_merchant={failing}",
        "merchants": "/merchants",
        "merchants-failing": "/merchants?order=failing",
        "api-keys": "/merchants?view=keys",
        "merchant": f"/merchants/{healthy}",
        "merchant-paused": f"/merchants/{cast.PAUSED.id}",
        "merchant-new": f"/merchants/{NEW}",
        "commands": "/commands",
        "changes": "/commands?view=changes",
        "command": "/commands/1",
        "health": "/health",
        "account": "/account",
        "search": "/search?q=k",
        "search-empty": "/search",
        "missing": "/nowhere",
    }
    async with chromium() as browser:
        cameras = [await camera(browser, theme, width) for theme in THEMES for width in WIDTHS]
        wide = await shoot(cameras, "sign-in", lambda page: open_page(page, console.base + "/sign-in"))
        for each in cameras:
            await sign_in(each.page)
        for name, path in pages.items():
            wide += await shoot(cameras, name, lambda page, path=path: open_page(page, console.base + path))  # type: ignore[misc]
        wide += await shoot(cameras, "secret", lambda page: configure(page, console))
        running = f"{console.base}/commands/{await freeze_a_command(installation, working)}"
        wide += await shoot(cameras, "command-running", lambda page: open_page(page, running))
    assert wide == []


async def dispatcher_has_noted(installation: Installation) -> None:
    """Wait until dispatchers have noted what they did since the day that was put back."""
    row = "SELECT count(*) FROM webhook.dispatcher WHERE beat_at > started_at"
    await installation.until_true(row)


async def camera(browser: Browser, theme: Literal["light", "dark"], width: int) -> Camera:
    """Open a window."""
    page = await browser.new_page(viewport={"width": width, "height": 800}, color_scheme=theme)
    page.on("console", lambda message: print("console:", message.text))
    return Camera(page, f"{theme}-{width}")


async def shoot(cameras: Sequence[Camera], name: str, show: Callable[[Page], Awaitable[object]]) -> list[str]:
    """Take one picture in each window; return those that are too wide."""
    wide = []
    for each in cameras:
        await show(each.page)
        if await each.take(name):
            wide.append(f"{name}-{each.name}")
    return wide


async def open_page(page: Page, url: str) -> None:
    """Show a page."""
    await page.goto(url)


async def sign_in(page: Page) -> None:
    """Sign in by the form."""
    await page.fill("#name", PERSON)
    await page.fill("#password", PASSWORD)
    await page.click("button:has-text('Sign in')")
    await page.wait_for_url("**/")


async def configure(page: Page, console: RunningConsole) -> None:
    """Configure a merchant, whose secret is shown then."""
    merchant_id = f"merchant-{secrets.token_hex(2)}"
    await page.goto(f"{console.base}/merchants/{merchant_id}")
    await page.fill("#url", console.installation.receiver.url(merchant_id))
    await page.click("button:has-text('Configure')")
    await page.wait_for_selector("#secret")
