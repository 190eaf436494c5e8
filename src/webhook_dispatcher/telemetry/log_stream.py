"""Where log lines go: a stream that is never waited for. What nobody reads is dropped, and counted.

A pipe, terminal or socket may be stuck: its reader hangs, or was stopped. Then a thread waits in our place.
Nothing is left with the stream: what a full disk refuses would be written once more as Python ends, and make
the exit code 120.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import TextIO

MAX_WAITING = 256 * 1024
"""Bytes that wait for a reader; what comes beyond is dropped."""
PIECE = select.PIPE_BUF
"""Bytes for which there is room in whatever says that it can be written."""


def writer_to(stream: TextIO, say_dropped: Callable[[int], str]) -> Callable[[str], object]:
    """Return what writes text to a stream; it raises OSError or ValueError where that is closed or full.

    say_dropped: makes a line that says how many were dropped, once there is a reader again.
    """
    try:
        return _Patient(stream.fileno(), stream.encoding, say_dropped).write
    except (OSError, ValueError):
        pass  # it has none

    def write(text: str) -> None:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(text.encode("ascii", "backslashreplace").decode())
        stream.flush()

    return write


class _Patient:
    """Writes what can be written at once; has a thread write the rest, and what comes meanwhile."""

    def __init__(self, number: int, encoding: str, say_dropped: Callable[[int], str]) -> None:
        self._number = number
        self._encoding = encoding
        self._say_dropped = say_dropped
        self._poll = select.poll()
        self._poll.register(number, select.POLLOUT)
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._size = self._dropped = 0
        self._is_stuck = False

    def write(self, text: str) -> None:
        data = text.encode(self._encoding, "backslashreplace")
        with self._lock:
            # Under the lock: a poll object refuses to be asked by two threads at once.
            while data and not self._is_stuck and self._poll.poll(0):
                data = self._without_first(data)
            if not data:
                return
            self._keep(data)
            if not self._is_stuck:
                self._is_stuck = True
                threading.Thread(target=self._write_waiting, daemon=True, name="log").start()

    def _keep(self, data: bytes) -> None:
        # Once something is missing, all that follows is, until it was said in that place.
        if self._dropped or self._size + len(data) > MAX_WAITING:
            self._dropped += data.count(b"\n")
            return
        self._waiting.append(data)
        self._size += len(data)

    def _write_waiting(self) -> None:
        while (data := self._next()) is not None:
            try:
                while data:
                    self._poll.poll()
                    data = self._without_first(data)
            except OSError:
                continue  # it was closed: nobody will read this

    def _without_first(self, data: bytes) -> bytes:
        """Write as many lines as there is room for, or a part of one; return the rest."""
        end = data.rfind(b"\n", 0, PIECE) + 1 or PIECE
        return data[os.write(self._number, data[:end]) :]

    def _next(self) -> bytes | None:
        with self._lock:
            if not self._waiting and self._dropped:
                dropped, self._dropped = self._dropped, 0
                self._keep(self._say_dropped(dropped).encode(self._encoding))
            if not self._waiting:
                self._is_stuck = False
                return None
            data = self._waiting.popleft()
            self._size -= len(data)
            return data
