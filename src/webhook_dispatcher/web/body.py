"""How the body of a request is read: within bounds of size and time, which are narrow for strangers."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext

from aiohttp.web_protocol import RequestPayloadError
from aiohttp.web_request import BaseRequest

from webhook_dispatcher.web.faults import Fault, RequestRefused
from webhook_dispatcher.web.server import CONNECTION

MAX_SECONDS = 20.0
"""How long a body may take to arrive, however it comes."""
MAX_SECONDS_OF_STRANGERS = 5.0
"""The same where the request has shown no credentials: STALL_SECONDS, and longer as bytes come."""
STALL_SECONDS = 2.0
MIN_RATE = 1024
"""Bytes a second."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def read_body(
    request: BaseRequest,
    most: int,
    take: Callable[[int], None] | None = None,
    *,
    is_strangers: bool,
    expects_continue: bool = False,
) -> bytes:
    """Read a body of at most so many bytes; tell the client to send it if it waits for that.

    take: takes memory for as many bytes as have come, or refuses. is_strangers: of who has shown no
    credentials. Errors: RequestRefused; ConnectionError where the connection was closed, perhaps for others.
    """
    if expects_continue and not request.content.is_eof():
        await _tell_to_continue(request)
    began, parts, size = asyncio.get_running_loop().time(), [], 0
    try:
        with request[CONNECTION].awaiting_body() if is_strangers else nullcontext():
            async with asyncio.timeout_at(began + _seconds(0, is_strangers)) as deadline:
                while part := await request.content.readany():
                    size += len(part)
                    if size > most:
                        raise RequestRefused(Fault.BODY_TOO_LARGE)
                    if take is not None:
                        take(len(part))
                    parts.append(part)
                    deadline.reschedule(began + _seconds(size, is_strangers))
    except TimeoutError:
        raise RequestRefused(Fault.TOO_SLOW) from None
    except RequestPayloadError:
        raise RequestRefused(Fault.MALFORMED) from None
    return b"".join(parts)


def _seconds(size: int, is_strangers: bool) -> float:
    """Return how long a body may take of which so many bytes have come."""
    return min(MAX_SECONDS_OF_STRANGERS, STALL_SECONDS + size / MIN_RATE) if is_strangers else MAX_SECONDS


async def _tell_to_continue(request: BaseRequest) -> None:
    writer = request.writer
    await writer.write(CONTINUE)
    # The answer itself has not begun: an error may still take its place.
    writer.output_size = 0
