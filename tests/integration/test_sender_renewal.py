"""A merchant moves while its connection is busy: it is followed, unless no connection can be made."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.network.name_server import NXDOMAIN, SERVFAIL, Reply, addresses, serving
from tests.network.raw_receiver import OK, RawReceiver, answering, status
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport import renewal
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

OLD, NEW = "127.0.0.1", "127.0.0.2"
HOST, NOBODY = "hooks.honest.dev", "gone.honest.dev"
AT_ONCE, NEVER = 0.0, 3600.0
REFUSED = status("503 Service Unavailable")


@asynccontextmanager
async def moving(old_answer: bytes, second: Reply) -> AsyncIterator[tuple[Sender, RawReceiver, RawReceiver]]:
    """Give a sender, where the host is at its first look-up, and where it may be afterwards."""
    policy = EgressPolicy(
        (ip_network("127.0.0.0/8"),), allow_hosts=frozenset((HOST, NOBODY)), allow_http=True
    )
    async with (
        RawReceiver(answering(old_answer), address=OLD) as old,
        RawReceiver(answering(OK), address=NEW, wanted_port=old.port) as new,
        serving({HOST: [addresses(OLD), second], NOBODY: NXDOMAIN}) as (_, server),
        Sender(Guard(policy), timedelta(seconds=20), "test", nameservers=[server]) as sender,
    ):
        yield sender, old, new


async def post(sender: Sender, to: RawReceiver, host: str = HOST) -> Answer | Failure:
    return await sender.post(to.url(host=host), {}, b"{}")


def let_age(monkeypatch: pytest.MonkeyPatch, delivered: float, refused: float) -> None:
    monkeypatch.setattr(renewal, "_MAX_AGE_SECONDS", delivered)
    monkeypatch.setattr(renewal, "_MAX_AGE_OF_REFUSED_SECONDS", refused)


async def test_a_connection_that_is_old_is_left_for_where_its_name_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_age(monkeypatch, delivered=AT_ONCE, refused=NEVER)
    async with moving(OK, addresses(NEW)) as (sender, old, new):
        assert [await post(sender, old) for _ in range(2)] == [Answer(200)] * 2
        assert (len(old.requests), len(new.requests)) == (1, 1)


async def test_a_connection_whose_answer_is_no_delivery_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    let_age(monkeypatch, delivered=NEVER, refused=AT_ONCE)
    async with moving(REFUSED, addresses(NEW)) as (sender, old, _):
        assert [await post(sender, old) for _ in range(3)] == [Answer(503), Answer(200), Answer(200)]


async def test_who_refuses_much_keeps_a_connection_that_is_young() -> None:
    async with moving(REFUSED, addresses(NEW)) as (sender, old, _):
        assert {(await post(sender, old)).outcome for _ in range(20)} == {Outcome.STATUS}
        assert old.connections == 1


async def test_who_is_connected_stays_so_while_no_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the death of our name servers would reach all that needed none."""
    async with moving(OK, SERVFAIL) as (sender, old, _):
        assert await post(sender, old) == Answer(200)
        assert (await post(sender, old, NOBODY)).outcome is Outcome.DNS
        let_age(monkeypatch, delivered=AT_ONCE, refused=AT_ONCE)
        assert [await post(sender, old) for _ in range(20)] == [Answer(200)] * 20
        assert old.connections == 1
