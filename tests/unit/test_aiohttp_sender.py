"""A connection of aiohttp's client that comes to nothing; all else is in tests/integration/test_sender*."""

import socket

import pytest

from webhook_dispatcher.transport.aiohttp_connections import Dial


def test_a_connection_that_is_gone_before_it_has_a_protocol_leaves_no_socket() -> None:
    with socket.socket() as sock:
        dial = Dial("https://hooks.example.org/", is_trusted=False, sockets=[sock])
        with pytest.raises(OSError, match="gone"):
            dial.connected()
        assert (sock.fileno(), dial.peer) == (-1, None)
