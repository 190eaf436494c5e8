"""Hostile strings in every field that somebody else writes: nothing runs, on no page, for nobody.

Each string stands in each field, with a mark of its own, and has to be seen there as it was written: a field
that no page shows any more, or that a page changes, fails too.
"""

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest
from playwright.async_api import Browser

from tests.acceptance.console_people import RunningConsole
from tests.acceptance.installation import ENDPOINT, Installation
from tests.browser.chromium import NEEDS_CHROMIUM
from tests.browser.hostile import FOREIGN, HOSTILE, SHOWN
from tests.browser.watched import Watched, viewing
from webhook_dispatcher.console import names
from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.local.behaviour import Behaviour

MAX_MERCHANT, MAX_CHARGE, MAX_ASKED_BY, MAX_KEY, MAX_AGENT, MAX_ACTION = 128, 255, 200, 100, 200, 100
UNPRINTABLE = re.compile("[\x01-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\uffff]")
"""What no merchant's id has. Source: webhook.event_can_be_sent."""
ANSWER = (
    "HTTP/1.1 500 {line}\r\nContent-Type: text/html\r\nRetry-After: {line}\r\nX-Said: {line}\r\n"
    "Connection: close\r\n\r\n{body}"
)
GIVE = """
INSERT INTO webhook.control (command, merchant_id, args, requested_by) VALUES ($1, $2, $3, $4) RETURNING id
"""
REJECT = """
UPDATE webhook.control
SET status = 'rejected', handled_at = clock_timestamp(), error_code = -14005, error_message = $2, result = $3
WHERE id = $1
"""
LOG = """
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at,
    last_outcome
)
VALUES (
    nextval('webhook.outbox_seq_seq'), $1, $2, $3, clock_timestamp(), $4, 'failed', $5, 1, clock_timestamp(),
    $6
)
"""
ATTEMPT = """
INSERT INTO webhook.attempt_log (
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome, reason, response_excerpt
)
VALUES ($1, $2, $3, $4, clock_timestamp(), 5, $5, $6, $7)
"""
BEAT = """
INSERT INTO webhook.dispatcher (
    owner, host, version, started_at, beat_at, lanes, attempts_in_flight, is_ready, reasons, faults
)
VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp() + interval '1 hour', 1, 1, false, $4, $5)
"""
TALLY = "INSERT INTO webhook.attempts_by_minute VALUES (date_trunc('minute', clock_timestamp()), $1, 1)"
SEND = """(form, fields) => {
    for (const [name, text] of Object.entries(fields)) form.elements[name].value = text;
    form.submit();
}"""
"""Sends what the form's own limits would keep back."""

pytestmark = NEEDS_CHROMIUM


class Fields:
    """Writes strings into fields, and knows which of them no page has shown yet."""

    def __init__(self) -> None:
        self._unseen: dict[str, set[str]] = {}

    def write(
        self, field: str, text: str, room: int = 4000, *, is_json: bool = False, is_said: bool = False
    ) -> str:
        """Return what is written there: the text with a mark, cut to what the field takes.

        is_json: it is shown within JSON. is_said: within a sentence, where control characters are replaced.
        """
        number = len(self._unseen.setdefault(field, set()))
        mark = f"~{field}{number}"
        written = text[: room - len(mark)] + mark
        as_shown = json.dumps(written, ensure_ascii=False)[1:-1] if is_json else written
        as_shown = amounts.printable(as_shown) if is_said else as_shown.replace("\r\n", "\n")
        self._unseen[field].add(as_shown)
        return written

    def see(self, shown: str) -> None:
        """Strike out what a page shows."""
        for field, unseen in self._unseen.items():
            self._unseen[field] = {text for text in unseen if text not in shown}

    @property
    def unseen(self) -> dict[str, set[str]]:
        """What no page has shown, by field."""
        return {field: unseen for field, unseen in self._unseen.items() if unseen}


class Stage:
    """Rows in which every field is hostile, and a page on which they are looked at."""

    def __init__(
        self, installation: Installation, watched: Watched, fields: Fields, texts: Sequence[str]
    ) -> None:
        self.texts = texts
        self.installation = installation
        self.fields = fields
        self.watched = watched

    async def look(self, path: str, watched: Watched | None = None) -> None:
        """Open a page and see that it is one of ours, whole, and nothing else."""
        shown = watched or self.watched
        assert await shown.open(path) in (200, 422), path
        await self.judge(shown, path)

    async def judge(self, shown: Watched, what: str) -> None:
        """See that nothing has run, and that nothing stands there which could."""
        page = shown.page
        assert (await page.title()).endswith("webhook-dispatcher"), what
        assert await page.evaluate("window.ran") is None, what
        assert await page.evaluate(FOREIGN) == [], what
        self.fields.see(await page.evaluate(SHOWN))

    async def look_through(self, path: str) -> None:
        """Open a list, and its further pages."""
        await self.look(path)
        while (onwards := self.watched.page.locator("a[rel=next]")) and await onwards.count():
            following = await onwards.get_attribute("href")
            assert following is not None
            await self.look(following)

    async def send(self, path: str, form: str, **texts: str) -> None:
        """Send a form of a page, and look at what is answered."""
        page = self.watched.page
        await self.watched.open(path)
        async with page.expect_navigation():
            await page.eval_on_selector(form, SEND, texts)
        await self.judge(self.watched, f"{form} {texts}")


