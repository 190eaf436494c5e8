"""A type of one's own from its adding to after its retirement: written, sent, tested, listed, sent again."""

import asyncio
import json
import re
import shlex
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.api_merchant import start_api
from tests.acceptance.console_people import start_console
from tests.acceptance.installation import Installation
from webhook_dispatcher.domain.event import sample_of
from webhook_dispatcher.local.behaviour import Behaviour

PAGE = (Path(__file__).parents[2] / "docs/producers/writing.md").read_text(encoding="utf-8")
SAMPLE, COMMANDS = re.findall(
    r"```(?:json|sh)\n(.*?)```", PAGE.partition("## Types of your own")[2], re.DOTALL
)
LINES = [line.removeprefix("webhook-dispatcher ") for line in COMMANDS.splitlines()]
"""The commands on the page: one is added, tested, shown and retired."""
OWN, MERCHANT = "refund.created", "merchant-1"
REFUND = '{"amount": 2.50, "charge": {"id": "ch_1"}}'


async def said(installation: Installation, *line: str) -> tuple[int, str]:
    """Run a command while the receiver answers; return its code and what it says."""
    ended = await asyncio.to_thread(installation.command, *line)
    return ended.returncode, ended.stdout + ended.stderr


async def test_a_type_of_ones_own_is_sent_tested_listed_and_sent_again_though_it_is_retired(
    installation: Installation,
) -> None:
    await installation.configure(MERCHANT)
    await installation.start(RETRY_SCHEDULE="PT1H")
    (installation.folder / "refund.json").write_text(SAMPLE)
    add, test, show, retire = [shlex.split(line) for line in LINES]
    assert await said(installation, *add) == (0, f"{OWN}: added\n")

    sent = await installation.emit(MERCHANT, REFUND, OWN)
    await installation.settled(sent.id, "delivered", 1)
    installation.receiver.behave(MERCHANT, Behaviour(status=500))
    failing = await installation.emit(MERCHANT, REFUND, OWN)
    await installation.settled(failing.id, "pending_retry", 1)
    installation.receiver.behave(MERCHANT, Behaviour())
    assert (await said(installation, *test))[0] == 0
    code, told = await said(installation, "test-event", MERCHANT, "--type", "refund.lost")
    assert (code, "or of your own types" in told or told) == (1, True)
    *_, tested = installation.receiver.arrivals
    assert {arrival.type for arrival in installation.receiver.arrivals} == {OWN}
    assert json.loads(tested.body)["data"]["object"] == json.loads(SAMPLE)

    api = await start_api(installation)
    async with api.merchant(MERCHANT) as merchant:
        listed = await merchant.ask("GET", f"/v1/deliveries?type={OWN}")
        assert {found["eventId"] for found in listed.data} == {str(sent.id), str(failing.id)}
        [test] = (await merchant.ask("GET", "/v1/deliveries?type=webhook.test")).data
        shown = await merchant.ask("GET", f"/v1/deliveries/{test['eventId']}")
        assert b'"payload":' + tested.body + b"}" in shown.body, "a stored test is told as it was sent"
        refused = await merchant.ask("GET", "/v1/deliveries?type=refund.lost")
        assert OWN in refused.json["error"]["details"][0]["message"]
        assert (await merchant.ask("PUT", "/v1/webhook", {"types": [OWN]})).data["types"] == [OWN]
        refused = await merchant.ask("PUT", "/v1/webhook", {"types": [OWN, "refund.lost"]})
        assert refused.json["error"]["details"][0]["field"] == "types.1"
    async with (await start_console(installation)).person(name="ada") as person:
        page = (await person.get(f"/merchants/{MERCHANT}")).text
        form = page.partition(f'action="/merchants/{MERCHANT}/types"')[2].partition("</form>")[0]
        assert re.findall(r'name="types" value="([^"]+)" checked', form) == [OWN]
        page = (await person.get(f"/deliveries?type={OWN}")).text
        assert (page.count('name="event"'), f"<option selected>{OWN}</option>" in page) == (2, True)
        assert (await person.get("/deliveries?type=refund.lost")).status == 422

    assert "charge.id" in (await said(installation, *show))[1]
    assert (await said(installation, *retire))[0] == 0
    with pytest.raises(asyncpg.CheckViolationError, match="type_is_one_of_the_published_event_types"):
        await installation.emit(MERCHANT, REFUND, OWN)
    assert (await said(installation, "deliveries", "retry", str(failing.id)))[0] == 0
    recover = ("recover", MERCHANT, "--since", "1h", "--state", "delivered", "--yes", "--type")
    code, told = await said(installation, *recover, OWN)
    assert (code, "2 delivered" in told or told) == (0, True)
    await installation.settled(failing.id, "delivered", 3)
    await installation.settled(sent.id, "delivered", 2)
    assert (await said(installation, *recover, "refund.lost"))[0] == 1


async def test_all_types_stay_all_in_a_form_that_was_opened_before_one_was_added(
    installation: Installation,
) -> None:
    await installation.configure(MERCHANT)
    await installation.start()
    await installation.until_true("SELECT EXISTS (SELECT FROM webhook.current_sealing_key)")
    async with (await start_console(installation)).person(name="ada") as person:

        async def opened(action: str) -> list[tuple[str, str]]:
            """Read a form of the page: what is hidden in it, and ticked."""
            page = (await person.get(f"/merchants/{MERCHANT}")).text
            form = page.partition(f'action="/merchants/{MERCHANT}/{action}"')[2].partition("</form>")[0]
            return re.findall(r'name="(known|offered|types|endpoint)" value="([^"]+)"(?: checked)?>', form)

        async def saved(form: list[tuple[str, str]]) -> list[list[str] | None]:
            await person.post(f"/merchants/{MERCHANT}/types", form)
            rows = await installation.owner.fetch("SELECT types FROM webhook.endpoints ORDER BY number")
            return [row["types"] for row in rows]

        first, further = await opened("types"), await opened("endpoints")
        sample = sample_of(OWN, "id").decode()
        await installation.owner.execute("SELECT webhook.add_event_type($1, $2, NULL, 'x')", OWN, sample)
        refused = await person.post(f"/merchants/{MERCHANT}/endpoints", [*further, ("url", "http:")])
        assert f'value="{OWN}" checked' in refused.text.partition('"known"')[2]
        url = installation.receiver.url("second")
        await person.post(f"/merchants/{MERCHANT}/endpoints", [*further, ("url", url)])
        assert await saved(first) == [None, None]
        without_one = [field for field in await opened("types") if field[1] != "charge.created"]
        assert await saved(without_one) != [None, None]
