"""Rebinding on the daemon's own event loop, where nothing is replaced: 127.0.0.2 stands in for the public.

It is the one address that is allowed; a real receiver answers there before the name moves on to 127.0.0.1.
"""

import asyncio
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.network.misbehaviour import authority, context_of
from tests.network.name_server import Reply, addresses, serving
from tests.network.raw_receiver import OK, RawReceiver, answering, status
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

NAME, PUBLIC = "rebinding.attacker.dev", "127.0.0.2"
CLOSING = status("200 OK", "Connection: close")
GUARD = Guard(EgressPolicy(allow_networks=(ip_network(f"{PUBLIC}/32"),)))


async def post_each(folder: Path, answer: bytes, second: Reply, posts: int) -> list[Answer | Failure]:
    """Post so often to a name that moves after its first answer; nobody may come to 127.0.0.1."""
    came = 0

    def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        writer.close()

    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = context_of(authority.issue_cert(NAME))
    async with (
        RawReceiver(answering(answer), context, address=PUBLIC) as receiver,
        await asyncio.start_server(come, "127.0.0.1", receiver.port),
        serving({NAME: [addresses(PUBLIC), second]}) as (_, server),
        Sender(GUARD, timedelta(seconds=20), "test", folder / "ca.pem", nameservers=[server]) as sender,
    ):
        seen = [await sender.post(receiver.url(host=NAME), {}, b"{}") for _ in range(posts)]
    assert came == 0
    return seen


@pytest.mark.parametrize("second", [addresses("127.0.0.1"), addresses(PUBLIC, "127.0.0.1")])
async def test_a_name_that_moves_to_loopback_is_blocked(tmp_path: Path, second: Reply) -> None:
    first, *others = await post_each(tmp_path, CLOSING, second, posts=4)
    assert first == Answer(200)
    assert [other.outcome for other in others] == [Outcome.BLOCKED] * 3


async def test_a_kept_connection_stays_where_it_was_approved(tmp_path: Path) -> None:
    assert await post_each(tmp_path, OK, addresses("127.0.0.1"), posts=4) == [Answer(200)] * 4
