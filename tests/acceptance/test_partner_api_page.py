"""Merchants' pages on the Partner API: each example is run as it stands, against the real program."""

import asyncio
import itertools
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.api_merchant import Merchant, PartnerApi, start_api
from tests.acceptance.charge_service import ChargeServiceProcess
from tests.acceptance.installation import SEALS, Installation
from tests.external_programs import program
from tests.waiting import MAX_WAIT, until_found
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.behaviour import Behaviour

FOLDER = Path(__file__).parents[2] / "docs" / "merchants"
READ = ("partner-api", "errors", "idempotency", "webhook", "deliveries", "events", "client")
PAGE = "".join((FOLDER / f"{name}.md").read_text(encoding="utf-8") for name in READ)
"""In the order in which they are read: what one sets, the next has."""
SAMPLE = (Path(__file__).parents[2] / "examples" / "charge_service" / "README.md").read_text(encoding="utf-8")
CHARGE = '{"id":"ch_1","amount":1.10,"status":"SUCCEEDED"}'
_BLOCK = re.compile(r'^```(sh title="setup"|sh|json|python)\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """Commands of the page; answer: what it shows below them, if it does."""

    text: str
    answer: str | None


def blocks(kind: str) -> list[str]:
    return [text for found, text in _BLOCK.findall(PAGE) if found == kind]


def examples() -> list[Example]:
    """Return the page's commands in their order, each with the answer that follows it."""
    found = [*_BLOCK.findall(PAGE), ("", "")]
    following = itertools.pairwise(found)
    return [
        Example(text, after if next_kind == "json" else None)
        for (kind, text), (next_kind, after) in following
        if kind == "sh"
    ]


def shape(value: Any) -> Any:
    """Return the names of an answer's fields, no values; of a list, its first item's; of a charge, none."""
    if isinstance(value, dict):
        return {name: shape(held) if name != "object" else None for name, held in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


def sample_charge() -> str:
    """Return how the sample charge service's page makes a charge."""
    [example] = [text for kind, text in _BLOCK.findall(SAMPLE) if kind == "sh"]
    return str(example)


class Shell:
    """A merchant's terminal: what one example sets, the next one has."""

    def __init__(self, folder: Path, given: Mapping[str, str]) -> None:
        self._state = folder / "environment"
        self._bash = program("bash", "bash")
        self.environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **given}

    async def run(self, text: str) -> str:
        """Run an example; it must not fail."""
        script = f"set -eauo pipefail\n{text}\nenv -0 >'{self._state}'\n"
        process = await asyncio.create_subprocess_exec(
            self._bash, "-c", script, env=self.environ, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(process.communicate(), MAX_WAIT)
        assert process.returncode == 0, (text, out)
        pairs = self._state.read_text(encoding="utf-8").rstrip("\0").split("\0")
        self.environ = dict(pair.split("=", 1) for pair in pairs)
        return out.decode()


def credentials(api: PartnerApi, merchant: Merchant) -> dict[str, str]:
    base = f"http://127.0.0.1:{api.port}/v1"
    return {"API": base, "CLIENT_ID": merchant.client_id, "CLIENT_SECRET": merchant.client_secret}


def test_all_pages_are_tried() -> None:
    others = {"index.md", "receivers.md"}
    assert {f"{name}.md" for name in READ} == {path.name for path in FOLDER.glob("*.md")} - others


def test_an_example_that_shows_an_answer_is_followed_by_it() -> None:
    named = re.findall(r"^export (\w+)=", "".join(blocks('sh title="setup"')), re.MULTILINE)
    assert named == ["API", "CLIENT_ID", "CLIENT_SECRET"]
    assert len(blocks("json")) == sum(example.answer is not None for example in examples()) > 7
    assert len(examples()) > 14
    assert PAGE.count("```") == 2 * len(_BLOCK.findall(PAGE))


async def test_the_commands_of_the_page_work_as_they_are_written(installation: Installation) -> None:
    receiver = installation.receiver
    await installation.start(RETRY_SCHEDULE="PT0.05S")
    api = await start_api(installation)
    await installation.until_true(SEALS)
    async with api.merchant("m1") as merchant:
        given = {**credentials(api, merchant), "WEBHOOK_URL": receiver.url("m1")}
        shell = Shell(installation.folder, given)
        for example in examples():
            if "/deliveries?state=failed&since" in example.text:
                await fail_deliveries(installation, "m1")
            if "$COMMAND_ID" in example.text:
                await command_ended(merchant, shell.environ["COMMAND_ID"])
            out = await shell.run(example.text)
            told = [json.loads(line) for line in out.replace("}{", "}\n{").splitlines() if line[0] == "{"]
            # One alone is there to fail.
            assert all(answer.get("success", True) != ("limit=0" in example.text) for answer in told), out
            if example.answer is not None:
                shown = json.loads(example.answer)
                assert shape(told[0]) == shape(shown), example.text
                # Of a refusal the words are the same each time.
                assert told[0].get("error") == shown.get("error"), example.text
            if "whsec_" in out:
                receiver.secrets["m1"] = Secret(told[0]["data"]["secret"])


async def test_the_examples_stand_where_nothing_has_failed(installation: Installation) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        shell = Shell(installation.folder, {**credentials(api, merchant), "TOKEN": str(merchant.token)})
        of_one = [example.text for example in examples() if "$EVENT_ID" in example.text]
        assert [await shell.run(text) for text in of_one] == ["", ""]


async def test_a_charge_is_made_as_the_sample_charge_services_page_says(installation: Installation) -> None:
    """Twice the same, by the keys that stand there: the second time nothing is charged."""
    with ChargeServiceProcess(installation.database.dsn("webhook_producer")) as service:
        api = await start_api(installation, API_UPSTREAM=service.url)
        async with api.merchant("m1") as merchant:
            given = {**credentials(api, merchant), "TOKEN": str(merchant.token)}
            shell, shown = Shell(installation.folder, given), []
            for _ in range(2):
                out = await shell.run(sample_charge())
                confirmed, charge = [json.loads(line) for line in out.replace("}{", "}\n{").splitlines()]
                assert confirmed["data"]["status"] == "ACTIVE"
                assert (charge["data"]["externalId"], charge["data"]["amount"]) == ("order-1", 1990)
                shown.append(charge["data"])
    assert shown[0] == shown[1]
    made = "SELECT count(*) FROM webhook.outbox WHERE type = 'charge.created'"
    assert await installation.owner.fetchval(made) == 1


async def fail_deliveries(installation: Installation, merchant_id: str, count: int = 2) -> None:
    """Write events that the receiver does not accept, then mend it."""
    installation.receiver.behave(merchant_id, Behaviour(503))
    for _ in range(count):
        sent = await installation.emit(merchant_id, CHARGE, "charge.succeeded")
        await installation.settled(sent.id, "failed", 2)
    installation.receiver.behave(merchant_id, Behaviour())


async def command_ended(merchant: Merchant, command_id: str) -> None:
    async def has_ended() -> bool:
        reply = await merchant.ask("GET", f"/v1/commands/{command_id}")
        return bool(reply.data["status"] == "done")

    await until_found(has_ended)


async def test_the_client_of_the_page_catches_up_and_waits_when_it_is_told_to(
    installation: Installation,
) -> None:
    await installation.start(RETRY_SCHEDULE="PT0.05S")
    await installation.configure("m1")
    await fail_deliveries(installation, "m1", 3)
    api = await start_api(installation, API_LIMITS="key=3/PT1S")
    async with api.merchant("m1") as merchant:
        lines = await run_client("\n".join(blocks("python")), credentials(api, merchant))
    assert [line.split()[1:] for line in lines[:3]] == [["charge.succeeded", "SUCCEEDED"]] * 3
    assert lines[3] == "done {'matched': 3, 'retried': 3}"
    assert [line.split()[1:] for line in lines[4:7]] == [["charge.succeeded", "SUCCEEDED"]] * 3
    assert len({line.split()[0] for line in lines[4:7]}) == 3
    assert lines[7:] == ["there is no such delivery"]


async def run_client(program: str, given: Mapping[str, str]) -> list[str]:
    """Run the page's client with a program behind it; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env={**os.environ, **given}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), MAX_WAIT)
    assert process.returncode == 0
    return out.decode().splitlines()


BROKEN_OFF = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
OF_A_LOAD_BALANCER = (
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"
)


async def test_the_client_of_the_page_asks_again_where_the_answer_is_none_of_the_apis(
    installation: Installation,
) -> None:
    """An answer that breaks off, and a load balancer's own, stand before the API for one connection each."""
    api = await start_api(installation)
    instead = [BROKEN_OFF, OF_A_LOAD_BALANCER]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversations.add(asyncio.current_task())
        if instead:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(instead.pop(0))
            await writer.drain()
            writer.close()
            return
        to_api = await asyncio.open_connection("127.0.0.1", api.port)
        await asyncio.gather(passed_on(reader, to_api[1]), passed_on(to_api[0], writer))

    conversations = set["asyncio.Task[None] | None"]()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, api.merchant("m1") as merchant:
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        program = blocks("python")[0] + '\nprint(api.ask("GET", "/deliveries")["data"])'
        assert await run_client(program, {**credentials(api, merchant), "API": base}) == ["[]"]
        await asyncio.gather(*filter(None, conversations))
    assert instead == []


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
