"""What a TCP connection's buffers hold beneath TLS and HTTP: bytes not yet read, bytes not yet received.

The transports of the loop do not tell. What the kernel took in since the loop last looked is in none of their
buffers; a TLS transport of uvloop counts only what it has not encrypted; and the kernel takes a whole event
of ours at once, whether the receiver reads it or not.
"""

import asyncio
import fcntl
import select
import socket
import sys
import termios

_INTEGER_BYTES = 4


class Buffers:
    """The buffers of one connection, to be asked only while it is open.

    carrier: the transport that TLS is spoken over; none without TLS, where the connection's own says as much.
    """

    def __init__(self, sock: socket.socket, carrier: asyncio.Transport | None = None) -> None:
        self._sock = sock
        self._carrier = carrier
        self._count = bytearray(_INTEGER_BYTES)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def has_unread(self) -> bool:
        """Tell whether bytes have come, or the end of the connection, that the loop has not read yet."""
        return bool(self._poll.poll(0))

    def unreceived(self) -> int:
        """Return how many bytes that were written the other side had not received as it sent its last ones.

        A segment acknowledges all that came before it was sent: an answer to a whole request, all of it.
        """
        fcntl.ioctl(self._sock, termios.TIOCOUTQ, self._count)
        waiting = 0 if self._carrier is None else self._carrier.get_write_buffer_size()
        return waiting + int.from_bytes(self._count, sys.byteorder)
