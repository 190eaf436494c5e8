"""Who gets in and who may change what, in a real Chromium: what a page of somebody else tries, too."""

import json

import pytest
from playwright.async_api import Browser, Page

from tests.acceptance.console_people import PASSWORD, RunningConsole
from tests.acceptance.installation import Installation
from tests.browser.chromium import NEEDS_CHROMIUM
from tests.browser.watched import Watched, viewing, watching
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.local.behaviour import Behaviour

EVIL = """HTTP/1.1 200 OK\r
Content-Type: text/html\r
Connection: close\r
\r
<title>evil</title><form method="post" action="{action}"><input name="token" value="{token}"></form>
<script>document.forms[0].submit()</script>"""
FORBIDDEN = ("act=retry", "act=cancel", "act=retry_all", "act=recover_all", "act=skip_all")
CHANGING = "form[method=post]:not([action='/sign-out'])"
SEND = """([action, token]) => {
    const form = Object.assign(document.createElement("form"), {method: "post", action});
    form.append(Object.assign(document.createElement("input"), {name: "token", value: token}));
    document.body.append(form);
    form.submit();
}"""
"""A form that the page did not have."""

pytestmark = NEEDS_CHROMIUM


async def send(page: Page, action: str, token: str) -> int:
    """Send a form from the page that is shown; return the status of the answer."""
    async with page.expect_navigation() as navigated:
        await page.evaluate(SEND, [action, token])
    answer = await navigated.value
    assert answer is not None
    return answer.status


async def token_of(page: Page) -> str:
    """Return what the forms of a page hold."""
    return await page.input_value("input[name=token] >> nth=0")


async def test_a_viewer_has_no_buttons_and_is_refused_without(
    installation: Installation, console: RunningConsole, browser: Browser
) -> None:
    await installation.start()
    await installation.configure("acme")
    sent = await installation.emit("acme", json.dumps({"id": "ch_1", "holder": "SECRET NAME"}))
    await installation.settled(sent.id, "delivered", 1)
    async with viewing(browser, console) as viewer:
        page = viewer.page
        delivery, merchant = f"/deliveries/{sent.id}", "/merchants/acme"
        for path in ("/", "/deliveries", delivery, "/merchants", merchant, "/commands", "/health"):
            assert await viewer.open(path) == 200
            assert await page.locator(CHANGING).count() == 0, path
            assert await page.locator("input[name=event], button[name=act]").count() == 0, path
            assert "SECRET NAME" not in await page.content()
        for query in FORBIDDEN:
            assert await viewer.open(f"/deliveries/act?{query}&event={sent.id}&only_merchant=acme") == 403
        for action in (f"{delivery}/retry", f"{merchant}/pause", f"{merchant}/secret", f"{merchant}/keys"):
            await viewer.open("/deliveries")
            assert await send(page, action, await token_of(page)) == 403, action
            assert await page.inner_text("h1") == "Not allowed"
        viewer.forgive("status of 403")
    assert await installation.admin.fetchval("SELECT count(*) FROM webhook.control") == 0


async def test_ten_wrong_passwords_lock_an_account(console: RunningConsole, watched: Watched) -> None:
    page = watched.page
    for number in range(10):
        await watched.enter("grace", f"wrong password {number}")
        await page.wait_for_selector("text=The name or the password is wrong.")
    await watched.enter("grace", PASSWORD)
    await page.wait_for_selector("text=Too many wrong tries. Try again in 1")
    watched.forgive("status of 403")
    watched.forgive("status of 429")
    await watched.open("/")
    assert page.url.startswith(f"{console.base}/sign-in")


@pytest.mark.slow(
    "integration/test_console_sign_in.py::test_ten_wrong_passwords_lock_a_name_for_everybody_until_the_first_is_old"
)
async def test_nine_wrong_passwords_do_not(watched: Watched) -> None:
    for number in range(9):
        await watched.enter("grace", f"wrong password {number}")
    await watched.sign_in("grace")
    watched.forgive("status of 403")


async def test_a_form_of_another_origin_changes_nothing(
    installation: Installation, console: RunningConsole, watched: Watched
) -> None:
    """Even with the session's own token: cookies are strict, and a browser says where a form came from."""
    page = watched.page
    await watched.sign_in("grace")
    action = f"{console.base}/merchants/acme/pause"
    evil = EVIL.format(action=action, token=await token_of(page))
    installation.receiver.behave("evil", Behaviour(raw=evil.encode()))
    for host in ("127.0.0.1", "localhost"):
        async with page.expect_response(action) as answered:
            # The receiver's port: another origin on the same host, and on another one.
            await page.goto(f"http://{host}:{installation.receiver.port}/evil", wait_until="commit")
        assert (await answered.value).status == 403, host
        await page.wait_for_selector("h1")
    assert await installation.admin.fetchval("SELECT count(*) FROM webhook.control") == 0
    await watched.open("/")
    assert await page.inner_text("h1") == "Overview", "nobody was signed out"
    watched.forgive("evil")
    watched.forgive("status of 403")


async def test_a_form_needs_the_token_of_its_session(
    installation: Installation, console: RunningConsole, browser: Browser, watched: Watched
) -> None:
    await console.account("heidi", Role.OPERATOR)
    async with watching(browser, console.base) as other:
        await other.sign_in("heidi")
        foreign = await token_of(other.page)
    page = watched.page
    await watched.sign_in("grace")
    own = await token_of(page)
    for token in ("", foreign, own[:-1], own + "0"):
        await watched.open("/")
        assert await send(page, "/merchants/acme/pause", token) == 403, token
    watched.forgive("status of 403")
    assert await installation.admin.fetchval("SELECT count(*) FROM webhook.control") == 0
    await watched.open("/")
    assert await send(page, "/merchants/acme/pause", own) == 200
    given = await installation.admin.fetchrow("SELECT command, requested_by FROM webhook.control")
    assert given is not None
    assert tuple(given) == ("pause", "grace")


async def test_signing_out_ends_the_session_for_whoever_has_kept_it(
    installation: Installation, console: RunningConsole, browser: Browser, watched: Watched
) -> None:
    sent = await installation.emit("acme", json.dumps({"id": "ch_1", "holder": "SECRET NAME"}))
    page = watched.page
    await watched.sign_in("grace")
    await watched.open(f"/deliveries/{sent.id}")
    assert "SECRET NAME" in await page.content()
    cookies = await watched.context.cookies()
    token = await token_of(page)
    await page.click("button:has-text('Sign out')")
    await page.wait_for_selector("h1:has-text('Sign in')")
    assert await watched.context.cookies() == []
    await page.go_back()
    await page.wait_for_selector("h1:has-text('Sign in')")
    assert "SECRET NAME" not in await page.content()
    async with watching(browser, console.base) as thief:
        await thief.context.add_cookies(
            [{"name": cookies[0]["name"], "value": cookies[0]["value"], "url": console.base}]
        )
        for path in ("/", f"/deliveries/{sent.id}", "/account"):
            await thief.open(path)
            assert await thief.page.inner_text("h1") == "Sign in", path
            await thief.context.add_cookies(
                [{"name": cookies[0]["name"], "value": cookies[0]["value"], "url": console.base}]
            )
        await send(thief.page, f"/deliveries/{sent.id}/cancel", token)
        assert await thief.page.inner_text("h1") == "Sign in"
    assert (await installation.delivery(sent.id))["state"] == "pending"


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
