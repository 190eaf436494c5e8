"""How an answer is sent: with it the connection ends where no other request may follow on it."""

from collections.abc import Mapping

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

from webhook_dispatcher.web.server import CONNECTION


def respond(
    request: BaseRequest, status: int, body: bytes, headers: Mapping[str, str], *, is_last: bool = False
) -> Response:
    """Make an answer. is_last: the connection ends with it in any case.

    It does too where a part of the request was not read, or the server is draining.
    """
    if request.content.is_eof() and not (is_last or request[CONNECTION].is_draining):
        return Response(status=status, body=body, headers=headers)
    response = Response(status=status, body=body, headers={**headers, "Connection": "close"})
    response.force_close()
    return response
