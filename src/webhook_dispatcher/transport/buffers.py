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

# Where Linux says how many bytes the other side has acknowledged: `tcpi_bytes_acked` in its struct tcp_info.
_ACKNOWLEDGED = slice(120, 128)

# What a connection says that is being closed.
_CLOSED = (OSError, ValueError)


class Buffers:
    """The buffers of one connection; where they cannot be asked, as it is being closed, they say the worst.

    carrier: the transport that TLS is spoken over; none without TLS, where the connection's own says as much.
    """

    def __init__(self, sock: socket.socket, carrier: asyncio.Transport | None = None) -> None:
        self._sock = sock
        self.carrier = carrier
        self._count = bytearray(_INTEGER_BYTES)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def has_unread(self) -> bool:
        """Tell whether bytes have come, or the end of the connection, that the loop has not read yet."""
        try:
            return bool(self._poll.poll(0))
        except _CLOSED:
            return True

    def unreceived(self) -> int:
        """Return how many bytes that were written the other side had not received as it sent its last ones.

        A segment acknowledges all that came before it was sent: an answer to a whole request, all of it.
        """
        try:
            fcntl.ioctl(self._sock, termios.TIOCOUTQ, self._count)
        except _CLOSED:
            return 1
        waiting = 0 if self.carrier is None else self.carrier.get_write_buffer_size()
        return waiting + int.from_bytes(self._count, sys.byteorder)

    def received(self) -> int:
        """Return how many bytes the other side has received since the connection was made."""
        try:
            info = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKNOWLEDGED.stop)
        except _CLOSED:
            return 0
        return int.from_bytes(info[_ACKNOWLEDGED], sys.byteorder)
