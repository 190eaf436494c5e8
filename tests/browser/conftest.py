"""Tests in a real browser, against real processes on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.acceptance.console_people import RunningConsole, start_console
from tests.acceptance.installation import Installation
from tests.browser.chromium import IN_ONE_LOOP, chromium
from tests.browser.watched import Watched, watching
from tests.servers.database import Database
from webhook_dispatcher.domain.account import Role

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests here in one event loop, which the browser that they share belongs to."""
    for item in items:
        if item.path.parent == HERE and iscoroutinefunction(item.function):  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@IN_ONE_LOOP
async def installation(database: Database, tmp_path: Path) -> AsyncIterator[Installation]:
    """Put an installation together; daemons are started by the test."""
    # Debugging would slow down the receiver, which shares this loop.
    asyncio.get_running_loop().set_debug(False)
    async with Installation(database, tmp_path) as installation:
        yield installation


@IN_ONE_LOOP
async def console(installation: Installation) -> RunningConsole:
    """Run the console with an operator's account."""
    running = await start_console(installation)
    await running.account("grace", Role.OPERATOR)
    return running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Run a Chromium for all tests; each has windows of its own."""
    async with chromium() as browser:
        yield browser


@IN_ONE_LOOP
async def watched(console: RunningConsole, browser: Browser) -> AsyncIterator[Watched]:
    """Have a page, in which nothing may fail."""
    async with watching(browser, console.base) as watched:
        yield watched
