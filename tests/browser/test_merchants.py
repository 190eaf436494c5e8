"""A merchant is configured, in a real Chromium: its secret is shown once and kept nowhere."""

import pytest
from playwright.async_api import Error, Page

from tests.acceptance.installation import Installation
from tests.browser.chromium import NEEDS_CHROMIUM
from tests.browser.watched import Watched
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.arrivals import Signature

KEPT = "JSON.stringify([{...localStorage}, {...sessionStorage}, history.state])"

pytestmark = NEEDS_CHROMIUM


async def kept_and_gone(page: Page, secret: str) -> None:
    """Say that a secret is kept, and see that the browser has it nowhere any more."""
    await page.click("a:has-text('I have kept it')")
    assert secret not in await page.content()
    # The answer that showed it was not kept, and is not asked for again.
    with pytest.raises(Error, match="ERR_CACHE_MISS"):
        await page.go_back()
    # The browser goes on to its own page about that, which would interrupt what is opened meanwhile.
    await page.wait_for_url("chrome-error://chromewebdata/")


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
    await kept_and_gone(page, secret)
    await watched.open("/merchants/acme")
    assert secret not in await page.content() + await page.evaluate(KEPT)
    await page.click("button:has-text('Send test event')")
    await page.wait_for_selector("#live .notice.good:has-text('Delivered: HTTP 200')")
    assert [arrival.signature for arrival in installation.receiver.of("acme")] == [Signature.RIGHT]
    await page.click("text=Show the test event")
    await page.wait_for_selector("h1:has-text('webhook.test')")
