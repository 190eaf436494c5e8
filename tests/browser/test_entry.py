"""Who gets in, in a real Chromium, what a page of somebody else tries, and what is left behind."""

import json

from tests.acceptance.console_people import RunningConsole
from tests.acceptance.installation import Installation
from tests.browser.chromium import NEEDS_CHROMIUM
from tests.browser.watched import Watched
from webhook_dispatcher.local.behaviour import Behaviour

EVIL = """HTTP/1.1 200 OK\r
Content-Type: text/html\r
Connection: close\r
\r
<title>evil</title><form method="post" action="{action}"><input name="token" value="{token}"></form>
<script>document.forms[0].submit()</script>"""

pytestmark = NEEDS_CHROMIUM


async def test_a_form_of_another_origin_changes_nothing(
    installation: Installation, console: RunningConsole, watched: Watched
) -> None:
    """Even with the session's own token: cookies are strict, and a browser says where a form came from."""
    page = watched.page
    await watched.sign_in("grace")
    action = f"{console.base}/merchants/acme/pause"
    evil = EVIL.format(action=action, token=await page.input_value("input[name=token] >> nth=0"))
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


async def test_signing_out_leaves_nothing_to_go_back_to(installation: Installation, watched: Watched) -> None:
    sent = await installation.emit("acme", json.dumps({"id": "ch_1", "holder": "SECRET NAME"}))
    page = watched.page
    await watched.sign_in("grace")
    await watched.open(f"/deliveries/{sent.id}")
    assert "SECRET NAME" in await page.content()
    await page.click("button:has-text('Sign out')")
    await page.wait_for_selector("h1:has-text('Sign in')")
    assert await watched.context.cookies() == []
    await page.go_back()
    await page.wait_for_selector("h1:has-text('Sign in')")
    assert "SECRET NAME" not in await page.content()


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
