"""A connection whose other end stops receiving, as if what is sent to it were still on a long way."""

import ctypes
import socket
import struct

# Linux, socket(7): a program of one instruction, which drops every segment that comes in.
SO_ATTACH_FILTER = 26
DROP = struct.pack("HBBI", 0x06, 0, 0, 0)


def go_deaf(connection: socket.socket) -> None:
    """Receive nothing more; what is sent from here still arrives."""
    program = ctypes.create_string_buffer(DROP)
    connection.setsockopt(
        socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program))
    )
