"""How the body of a request is read: within bounds of size and time."""

import asyncio
from collections.abc import Callable

from aiohttp.web_protocol import RequestPayloadError
from aiohttp.web_request import BaseRequest

from webhook_dispatcher.web.faults import Fault, RequestRefused

MAX_SECONDS = 20.0
"""How long a body may take to arrive, however it comes."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def read_body(
    request: BaseRequest,
    most: int,
    take: Callable[[int], None] | None = None,
    *,
    expects_continue: bool = False,
) -> bytes:
    """Read a body of at most so many bytes; tell the client to send it if it waits for that.

    take: takes memory for as many bytes as have come, or refuses. Errors: RequestRefused.
    """
    if expects_continue and not request.content.is_eof():
        await _tell_to_continue(request)
    parts, size = [], 0
    try:
        async with asyncio.timeout(MAX_SECONDS):
            while part := await request.content.readany():
                size += len(part)
                if size > most:
                    raise RequestRefused(Fault.BODY_TOO_LARGE)
                if take is not None:
                    take(len(part))
                parts.append(part)
    except TimeoutError:
        raise RequestRefused(Fault.TOO_SLOW) from None
    except RequestPayloadError:
        raise RequestRefused(Fault.MALFORMED) from None
    return b"".join(parts)


async def _tell_to_continue(request: BaseRequest) -> None:
    writer = request.writer
    await writer.write(CONTINUE)
    # The answer itself has not begun: an error may still take its place.
    writer.output_size = 0
