"""Tests in a real browser, against real processes on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.acceptance.console_people import RunningConsole, start_console
from tests.acceptance.installation import Installation
from tests.browser.chromium import chromium
from tests.browser.watched import Watched, watching
from tests.servers.database import Database
from webhook_dispatcher.domain.account import Role


@pytest.fixture
async def installation(database: Database, tmp_path: Path) -> AsyncIterator[Installation]:
    """Put an installation together; daemons are started by the test."""
    # Debugging would slow down the receiver, which shares this loop.
    asyncio.get_running_loop().set_debug(False)
    async with Installation(database, tmp_path) as installation:
        yield installation


@pytest.fixture
async def console(installation: Installation) -> RunningConsole:
    """Run the console with an operator's account."""
    running = await start_console(installation)
    await running.account("grace", Role.OPERATOR)
    return running


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Run a Chromium."""
    async with chromium() as browser:
        yield browser


@pytest.fixture
async def watched(console: RunningConsole, browser: Browser) -> AsyncIterator[Watched]:
    """Have a page, in which nothing may fail."""
    async with watching(browser, console.base) as watched:
        yield watched
