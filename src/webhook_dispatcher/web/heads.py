"""What a request's head must be, beyond what the parser of aiohttp asks.

A head that two servers could read as different requests is refused: a load balancer before us and a service
behind us must find the same request in the same bytes.
"""

import re

from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.web_request import BaseRequest

from webhook_dispatcher.web.faults import Fault, RequestRefused

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


def judge(error: BaseException | None) -> Fault | None:
    """Say what is wrong with a request that could not be parsed; None: it is no such error, but our own."""
    match error:
        case RequestRefused(fault=fault):
            return fault
        case HeadTooSlow():
            return Fault.TOO_SLOW
        case HeadTooLarge() | LineTooLong():
            return Fault.HEAD_TOO_LARGE
        case BadHttpMessage(message=message) if message == _TOO_MANY:
            return Fault.HEAD_TOO_LARGE
        case BadHttpMessage():
            return Fault.MALFORMED
        case _:
            return None


def examine(request: BaseRequest) -> str:
    """Return the path without its query, or raise RequestRefused."""
    if request.method == "CONNECT":
        raise RequestRefused(Fault.CONNECT)
    headers = request.headers
    if sum(map(len, headers.keys())) + sum(map(len, headers.values())) > MAX_HEAD_BYTES:
        raise RequestRefused(Fault.HEAD_TOO_LARGE)
    if tuple(request.version) not in ((1, 0), (1, 1)) or not _is_framed_plainly(request):
        raise RequestRefused(Fault.MALFORMED)
    path, _, _ = request.raw_path.partition("?")
    if not _TARGET.fullmatch(request.raw_path) or "#" in request.raw_path or _AMBIGUOUS.search(path):
        raise RequestRefused(Fault.MALFORMED)
    return path


def _is_framed_plainly(request: BaseRequest) -> bool:
    """Tell whether the head says in one way only where the body ends."""
    codings = request.headers.getall("Transfer-Encoding", [])
    if codings and (tuple(request.version) == (1, 0) or codings != ["chunked"]):
        return False
    return len(request.headers.getall("Content-Length", [])) + len(codings) <= 1


def expects_continue(request: BaseRequest) -> bool:
    """Tell whether the client waits for a word before it sends its body; RequestRefused: for another one."""
    expected = request.headers.getall("Expect", [])
    if not expected or tuple(request.version) == (1, 0):
        return False
    if [text.strip().lower() for text in expected] != ["100-continue"]:
        raise RequestRefused(Fault.EXPECTATION)
    return True
