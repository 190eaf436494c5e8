"""Everybody can use the console: nothing serious for axe-core, nothing cut off or broken, keys are enough."""

import json
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page

from tests.acceptance.console_people import RunningConsole
from tests.acceptance.installation import Installation
from tests.browser.chromium import NEEDS_CHROMIUM, NEEDS_PACKAGES, PACKAGES
from tests.browser.stage import CALM, NEW, PAUSED, REFUSING, fill
from tests.browser.watched import Watched, viewing
from webhook_dispatcher.console.static_files import StaticFiles
from webhook_dispatcher.local.behaviour import Behaviour

SERIOUS = ("serious", "critical")
Theme = Literal["light", "dark"]
Look = tuple[Theme, int]
LOOKS: Sequence[Look] = (("light", 360), ("dark", 1280))
RUN_AXE = "axe.run({resultTypes: ['violations'], rules: {'target-size': {enabled: true}}})"
OPEN_FOLDS = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
IS_CUT = "document.documentElement.scrollWidth > window.innerWidth"
BROKEN_IDS = """[...document.querySelectorAll(".id")].filter(each => {
    const words = document.createRange();
    words.selectNodeContents(each);
    const lines = new Set([...words.getClientRects()].map(line => Math.round(line.top)));
    return each.textContent.length <= 24 && lines.size > 1;
}).map(each => each.textContent)"""
FOCUSED = """(() => {
    const at = document.activeElement, box = at.getBoundingClientRect();
    const style = getComputedStyle(at);
    return {
        text: (at.innerText || at.value || at.name || "").trim(), id: at.id,
        is_marked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
        is_there: box.width > 0 && box.height > 0,
    };
})()"""
CUT_TIMES = """[...document.querySelectorAll("input[type=datetime-local]")].filter(each => {
    const room = each.offsetWidth;
    each.style.width = "max-content";
    return each.offsetWidth > room;
}).map(each => each.name)"""
MAX_STEPS = 60
"""Of the Tab key, up to what is looked for."""

pytestmark = [NEEDS_CHROMIUM, NEEDS_PACKAGES]


async def problems(page: Page) -> list[str]:
    """Return what keeps somebody from using a page: what axe-core finds, and what is cut off."""
    await page.evaluate(OPEN_FOLDS)
    # Evaluated by the browser's debugger, which the page's policy does not bind.
    await page.evaluate((PACKAGES / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    result: dict[str, Any] = await page.evaluate(
        "axe.run({resultTypes: ['violations'], rules: {'target-size': {enabled: true}}})"
    )
    found = [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in result["violations"]
        if each["impact"] in SERIOUS or each["id"] == "empty-table-header"
    ]
    broken = [f"{each} is broken" for each in await page.evaluate(BROKEN_IDS)]
    return [*found, *broken, *(["it is cut off"] if await page.evaluate(IS_CUT) else [])]


async def looked_at(
    watched: Watched, paths: Sequence[str], looks: int
) -> dict[tuple[str, Theme, int], list[str]]:
    """Look at pages in so many of the looks, in turn; return those with problems."""
    found = {}
    for turn, (theme, width) in enumerate(LOOKS):
        await watched.page.emulate_media(color_scheme=theme)
        await watched.page.set_viewport_size({"width": width, "height": 800})
        for path in paths[turn::2] if looks == 1 else paths:
            await watched.open(path)
            found[path, theme, width] = await problems(watched.page)
    return {place: bad for place, bad in found.items() if bad}


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(1, id="each page in one look"),
        pytest.param(
            2,
            id="in all",
            marks=pytest.mark.slow("browser/test_reading.py::test_every_page_can_be_read_by_everybody"),
        ),
    ],
)
async def test_every_page_can_be_read_by_everybody(
    installation: Installation, console: RunningConsole, browser: Browser, watched: Watched, looks: int
) -> None:
    await installation.start(RETRY_SCHEDULE="PT1H", RESPONSE_EXCERPT="2048")
    events = await fill(installation)
    assert await looked_at(watched, ["/sign-in", "/sign-in?why=idle"], looks) == {}
    await watched.sign_in("grace")
    seen_by_all = [
        "/",
        "/deliveries",
        "/deliveries?state=failed",
        f"/deliveries/{events[CALM]}",
        f"/deliveries/{events[REFUSING]}",
        "/merchants",
        f"/merchants/{CALM}",
        f"/merchants/{PAUSED}",
        f"/merchants/{NEW}",
        "/commands",
        "/commands/1",
        "/health",
        "/account",
        "/search?q=c",
        "/nowhere",
    ]
    of_operators = [
        f"/deliveries/act?act=recover_all&only_merchant={REFUSING}",
        f"/deliveries/act?act=cancel&event={events[REFUSING]}",
        "/deliveries/act?act=recover_all",
        "/deliveries?status=abc",
        "/commands?view=changes",
    ]
    assert await looked_at(watched, seen_by_all + of_operators, looks) == {}
    # A viewer's pages are an operator's with less on them.
    seen = [*(seen_by_all if looks > 1 else seen_by_all[::4]), "/deliveries/act?act=retry", "/nowhere"]
    async with viewing(browser, console) as viewer:
        assert await looked_at(viewer, seen, looks) == {}
        viewer.forgive("status of 403")
        viewer.forgive("status of 404")
    watched.forgive("status of 404")
    watched.forgive("status of 422")


