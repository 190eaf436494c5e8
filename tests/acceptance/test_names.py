"""Names of one's own and both signatures, taken by a running daemon, judged by published libraries."""

import asyncio
import base64
import json
import re
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.api_merchant import start_api
from tests.acceptance.installation import ENDPOINT, Installation
from tests.acceptance.signature_verifiers import ROOT, Verifiers
from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names
from webhook_dispatcher.domain.signing import Keyring, Secret
from webhook_dispatcher.local.arrivals import Arrival, Signature
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.local.receiver import Receiver

OLD = Secret("whsec_" + base64.urlsafe_b64encode(b"\xfb\xff" * 16).rstrip(b"=").decode())
"""As they were made earlier."""
PAGE = ROOT / "docs/operate/names.md"
ACCEPTED, WRONG = 200, 401
STANDARD = ("webhook-id", "webhook-timestamp", "webhook-signature")


def documented() -> tuple[Sequence[str], Sequence[str]]:
    """Return the command that the page of operators gives, and what it prints."""
    [example] = re.findall(r"\$ webhook-dispatcher (names set .*)\n((?:\w.*\n)+)```", PAGE.read_text())
    return shlex.split(example[0]), example[1].splitlines()


class Merchants:
    """A receiver over TLS, and what each library makes of what it got."""

    def __init__(self, receiver: Receiver, verifiers: Verifiers, library: str) -> None:
        self.receiver = receiver
        self._stripes, self._standard = verifiers["stripe of PyPI"], verifiers[library]

    async def got(self, installation: Installation, merchant: str) -> Arrival:
        count = len(self.receiver.of(merchant)) + 1
        sent = await installation.emit(merchant, '{"id":"ch_1",  "amount":1.10,"name":"\\u00e9 é"}')
        await self.receiver.wait_for(
            lambda _: len(self.receiver.of(merchant)) == count, timedelta(seconds=MAX_WAIT)
        )
        await installation.settled(sent.id, "delivered", 1)
        return self.receiver.of(merchant)[-1]

    def judge(self, arrival: Arrival, secret: Secret) -> tuple[int, int]:
        """Return what the libraries say of the service's signature, and of the standard one."""
        text, header = secret.revealed.decode(), arrival.headers.get(self.receiver.names.signature.lower())
        standard = {name: value for name, value in arrival.headers.items() if name.startswith("webhook-")}
        return self._stripes(arrival.body, header, text), self._standard(arrival.body, standard, text)


@pytest.fixture
async def ca_file(tmp_path: Path) -> Path:
    return tmp_path / "ca.pem"


@pytest.fixture
async def merchants(
    ca_file: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Merchants]:
    with ExitStack() as stack:
        async with Receiver(tls=server_context(ca_file)) as receiver:
            yield Merchants(receiver, Verifiers(tmp_path, stack), request.param)


OF_NPM = pytest.mark.slow("acceptance/test_names.py::test_both_signatures_are_sent_once_they_are_asked_for")


@pytest.mark.parametrize(
    "merchants",
    ["standard of PyPI", pytest.param("standard of npm", marks=OF_NPM)],
    indirect=True,
)
async def test_both_signatures_are_sent_once_they_are_asked_for(
    installation: Installation, merchants: Merchants, ca_file: Path
) -> None:
    receiver, old = merchants.receiver, Keyring.parse(installation.key).seal("old", OLD)
    await installation.configure("m1", url=receiver.url("m1"))
    await installation.admin.execute(ENDPOINT, "old", receiver.url("old"), old.sealed, old.key_id)
    first = receiver.secrets["m1"] = installation.receiver.secrets["m1"]
    receiver.secrets["old"] = OLD
    daemon = await installation.start(EGRESS_CA_FILE=str(ca_file))
    arrival = await merchants.got(installation, "m1")
    assert merchants.judge(arrival, first) == (ACCEPTED, WRONG)
    assert not set(STANDARD) & arrival.headers.keys()

    command, printed = documented()
    said = installation.command(*command)
    assert (said.returncode, [line.rstrip() for line in said.stdout.splitlines()]) == (0, printed)
    await daemon.logged("names.changed")
    receiver.names = Names("Acme-")
    arrival = await merchants.got(installation, "m1")
    assert merchants.judge(arrival, first) == (ACCEPTED, ACCEPTED)
    assert merchants.judge(arrival, OLD) == (WRONG, WRONG)
    headers = arrival.headers
    assert headers["user-agent"] == "Acme/1.0"
    assert headers["acme-event-id"] == headers["webhook-id"] == json.loads(arrival.body)["id"]
    assert headers["acme-event-type"] == "charge.created"
    assert headers["acme-signature"].startswith(f"t={headers['webhook-timestamp']},v1=")
    assert not [name for name in headers if name.startswith("service-")]

    # While two secrets sign, whoever has either accepts both signatures.
    said = installation.command("endpoint", "rotate-secret", "m1", "--overlap", "1h")
    second = Secret(said.stdout.split()[-1])
    receiver.accept("m1", second, first)
    arrival = await merchants.got(installation, "m1")
    assert [merchants.judge(arrival, each) for each in (first, second)] == [(ACCEPTED, ACCEPTED)] * 2
    assert arrival.headers["webhook-signature"].count("v1,") == 2

    # What is no standard base64 has none, is said to, and is told when it is replaced.
    arrival = await merchants.got(installation, "old")
    assert merchants.judge(arrival, OLD)[0] == ACCEPTED
    assert not set(STANDARD) & arrival.headers.keys()
    assert "old: no standard signature" in installation.command("check").stdout
    assert "service; not standard" in installation.command("endpoint", "show", "old").stdout
    shown = json.loads(installation.command("endpoint", "show", "m1", "--json").stdout)
    assert shown["signatures"] == ["service", "standard"]
    said = installation.command("endpoint", "rotate-secret", "old", "--overlap", "1h")
    receiver.accept("old", Secret(said.stdout.split()[-1]), OLD)
    arrival = await merchants.got(installation, "old")
    assert merchants.judge(arrival, receiver.secrets["old"]) == (ACCEPTED, ACCEPTED)
    assert merchants.judge(arrival, OLD)[0] == ACCEPTED
    assert arrival.headers["webhook-signature"].count("v1,") == 1
    assert "no standard signature" not in installation.command("check").stdout
    assert {arrival.signature for arrival in receiver.arrivals} == {Signature.RIGHT}

    # A daemon that starts has them from its first request on; back at the first, older ones are let in.
    daemon.terminate()
    assert await daemon.ended() == 0
    starting = installation.start(EGRESS_CA_FILE=str(ca_file))
    arrival, _ = await asyncio.gather(merchants.got(installation, "m1"), starting)
    assert merchants.judge(arrival, second) == (ACCEPTED, ACCEPTED)
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        document = (await merchant.ask("GET", "/openapi.json")).json
    described = [each["name"] for each in document["webhooks"]["event"]["post"]["parameters"]]
    assert described == ["Acme-Event-Id", "Acme-Event-Type", "Acme-Signature", *STANDARD]
    assert installation.command("names", "reset").returncode == 0
    assert await installation.owner.fetchval("SELECT compatible_from FROM webhook.state") == 1
    assert json.loads(installation.command("names", "show", "--json").stdout) == {
        "header_prefix": DEFAULT_NAMES.header_prefix,
        "user_agent": None,
        "signatures": ["service"],
    }
