"""What a request's head must be, beyond what the parser of aiohttp asks.

Whatever two readers of HTTP could take for different requests is refused: a load balancer before us and a
service behind us must find the same request in the same bytes.
"""

import re

from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.web_request import BaseRequest

from webhook_dispatcher.api.calls import Refused
from webhook_dispatcher.api.catalogue import (
    HEAD_TOO_LARGE,
    MALFORMED_REQUEST,
    METHOD_NOT_ALLOWED,
    TOO_SLOW,
    UNKNOWN_EXPECTATION,
)

MAX_LINE_BYTES = 8190
MAX_HEADERS = 64
MAX_HEAD_BYTES = 32_768

_TARGET = re.compile(r"/[\x21-\x7e]*")
_AMBIGUOUS = re.compile(r"//|/\.\.?(?:/|$)|\\|%(?:2f|5c|00|2e)|%(?![0-9a-f]{2})", re.IGNORECASE)
_TOO_MANY = "Too many headers received"


class HeadTooSlow(Exception):
    """A head did not come to its end in time."""


class HeadTooLarge(Exception):
    """A head is larger than all of it may be."""


def judge(error: BaseException | None) -> int | None:
    """Return the code for a request that could not be parsed; None: it is no such error, but our own."""
    match error:
        case HeadTooSlow():
            return TOO_SLOW
        case HeadTooLarge() | LineTooLong():
            return HEAD_TOO_LARGE
        case BadHttpMessage(message=message) if message == _TOO_MANY:
            return HEAD_TOO_LARGE
        case BadHttpMessage():
            return MALFORMED_REQUEST
        case _:
            return None


def examine(request: BaseRequest) -> str:
    """Return the path without its query, or refuse the head."""
    if request.method == "CONNECT":
        raise Refused(METHOD_NOT_ALLOWED, headers={"Allow": "GET"}, closes=True)
    headers = request.headers
    if sum(len(name) + len(value) for name, value in headers.items()) > MAX_HEAD_BYTES:
        raise Refused(HEAD_TOO_LARGE, closes=True)
    if tuple(request.version) not in ((1, 0), (1, 1)) or not _is_framed_plainly(request):
        raise Refused(MALFORMED_REQUEST, closes=True)
    path, _, _ = request.raw_path.partition("?")
    if not _TARGET.fullmatch(request.raw_path) or "#" in request.raw_path or _AMBIGUOUS.search(path):
        raise Refused(MALFORMED_REQUEST, closes=True)
    return path


def _is_framed_plainly(request: BaseRequest) -> bool:
    """Tell whether there is one way to say where the body ends."""
    codings = request.headers.getall("Transfer-Encoding", [])
    if codings and (tuple(request.version) == (1, 0) or codings != ["chunked"]):
        return False
    return len(request.headers.getall("Content-Length", [])) + len(codings) <= 1


def expects_continue(request: BaseRequest) -> bool:
    """Tell whether the client waits for a word before it sends its body; Refused: it waits for another."""
    expected = request.headers.getall("Expect", [])
    if not expected or tuple(request.version) == (1, 0):
        return False
    if [text.strip().lower() for text in expected] != ["100-continue"]:
        raise Refused(UNKNOWN_EXPECTATION, closes=True)
    return True
