"""A merchant, in a real Chromium: URL, secret, test event, pause, API keys."""

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


async def test_a_secret_is_rotated_and_the_one_before_goes_on_for_a_day(
    installation: Installation, watched: Watched
) -> None:
    await installation.start()
    await installation.configure("acme")
    before = installation.receiver.secrets["acme"]
    page = watched.page
    await watched.sign_in("grace")
    await watched.open("/merchants/acme")
    await page.click("summary:has-text('Rotate the secret')")
    await page.check("label:has-text('For a day') input")
    await page.click("button:text-is('Rotate')")
    secret = await page.inner_text("#secret")
    await kept_and_gone(page, secret)
    await watched.open("/merchants/acme")
    assert secret not in await page.content() + await page.evaluate(KEPT)
    assert "also signs until" in await page.inner_text("dt:has-text('Previous secret') + dd")
    # One receiver knows the new secret already, the other one does not: each takes what is its.
    for known in (before, Secret(secret)):
        installation.receiver.accept("acme", known)
        sent = await installation.emit("acme")
        await installation.settled(sent.id, "delivered", 1)
    arrivals = installation.receiver.of("acme")
    assert [arrival.signature for arrival in arrivals] == [Signature.RIGHT] * 2
    assert [arrival.headers["service-signature"].count("v1=") for arrival in arrivals] == [2, 2]


@pytest.mark.slow(
    "browser/test_refreshing.py::test_a_pause_can_be_ended_on_the_page_that_shows_it_carried_out"
)
async def test_a_merchant_is_paused_and_resumed_by_the_button_that_follows(
    installation: Installation, watched: Watched
) -> None:
    await installation.start()
    await installation.configure("acme")
    page = watched.page
    await watched.sign_in("grace")
    await watched.open("/merchants/acme")
    await page.click("button:has-text('Pause')")
    await page.wait_for_selector(".figure .badge:has-text('Paused')")
    # The page was loaded before the command was carried out: what can be done next follows by itself.
    await page.wait_for_selector("button:has-text('Resume')")
    assert await page.locator("button:has-text('Pause')").count() == 0
    sent = await installation.emit("acme")
    await watched.open(f"/deliveries/{sent.id}")
    await page.wait_for_selector("#live .lead:has-text('paused')")
    assert installation.receiver.of("acme") == []
    await watched.open("/merchants/acme")
    await page.click("button:has-text('Resume')")
    await page.wait_for_selector("button:has-text('Pause')")
    await installation.settled(sent.id, "delivered", 1)


async def test_an_api_key_is_made_with_a_secret_that_is_shown_once_and_revoked(
    installation: Installation, watched: Watched
) -> None:
    page = watched.page
    await watched.sign_in("grace")
    await watched.open("/merchants/acme")
    await page.fill("#key_name", "online shop")
    await page.click("button:has-text('Create a key')")
    secret = await page.inner_text("#secret")
    client_id = await page.inner_text(".notice code >> nth=0")
    await kept_and_gone(page, secret)
    await watched.open("/merchants/acme")
    row = f"tr:has-text('{client_id}')"
    assert "online shop" in await page.inner_text(row)
    assert secret not in await page.content() + await page.evaluate(KEPT)
    await page.click(f"{row} >> summary:has-text('Revoke')")
    await page.click(f"{row} >> button:has-text('Revoke for good')")
    await page.wait_for_selector("text=The key was revoked.")
    assert "grace" in await page.inner_text(f"{row} >> td:has-text('Revoked')")
    who = "SELECT revoked_by FROM webhook.api_keys WHERE client_id = $1"
    assert await installation.admin.fetchval(who, client_id) == "grace"