def in_groups(texts: Iterable[str], room: int) -> list[list[str]]:
    """Put strings together that fit into a field side by side."""
    groups: list[list[str]] = []
    for text in texts:
        if not groups or len("".join([*groups[-1], text])) > room:
            groups.append([])
        groups[-1].append(text[:room])
    return groups


def printable(text: str) -> str:
    """Leave out what ids of merchants cannot have, and words of closed lists are shown without."""
    return "".join(char for char in UNPRINTABLE.sub("", text) if char.isprintable())


async def answered_with(stage: Stage, groups: Sequence[list[str]]) -> list[UUID]:
    """Have a daemon deliver hostile payloads to receivers whose answers are; return the events."""
    installation, fields = stage.installation, stage.fields
    daemon = await installation.start(RESPONSE_EXCERPT="2048")
    events = []
    for group in groups:
        merchant_id = fields.write("merchant", printable("".join(group)), MAX_MERCHANT)
        body = "".join(fields.write("answer", text[:1500]) for text in group)
        answer = ANSWER.format(line=printable("".join(group)), body=body)
        await installation.configure(merchant_id)
        installation.receiver.behave(merchant_id, Behaviour(raw=answer.encode()))
        texts = [fields.write("payload", text, is_json=True) for text in group]
        charge = fields.write("charge", "".join(group), MAX_CHARGE)
        payload = json.dumps({"id": charge, "note": texts, **dict.fromkeys(texts)}, ensure_ascii=False)
        events.append((await installation.emit(merchant_id, payload)).id)
    for event in events:
        await installation.settled(event, "pending_retry", 1)
    daemon.terminate()
    await daemon.ended()
    return events


async def write_rows(stage: Stage, groups: Sequence[list[str]]) -> tuple[list[int], list[UUID], list[str]]:
    """Write what no daemon of ours would, in the name of one, and what operators may; return what to look at.

    Commands, deliveries and merchants of groups; a delivery has an attempt for each string, a merchant a key.
    """
    installation, write = stage.installation, stage.fields.write
    admin, daemon = installation.admin, await installation.database.connect("webhook_dispatcher")
    commands, deliveries = [], []
    for text in stage.texts:
        merchant_id = write("owner", printable(text), MAX_MERCHANT)
        url = write("url", text)
        await admin.execute(ENDPOINT, merchant_id, url, b"-", "k1")
        asked_by = write("asked_by", text.strip(), MAX_ASKED_BY)
        named = write("command", printable(text), MAX_ACTION)
        command = await admin.fetchval(GIVE, named, merchant_id, "{}", asked_by)
        await daemon.execute(REJECT, command, write("error", text, is_said=True), "{}")
        faults = [write("host", text), text, [write("reason", text, is_said=True)], [text]]
        await daemon.execute(BEAT, str(uuid4()), *faults)
        await daemon.execute(TALLY, write("outcome", printable(text)))
        entry = (
            merchant_id,
            write("type", text),
            json.dumps({"id": write("logged_charge", text, MAX_CHARGE)}),
        )
        await daemon.execute(
            LOG,
            uuid4(),
            *entry,
            write("failed_reason", printable(text)),
            write("last_outcome", printable(text)),
        )
    merchants = []
    for group in groups:
        merchant_id = write("busy", printable("".join(group)), MAX_MERCHANT)
        url = write("shown_url", "".join(group).translate({13: None, 10: None}))
        await admin.execute(ENDPOINT, merchant_id, url, b"-", "k1")
        event = uuid4()
        await daemon.execute(
            LOG, event, merchant_id, write("title", "".join(group)), "{}", "exhausted", "timeout"
        )
        for number, text in enumerate(group):
            words = [write(field, printable(text)) for field in ("trigger", "attempt")]
            said = [*words, write("why", text, is_said=True), write("excerpt", text)]
            await daemon.execute(ATTEMPT, event, merchant_id, number + 1, *said)
            made = (write("key", text.strip(), MAX_KEY), write("maker", text.strip(), MAX_ASKED_BY))
            client, secret = f"client-{event}-{number}", secrets.token_bytes(32)
            await admin.fetchval(
                "SELECT webhook.create_api_key($1, $2, $3, $4, $5)", merchant_id, client, secret, *made
            )
        merchants.append(merchant_id)
        deliveries.append(event)
        args = json.dumps({"note": [write("note", text, is_json=True) for text in group]})
        command = await admin.fetchval(GIVE, "pause", merchant_id, args, "ada")
        result = {
            "outcome": "".join(group),
            "matched": [write("result", text, is_said=True) for text in group],
        }
        await daemon.execute(REJECT, command, "".join(group), json.dumps(result))
        commands.append(command)
    await daemon.close()
    return commands, deliveries, merchants


