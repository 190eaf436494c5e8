"""Whoever reads of a merchant with several endpoints is told its id and their numbers, no lane's name."""

import asyncio
import shlex

from tests.acceptance.api_merchant import start_api
from tests.acceptance.console_people import start_console
from tests.acceptance.console_routes import path_of, routes
from tests.acceptance.installation import Installation
from tests.acceptance.lanes_names import names_lane
from tests.acceptance.test_several_endpoints import add
from webhook_dispatcher.console.calls import Route
from webhook_dispatcher.local.behaviour import Behaviour

COPIES = "SELECT event_id FROM webhook.deliveries WHERE merchant_id = 'm' ORDER BY seq"
READ = """
status
merchants
deliveries list
deliveries list --merchant m
deliveries show {event}
deliveries show {copy}
explain {event}
explain {copy}
explain ch_1
endpoint list
endpoint list m
endpoint show m
commands list
api-key list
check
"""
CHANGED = """
pause m
resume m
test-event m
deliveries retry {event}
deliveries retry {copy}
deliveries retry-failed --merchant m
recover m --since 1h --yes
skip m --before 1h --yes
endpoint rekey
endpoint history m
endpoint rotate-secret m --endpoint 2 --yes
endpoint remove m --endpoint 1 --yes
"""


def test_a_name_is_found_however_it_is_written() -> None:
    for text in ("m\x1f2", '{"merchant_id":"m\\u001f2"}', "'m\\x1f2'", "/merchants/m%1F2", "m&#x1F;2"):
        assert names_lane(text)
    assert not names_lane('m, endpoint 2; "\\u001e2", "\\u001f"')


async def test_nobody_is_shown_a_lanes_name(installation: Installation) -> None:
    """Clients, commands and logs of tests find it; here all that reads is asked, and much that changes."""
    await installation.start()
    await installation.configure("m")
    await add(installation, "second")
    installation.receiver.behave("second", Behaviour(status=500))
    event = await installation.emit("m", '{"id":"ch_1"}')
    await installation.until_true("SELECT count(*) = 2 FROM webhook.attempt_log")
    [_, copy] = [row["event_id"] for row in await installation.admin.fetch(COPIES)]
    await installation.do("pause", "m")
    given = {"event": event.id, "copy": copy}

    def run(lines: str, *options: str) -> None:
        for line in lines.strip().splitlines():
            done = installation.command(*shlex.split(line.format(**given)), *options)
            assert done.returncode in (0, 1), (line, done)

    await asyncio.to_thread(run, READ)
    await asyncio.to_thread(run, READ, "--json")
    console = await start_console(installation)
    async with console.person() as person:
        for route in routes():
            if route.method == "GET" and isinstance(route, Route):
                for which in given.values():
                    page = await person.get(path_of(route, "m", which))
                    assert page.status < 500, (route.template, page.text)
    api = await start_api(installation)
    async with api.merchant("m") as merchant:
        for path in ("webhook", "webhooks", "deliveries", "events", f"deliveries/{copy}"):
            assert (await merchant.ask("GET", f"/v1/{path}")).status == 200, path
    await asyncio.to_thread(run, CHANGED)