@pytest.mark.parametrize(
    "look",
    [
        LOOKS[0],
        pytest.param(
            LOOKS[1],
            marks=pytest.mark.slow(
                "browser/test_reading.py::test_a_page_with_a_secret_can_be_read_by_everybody"
            ),
        ),
    ],
    ids=str,
)
async def test_a_page_with_a_secret_can_be_read_by_everybody(
    installation: Installation, watched: Watched, look: Look
) -> None:
    await installation.start()
    page = watched.page
    await watched.sign_in("grace")
    theme, width = look
    await page.emulate_media(color_scheme=theme)
    await page.set_viewport_size({"width": width, "height": 800})
    await watched.open(f"/merchants/{theme}?new=yes")
    await page.fill("#url", installation.receiver.url(theme))
    await page.click("button:has-text('Configure')")
    await page.wait_for_selector("#secret")
    assert await problems(page) == []
    await page.fill("#key_name", "online shop")
    await page.click("button:has-text('Create a key')")
    await page.wait_for_selector(".notice code >> nth=1")
    assert await problems(page) == []


async def test_times_of_the_filter_are_shown_to_the_second(watched: Watched) -> None:
    await watched.sign_in("grace")
    await watched.page.set_viewport_size({"width": 1440, "height": 800})
    await watched.open("/deliveries?since=2026-11-26T12:48:21Z&until=2026-12-26T12:48:21Z")
    assert await watched.page.evaluate(CUT_TIMES) == []


async def test_what_is_printed_has_the_whole_width(watched: Watched) -> None:
    await watched.sign_in("grace")
    await watched.page.emulate_media(media="print")
    for path in ("/", "/deliveries", "/health"):
        await watched.open(path)
        assert await watched.page.evaluate("document.querySelector('main').offsetWidth / innerWidth") > 0.9


async def step_to(page: Page, wanted: str) -> None:
    """Press Tab until something is focused, which has to be seen at each step."""
    for _ in range(MAX_STEPS):
        await page.keyboard.press("Tab")
        at = await page.evaluate(FOCUSED)
        if wanted in (at["text"], at["id"]):
            assert at["is_marked"], f"nobody sees that {wanted} has the focus"
            assert at["is_there"]
            return
    raise AssertionError(f"{wanted} is not reached by the keyboard")


async def test_what_failed_is_found_and_retried_by_the_keyboard_alone(
    installation: Installation, watched: Watched
) -> None:
    await installation.start(RETRY_SCHEDULE="PT1H")
    await installation.configure("acme")
    installation.receiver.behave("acme", Behaviour(503), Behaviour(200))
    sent = await installation.emit("acme", json.dumps({"id": "ch_lost"}))
    await installation.settled(sent.id, "pending_retry", 1)
    page, keys = watched.page, watched.page.keyboard
    await watched.open("/sign-in")
    await page.wait_for_selector("#name:focus")  # with the first frame, which may come after what is typed
    await keys.type("grace")
    await step_to(page, "password")
    await keys.type("correct horse battery staple")
    await keys.press("Enter")
    await page.wait_for_selector("h1:has-text('Overview')")
    await step_to(page, "Skip to content")
    await keys.press("/")
    assert (await page.evaluate(FOCUSED))["id"] == "search"
    await keys.type("ch_lost")
    await keys.press("Enter")
    await page.wait_for_url(f"**/deliveries/{sent.id}")
    await step_to(page, "Retry now")
    await keys.press("Enter")
    await page.wait_for_selector("#live .top .badge:has-text('Delivered')")


def test_htmx_is_what_its_package_has() -> None:
    packed = PACKAGES / "htmx.org"
    served = StaticFiles()
    for name, file in (("htmx-4.0.1.min.js", "dist/htmx.min.js"), ("htmx-4.0.1.LICENSE.txt", "LICENSE")):
        found = served.find(served.path(name).removeprefix("/static/"))
        assert found is not None
        assert found.body == (packed / file).read_bytes()