async def sign_in_by(stage: Stage, console: RunningConsole, agents: Iterable[str]) -> None:
    """Sign somebody in by browsers of such names."""
    await console.account("ada", Role.OPERATOR)
    for agent in agents:
        async with console.stranger() as client:
            name = stage.fields.write("agent", agent, MAX_AGENT)
            client.session.headers["User-Agent"] = name
            assert (await client.sign_in("ada")).status == 303


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(HOSTILE[::12], id="some"),
        pytest.param(
            HOSTILE,
            id="all",
            marks=pytest.mark.slow("browser/test_hostile.py::test_what_others_wrote_never_runs"),
        ),
    ],
)
async def test_what_others_wrote_never_runs(
    installation: Installation,
    console: RunningConsole,
    browser: Browser,
    watched: Watched,
    texts: Sequence[str],
) -> None:
    stage = Stage(installation, watched, Fields(), texts)
    groups = in_groups(texts, MAX_MERCHANT - 10)
    events = await answered_with(stage, groups)
    commands, deliveries, merchants = await write_rows(stage, groups)
    await sign_in_by(stage, console, (printable("".join(group)) for group in groups))
    await watched.sign_in("grace")
    for path in (
        "/",
        "/deliveries",
        "/merchants",
        "/commands",
        "/commands?view=changes",
        "/health",
        "/account",
    ):
        await stage.look_through(path)
    for event in (*events, *deliveries):
        await stage.look(f"/deliveries/{event}")
    for command in commands:
        await stage.look(f"/commands/{command}")
    for merchant_id in merchants:
        await stage.look(f"/merchants/{names.written(merchant_id)}")
    await ask_for_each(stage)
    await fill_in_each(stage)
    async with viewing(browser, console) as viewer:
        for path in ("/deliveries", "/merchants", "/commands", "/health"):
            await stage.look(path, viewer)
        for event, merchant_id in zip(deliveries, merchants, strict=True):
            await stage.look(f"/deliveries/{event}", viewer)
            await stage.look(f"/merchants/{names.written(merchant_id)}", viewer)
    # A filter that can be nothing is answered with 422, and its time is none that the browser's field takes;
    # what is asked of nobody's merchant with 404.
    watched.forgive("status of 422")
    watched.forgive("status of 404")
    watched.forgive("does not conform to the required format")
    assert stage.fields.unseen == {}, ascii(stage.fields.unseen)


async def ask_for_each(stage: Stage) -> None:
    """Ask for pages by what is hostile in the query."""
    for group in in_groups(stage.texts, MAX_CHARGE - 10):
        text = "".join(group)
        filters = ("merchant", "state", "type", "outcome", "status", "charge", "id", "since", "until")
        merchant_id = stage.fields.write("filtered", printable(text), MAX_MERCHANT)
        for path, query in (
            ("/deliveries", dict.fromkeys((*filters, "after", "said"), text)),
            ("/deliveries", {"merchant": merchant_id}),
            (
                "/deliveries/act",
                {"act": "recover_all", "only_merchant": merchant_id, "only_charge": text[:250]},
            ),
            ("/deliveries/act", {"act": text, "event": text, "only_merchant": text, "only_state": text}),
            ("/search", {"q": stage.fields.write("query", text, MAX_CHARGE)}),
            ("/merchants", {"prefix": text[:120], "order": text, "after": text}),
            ("/commands", {"given": text, "after": text, "view": text}),
            ("/commands", dict.fromkeys(("command", "status", "merchant", "by"), text)),
            ("/account", {"said": text, "ended": text}),
        ):
            await stage.look(f"{path}?{urlencode(query)}")


async def fill_in_each(stage: Stage) -> None:
    """Send forms in which each field is hostile; what is refused is shown again."""
    page = stage.watched.page
    for group in in_groups(stage.texts, 1500):
        text = "".join(group)
        await stage.watched.open("/merchants/acme")
        await page.fill("#url", text)
        await page.wait_for_selector("#verdict:has-text('Events cannot be sent here')")
        await stage.judge(stage.watched, "the verdict")
        line = text.translate({13: None, 10: None})
        url = stage.fields.write("entered_url", line)
        await stage.send("/merchants/acme", "form[action$='/endpoint']", url=url)
        await stage.send("/merchants/acme", "form[action$='/keys']", name=text)
        zone = stage.fields.write("zone", line)
        await stage.send("/account", "form[action$='/preferences']", zone=zone, theme=text)
        name = stage.fields.write("name", line)
        fields = {"next": text, "zone": text}
        await stage.send(
            f"/sign-in?{urlencode({'next': text, 'why': text})}", "form >> nth=0", name=name, **fields
        )
        await stage.send("/sign-in", "form >> nth=1", code=text, **fields)
    stage.watched.forgive("status of 403")
