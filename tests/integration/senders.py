"""The two senders that the same tests run against, and where they differ.

Nothing differs that concerns what a merchant may be sent, what counts as delivered, or what is sent again.
"""

import asyncio
from typing import Any

from webhook_dispatcher.transport.aiohttp_sender import AiohttpSender
from webhook_dispatcher.transport.sender import Sender

SENDERS: dict[str, type[Sender] | type[AiohttpSender]] = {"llhttp": Sender, "aiohttp": AiohttpSender}

# Tests of what only our own client has, and why.
OURS_ALONE = {
    "test_behind_a_costly_handshake_no_other_address_is_tried": "aiohttp's are not measured",
    "test_an_answer_over_a_costly_connection_is_costly_once": "aiohttp's are not measured",
    "test_costly_receivers_have_two_handshakes_at_a_time": "aiohttp's are not measured",
    "test_a_name_with_many_addresses_is_costly": "aiohttp's are not measured",
    "test_an_endless_comment_on_a_chunk_is_no_body": "aiohttp's ends with the half second for the body",
    "test_long_body_is_not_even_begun": "sets a constant of connection.py",
    "test_a_request_has_left_before_anything_else_happens": "aiohttp does not tell what carries its TLS",
}


def kept_connection(sender: Any) -> asyncio.Protocol:
    """Return the protocol of the one idle connection."""
    if isinstance(sender, AiohttpSender):
        connector: Any = sender._session.connector
        [connection] = [handler for kept in connector._conns.values() for handler, _ in kept]
    else:
        [connection] = sender._pool.idle
    assert isinstance(connection, asyncio.Protocol)
    return connection


def watch(connection: Any) -> asyncio.Event:
    """Return an event that is set when bytes have arrived on the connection."""
    arrived = asyncio.Event()

    class Watched(type(connection)):  # type: ignore[misc]
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            arrived.set()

    connection.__class__ = Watched
    transport = connection.transport if hasattr(connection, "transport") else connection._transport
    transport.set_protocol(connection)  # it remembers the method
    return arrived
