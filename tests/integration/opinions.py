"""What maintained clients make of an answer's bytes: `http.client` and h11, which share no code with llhttp.

Both are asked as parsers, in memory; a `Reading` is what they tell whoever sends the requests.
"""

import http.client
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import h11


@dataclass(frozen=True)
class Reading:
    """One client's reading of an answer.

    status: of the final answer; None where there is none, cut off or malformed.
    is_kept: another request may follow on the connection.
    is_silence: nothing was answered at all, so that a request on a kept connection may be sent again.
    """

    status: int | None
    is_kept: bool = False
    is_silence: bool = False

    def __str__(self) -> str:
        shown = "no answer" if self.status is None else str(self.status)
        return f"{shown}, kept" if self.is_kept else shown


def is_interim(status: int) -> bool:
    """Tell whether the final answer is still to come."""
    return 100 <= status < 200 and status != 101


class _Source(io.BytesIO):
    """What http.client reads from instead of a socket; it stays open, so that what is left can be seen."""

    def makefile(self, mode: str) -> "_Source":
        return self

    def close(self) -> None:
        pass


def read_by_http_client(answer: bytes) -> Reading:
    """Read as `http.client` does; it passes over 100 alone, and leaves the other 1xx to who uses it."""
    source = _Source(answer)
    while True:
        response = http.client.HTTPResponse(cast(Any, source), method="POST")
        try:
            response.begin()
        except http.client.RemoteDisconnected:
            return Reading(None, is_silence=True)
        except (http.client.HTTPException, ValueError):
            return Reading(None)
        if not is_interim(response.status):
            break
    try:
        response.read()
    except (http.client.HTTPException, ValueError, OverflowError):
        return Reading(response.status)
    return Reading(response.status, not response.will_close and not source.read(1))


def read_by_h11(pieces: Sequence[bytes]) -> Reading:
    """Read as h11 does, piece by piece, to the end of the connection."""
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    client.send(h11.Request(method="POST", target="/", headers=[("Host", "h"), ("Content-Length", "0")]))
    client.send(h11.EndOfMessage())
    status: int | None = None
    try:
        for piece in filter(None, pieces):
            client.receive_data(piece)
            for event in iter(client.next_event, h11.NEED_DATA):
                if event is h11.PAUSED:
                    break
                if isinstance(event, h11.Response):
                    status = event.status_code
    except h11.RemoteProtocolError:
        return Reading(status)
    is_over = client.their_state is h11.DONE
    return Reading(status, is_over and not client.trailing_data[0], is_silence=not any(pieces))
