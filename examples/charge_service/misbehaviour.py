"""How the service fails when a test asks for it; a real one has no such file.

`POST /misbehaviour {"how": "hang-after-acting", "times": 1}`: that many of the next requests get it, in
order. It exists with `--misbehaves` alone.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable

from aiohttp import web

HUGE = b'"' + b"x" * (5 << 20) + b'"'
GARBAGE = b"\x16\x03\x01 this is no HTTP\r\n\r\n"
AFTER_ACTING = "-after-acting"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _error(status: int, code: int) -> Callable[[], web.Response]:
    return lambda: web.json_response({"code": code}, status=status)


ANSWERS: dict[str, Callable[[], web.Response]] = {
    "500": lambda: web.Response(status=500, text="it broke"),
    "503": lambda: web.Response(status=503, text="not now"),
    "503-with-code": _error(503, -9005),
    "redirect": lambda: web.Response(status=307, headers={"Location": "http://127.0.0.1:9/elsewhere"}),
    "401": _error(401, -10002),
    "407": lambda: web.Response(status=407, headers={"Proxy-Authenticate": "Basic"}),
    "huge": lambda: web.Response(body=HUGE, content_type="application/json"),
    "not-json": lambda: web.Response(text="<html>Welcome!</html>", content_type="text/html"),
    "nan": lambda: web.Response(body=b'{"amount": NaN}', content_type="application/json"),
    "two-values": lambda: web.Response(body=b'{}, "meta": {}', content_type="application/json"),
    "compressed": lambda: web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
    "no-code": lambda: web.json_response({"error": "stock_out"}, status=409),
    "admin-code": _error(422, -13001),
    "onboarding-code": _error(422, -15005),
    "credentials-code": _error(422, -10003),
    "command-code": _error(422, -14005),
    "unpublished-code": _error(422, -77),
    "front-code": _error(404, -16001),
    "unlisted-code": _error(410, -8007),
    "table-code-with-500": _error(500, -9002),
    "too-many": lambda: web.json_response({"code": -11005}, status=429, headers={"Retry-After": "17"}),
}
"""Answers instead of the right one."""
NAMES = {*ANSWERS, "hang", "break-off", "die", "garbage"}
CODED = re.compile(r"([45]\d\d)/(-?\d+)")
"""Any status with any code: `409/-3005`."""


class Misbehaviour:
    """What the next requests get."""

    def __init__(self) -> None:
        self._next: deque[str] = deque()
        self._released = asyncio.Event()

    def ask(self, how: str, times: int = 1) -> None:
        """Have the next requests go wrong: a name, with `-after-acting` for what acts first."""
        name = how.removesuffix(AFTER_ACTING)
        if name not in NAMES and not CODED.fullmatch(name):
            raise ValueError(
                f"how: one of {', '.join(sorted(NAMES))} or a status/code, with or without {AFTER_ACTING}"
            )
        self._next.extend([how] * times)

    def release(self) -> None:
        """Let those that hang go on."""
        self._released.set()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer as was asked for, or leave it to the handler."""
        if not self._next or request.path == "/misbehaviour":
            return await handler(request)
        how = self._next.popleft()
        if how.endswith(AFTER_ACTING):
            await handler(request)
        return await self._misbehave(request, how.removesuffix(AFTER_ACTING))

    async def _misbehave(self, request: web.Request, how: str) -> web.StreamResponse:
        match how:
            case "hang":
                await self._released.wait()
            case "break-off":
                await _write(request, b'HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{"id": ')
            case "garbage":
                await _write(request, GARBAGE)
            case "die":
                _abort(request)
            case _:
                coded = CODED.fullmatch(how)
                return _error(int(coded[1]), int(coded[2]))() if coded else ANSWERS[how]()
        return web.Response()  # to nobody

    async def handle(self, request: web.Request) -> web.Response:
        """POST /misbehaviour."""
        wanted = json.loads(await request.read())
        try:
            self.ask(str(wanted["how"]), int(wanted.get("times", 1)))
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        return web.Response(status=204)


async def _write(request: web.Request, octets: bytes) -> None:
    """Write these bytes, and end the connection."""
    if request.transport is not None:
        request.transport.write(octets)
        request.transport.close()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
