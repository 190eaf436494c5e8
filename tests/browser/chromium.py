"""Debian's Chromium, driven by Playwright: which of its own browsers it wants does not matter."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.spent import spending

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None
)
"""Without windows of its own it takes a third less of the processor than the whole browser."""
HOW = "as root, apt-get install chromium-headless-shell"
NEEDS_CHROMIUM = pytest.mark.needs(PROGRAM is not None, f"chromium ({HOW})")
IN_ONE_LOOP = pytest_asyncio.fixture(loop_scope="session")
"""All tests with a browser share it, and so an event loop."""
NOT_NEEDED = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup")
"""Pages that each window loads for its address bar, which nobody sees: two thirds of what a window costs."""
AS_PLAYWRIGHT = ("HttpsUpgrades", "MediaRouter", "NetworkTimeServiceQuerying", "PaintHolding")
"""What of Playwright's own list concerns us: of several options the last one counts."""
PACKAGES = Path(__file__).parent / "node_modules"
NEEDS_PACKAGES = pytest.mark.needs(
    (PACKAGES / "axe-core").exists(), "axe-core and htmx from npm (make test installs them)"
)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run it, without a window, while entered."""
    assert PROGRAM is not None
    arguments = [f"--disable-features={','.join((*NOT_NEEDED, *AS_PLAYWRIGHT))}"]
    if os.getuid() == 0:
        arguments.append("--no-sandbox")  # which refuses to run as root, where containers run
    async with AsyncExitStack() as stack:
        with spending("starting programs"):
            playwright = await stack.enter_async_context(async_playwright())
            browser = await playwright.chromium.launch(executable_path=PROGRAM, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()
