"""Each of aiohttp's exceptions in our own words; what those mean, test_reading has."""

import errno
import ssl

import pytest
from aiohttp import (
    ClientConnectionResetError,
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientHttpProxyError,
    ClientOSError,
    ClientPayloadError,
    ClientResponseError,
    InvalidURL,
    RequestInfo,
    ServerDisconnectedError,
)
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from webhook_dispatcher.domain.verdict import Failure, Outcome
from webhook_dispatcher.transport.aiohttp_errors import EXPECTED, translate
from webhook_dispatcher.transport.failures import Phase, classify
from webhook_dispatcher.transport.guard import Forbidden
from webhook_dispatcher.transport.local_faults import ResolverFault, is_local
from webhook_dispatcher.transport.proxy import TunnelRefused

SECRET = "what the receiver sent"
REQUEST = RequestInfo(URL("https://hooks.example.org/"), "POST", CIMultiDictProxy(CIMultiDict()))
KEY = ConnectionKey("hooks.example.org", 443, True, True, None, None, None)
RESOLVING, CONNECTING, WAITING, READING = Phase.RESOLVING, Phase.CONNECTING, Phase.WAITING, Phase.READING


def unverified() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, SECRET)
    error.verify_message = "certificate has expired"
    return error


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, SECRET)
    error.reason = reason
    return error


def caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def connector_error(number: int) -> ClientConnectorError:
    return ClientConnectorError(KEY, OSError(number, SECRET))


# fmt: off
READINGS = [
    (ClientConnectorDNSError(KEY, OSError(None, "Domain name not found")), RESOLVING,
     Failure(Outcome.DNS, "NameFailed: Domain name not found")),
    (connector_error(errno.ECONNREFUSED), CONNECTING,
     Failure(Outcome.CONNECT, "ConnectFailed: ECONNREFUSED")),
    (connector_error(errno.ETIMEDOUT), CONNECTING, Failure(Outcome.CONNECT, "ConnectFailed: ETIMEDOUT")),
    (connector_error(errno.ECONNRESET), CONNECTING, Failure(Outcome.TLS, "HandshakeFailed: ECONNRESET")),
    (connector_error(errno.ECONNABORTED), CONNECTING, Failure(Outcome.TLS, "HandshakeFailed: ECONNABORTED")),
    (ClientConnectorCertificateError(KEY, unverified()), CONNECTING,
     Failure(Outcome.TLS, "SSLCertVerificationError: certificate has expired")),
    (ClientConnectorSSLError(KEY, tls_error("WRONG_VERSION_NUMBER")), CONNECTING,
     Failure(Outcome.TLS, "SSLError: WRONG_VERSION_NUMBER")),
    (caused_by(ClientOSError(1, SECRET), tls_error("CERTIFICATE_REQUIRED")), WAITING,
     Failure(Outcome.TLS, "SSLError: CERTIFICATE_REQUIRED")),
    (ServerDisconnectedError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "Disconnected")),
    (ServerDisconnectedError(SECRET), READING, Failure(Outcome.DISCONNECTED, "Disconnected")),
    (ServerDisconnectedError(SECRET), CONNECTING, Failure(Outcome.CONNECT, "Disconnected")),
    (caused_by(ClientOSError(errno.ECONNRESET, SECRET), ConnectionResetError(errno.ECONNRESET, SECRET)),
     WAITING, Failure(Outcome.DISCONNECTED, "ConnectionResetError: ECONNRESET")),
    (ClientConnectionResetError(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "ClientConnectionResetError")),
    (TimeoutError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "TimeoutError")),
    (EOFError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "EOFError")),
    (RuntimeError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "RuntimeError")),
    (RuntimeError(SECRET), CONNECTING, Failure(Outcome.CONNECT, "ConnectFailed")),
    (ClientResponseError(REQUEST, (), status=400, message=SECRET), WAITING,
     Failure(Outcome.BAD_RESPONSE, "Malformed")),
    (ClientPayloadError(SECRET), WAITING, Failure(Outcome.BAD_RESPONSE, "Malformed")),
    (ValueError(SECRET), READING, Failure(Outcome.BAD_RESPONSE, "Malformed")),
    (ValueError(SECRET), WAITING, Failure(Outcome.UNSENDABLE, "ValueError")),
    (InvalidURL(SECRET), RESOLVING, Failure(Outcome.UNSENDABLE, "InvalidURL")),
    (Forbidden("not public"), CONNECTING, Failure(Outcome.BLOCKED, "not public")),
]
# fmt: on


@pytest.mark.parametrize(("error", "phase", "shown"), READINGS, ids=lambda value: type(value).__name__)
def test_what_aiohttp_raises_is_read_like_our_own(error: Exception, phase: Phase, shown: Failure) -> None:
    assert isinstance(error, EXPECTED)
    assert classify(translate(error, phase), phase) == shown


def test_blame_finds_the_cause() -> None:
    fault = ClientConnectorDNSError(KEY, ResolverFault(None, "no servers"))
    assert is_local(translate(fault, RESOLVING), ())
    assert is_local(translate(connector_error(errno.EMFILE), CONNECTING), ())
    assert not is_local(translate(connector_error(errno.ECONNREFUSED), CONNECTING), ())


@pytest.mark.parametrize(("headers", "is_challenge"), [({"Proxy-Authenticate": "Basic"}, True), ({}, False)])
def test_refused_tunnel_keeps_its_status(headers: dict[str, str], is_challenge: bool) -> None:
    error = ClientHttpProxyError(REQUEST, (), status=407, message=SECRET, headers=CIMultiDict(headers))
    refused = translate(error, Phase.ASKING_PROXY)
    assert isinstance(refused, TunnelRefused)
    assert (refused.status, refused.is_challenge) == (407, is_challenge)
