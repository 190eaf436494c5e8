"""What aiohttp raises for one request, in the words of `failures`, so that both senders are read alike.

Source: contract 2.1; tests/unit/test_aiohttp_errors.py has a row for each class.
"""

import ssl

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientOSError,
    ClientPayloadError,
    ClientResponseError,
    ServerDisconnectedError,
)

from webhook_dispatcher.transport.failures import (
    AttemptEnded,
    ConnectFailed,
    Disconnected,
    HandshakeFailed,
    Malformed,
    NameFailed,
    Phase,
)
from webhook_dispatcher.transport.guard import Forbidden
from webhook_dispatcher.transport.proxy import TunnelRefused

# Everything aiohttp, asyncio, uvloop (RuntimeError where asyncio raises OSError) and the checks of headers
# (ValueError) are known to raise for one request.
EXPECTED = (ClientError, AttemptEnded, OSError, EOFError, ValueError, RuntimeError, Forbidden)


def translate(error: Exception, phase: Phase) -> Exception:
    """Return what our own client would have raised; the order of the cases matters, the classes overlap."""
    match error:
        case ClientConnectorError():
            return _unconnected(error)
        case ClientHttpProxyError():
            return TunnelRefused(error.status, bool(error.headers and "Proxy-Authenticate" in error.headers))
        case ClientOSError(__cause__=OSError() as cause):
            return cause
        # ClientResponseError.status is aiohttp's own 400 for a malformed answer: never the receiver's.
        case ClientResponseError() | ClientPayloadError():
            return Malformed()
        case ServerDisconnectedError():
            return Disconnected()
        case ValueError() if phase is Phase.READING:
            return Malformed()
        case RuntimeError() if phase in (Phase.CONNECTING, Phase.HANDSHAKING):
            return _caused(ConnectFailed(), error)
        case _:
            return error


def _unconnected(error: ClientConnectorError) -> Exception:
    match error:
        case ClientConnectorDNSError():
            return _caused(NameFailed(), error.os_error)
        case ClientConnectorCertificateError():
            return error.certificate_error
        case ClientConnectorError(os_error=ssl.SSLError() as cause):
            return cause
        case ClientConnectorError(os_error=ConnectionResetError() | ConnectionAbortedError() as cause):
            return _caused(HandshakeFailed(), cause)
        case _:
            return _caused(ConnectFailed(), error.os_error)


def _caused(error: AttemptEnded, cause: Exception) -> AttemptEnded:
    error.__cause__ = cause
    return error
