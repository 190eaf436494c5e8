"""The tests' own servers leave no connection behind, which a later test would be blamed for."""

import asyncio
import socket
from contextlib import suppress

import pytest

from tests.network.connect_proxy import ConnectProxy
from tests.network.raw_receiver import RawReceiver
from tests.network.stream_server import StreamServer
from tests.waiting import MAX_WAIT


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("kind", [RawReceiver, ConnectProxy])
async def test_a_connection_is_ended_however_late_it_came(kind: type[StreamServer], turns: int) -> None:
    async with kind() as server:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=MAX_WAIT)
        for _ in range(turns):
            await asyncio.sleep(0)
    with client, suppress(ConnectionResetError):
        assert client.recv(1) == b""
