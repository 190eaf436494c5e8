"""`check` asks name server and proxy as an attempt does."""

from dataclasses import replace

import pytest

from tests.network.name_server import NXDOMAIN, serving
from tests.unit.fakes.administration import FakeAdministration, session
from webhook_dispatcher.cli.check import CheckResult, examine
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.signing import Secret


async def outbound(asked: CliContext) -> CheckResult:
    async with asked.open_administration("", False) as database:
        keyring = asked.settings().keyring()
        sealed = keyring.seal("m", Secret("whsec_" + "s" * 40))
        await database.insert_endpoint("m", "https://m.example.com/", sealed, keyring)
    results = await examine(replace(asked, make_sender=None))
    return next(result for result in results if result.check == "outbound")


@pytest.mark.parametrize("name_server", [True, False])
async def test_the_name_server_is_asked_as_an_attempt_asks_it(name_server: bool) -> None:
    async with serving({"webhook-dispatcher-check.example.com": NXDOMAIN}) as (_, address):
        server = address if name_server else "127.0.0.1:1"
        asked = session(FakeAdministration(), WEBHOOK_EGRESS_NAMESERVERS=server)
        found = await outbound(asked)
    assert found.note == (
        "ok; a name server answers; no endpoint's host is looked up" if name_server else None
    )
    assert (found.problem is None) == name_server


async def test_a_proxy_that_is_not_there_is_a_problem() -> None:
    asked = session(FakeAdministration(), WEBHOOK_EGRESS_PROXY="http://127.0.0.1:1")
    assert "the egress proxy: " in str((await outbound(asked)).problem)
