"""A page in which nothing may fail: what its browser complains of, and what it asks of others, is kept."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, Page, Request

from tests.acceptance.console_people import PASSWORD, RunningConsole
from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.account import Role


class Watched:
    """A page whose console is read: whatever the policy keeps from running is said there."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", self._asked)

    @property
    def context(self) -> BrowserContext:
        return self.page.context

    def _asked(self, request: Request) -> None:
        """Nothing is fetched from elsewhere, whoever put its address into a page."""
        url = urlsplit(request.url)
        if f"{url.scheme}://{url.netloc}" != self.base:
            self.said.append(f"asked for {request.url}")

    async def open(self, path: str) -> int:
        """Show a page; return its status."""
        response = await self.page.goto(self.base + path)
        assert response is not None
        return response.status

    async def sign_in(self, name: str, password: str = PASSWORD) -> None:
        """Sign in by the form."""
        await self.enter(name, password)
        await self.page.wait_for_selector("h1:has-text('Overview')")

    async def enter(self, name: str, password: str) -> None:
        """Fill in the form for signing in, and send it."""
        await self.open("/sign-in")
        await self.page.fill("#name", name)
        await self.page.fill("#password", password)
        await self.page.click("button:has-text('Sign in')")

    def forgive(self, noted: str) -> None:
        """Forget what the browser notes of something that the test wanted, as an answer's status."""
        self.said = [text for text in self.said if noted not in text]


@asynccontextmanager
async def watching(browser: Browser, base: str, **options: Any) -> AsyncIterator[Watched]:
    """Have a page in a browser's window of its own, with cookies of its own; nothing may fail in it."""
    context = await browser.new_context(**options)
    context.set_default_timeout(1000 * MAX_WAIT)
    watched = Watched(await context.new_page(), base)
    yield watched
    assert watched.said == [], "\n".join(watched.said)
    await context.close()


@asynccontextmanager
async def viewing(browser: Browser, console: RunningConsole, **options: Any) -> AsyncIterator[Watched]:
    """Have a page in which somebody is signed in who may change nothing."""
    await console.account("vera", Role.VIEWER)
    async with watching(browser, console.base, **options) as watched:
        await watched.sign_in("vera")
        yield watched
