"""What the kernel says of a connection's buffers."""

import socket
from collections.abc import Iterator

import pytest

from tests.network.raw_receiver import go_deaf
from tests.unit.fakes.network import FakeTransport
from webhook_dispatcher.transport.buffers import Buffers

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return both ends of a connection, ours first."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as ours,
        listener.accept()[0] as theirs,
    ):
        yield ours, theirs


def test_an_idle_connection_holds_nothing(pair: Pair) -> None:
    buffers = Buffers(pair[0])
    assert (buffers.has_unread(), buffers.unreceived()) == (False, 0)


@pytest.mark.parametrize("is_end", [False, True])
def test_bytes_and_the_end_can_be_read(pair: Pair, is_end: bool) -> None:
    ours, theirs = pair
    if is_end:
        theirs.shutdown(socket.SHUT_WR)
    else:
        theirs.sendall(b"x")
    assert Buffers(ours).has_unread()


def test_what_the_other_side_has_not_received_is_counted_wherever_it_waits(pair: Pair) -> None:
    ours, theirs = pair
    carrier = FakeTransport()
    carrier.unwritten = 7
    buffers = Buffers(ours, carrier)
    go_deaf(theirs)
    ours.sendall(bytes(100))
    assert buffers.unreceived() == 107
    assert Buffers(ours).unreceived() == 100


def test_what_the_other_side_has_received_is_counted(pair: Pair) -> None:
    ours, theirs = pair
    buffers = Buffers(ours)
    ours.sendall(bytes(100))
    theirs.recv(100, socket.MSG_WAITALL)
    assert buffers.received() - 100 in (0, 1)  # Linux counts the SYN
    go_deaf(theirs)
    before = buffers.received()
    ours.sendall(bytes(100))
    assert buffers.received() == before


def test_a_connection_that_was_closed_is_in_doubt_and_no_error(pair: Pair) -> None:
    buffers = Buffers(pair[0])
    pair[0].close()
    assert (buffers.has_unread(), buffers.unreceived() > 0, buffers.received()) == (True, True, 0)
