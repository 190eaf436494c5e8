"""Each of aiohttp's exceptions in our own words; what those mean, test_reading has."""

import errno

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

from tests.unit.fakes.network import SECRET, caused_by, tls_error, unverified
from webhook_dispatcher.domain.verdict import Failure, Outcome
from webhook_dispatcher.transport.aiohttp_errors import EXPECTED, translate
from webhook_dispatcher.transport.failures import Phase, classify
from webhook_dispatcher.transport.guard import Forbidden
from webhook_dispatcher.transport.local_faults import ResolverFault, is_local
from webhook_dispatcher.transport.proxy import TunnelRefused

REQUEST = RequestInfo(URL("https://hooks.example.org/"), "POST", CIMultiDictProxy(CIMultiDict()))
KEY = ConnectionKey("hooks.example.org", 443, True, True, None, None, None)
RESOLVING, CONNECTING, WAITING, READING = Phase.RESOLVING, Phase.CONNECTING, Phase.WAITING, Phase.READING


def connector_error(number: int) -> ClientConnectorError:
    return ClientConnectorError(KEY, OSError(number, SECRET))


# fmt: off
READINGS = [
    (ClientConnectorDNSError(KEY, OSError(None, "name does not exist")), RESOLVING,
     Failure(Outcome.DNS, "name does not exist")),
    (connector_error(errno.ECONNREFUSED), CONNECTING,
     Failure(Outcome.CONNECT, "ECONNREFUSED")),
    (connector_error(errno.ECONNRESET), CONNECTING, Failure(Outcome.TLS, "ECONNRESET in the TLS handshake")),
    (ClientConnectorCertificateError(KEY, unverified("certificate has expired")), CONNECTING,
     Failure(Outcome.TLS, "certificate has expired")),
    (ClientConnectorSSLError(KEY, tls_error("WRONG_VERSION_NUMBER")), CONNECTING,
     Failure(Outcome.TLS, "TLS: WRONG_VERSION_NUMBER")),
    (caused_by(ClientOSError(1, SECRET), tls_error("CERTIFICATE_REQUIRED")), WAITING,
     Failure(Outcome.TLS, "TLS: CERTIFICATE_REQUIRED")),
    (ServerDisconnectedError(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "connection closed (waiting for headers)")),
    (ServerDisconnectedError(SECRET), CONNECTING,
     Failure(Outcome.CONNECT, "connection closed (connecting)")),
    (caused_by(ClientOSError(errno.ECONNRESET, SECRET), ConnectionResetError(errno.ECONNRESET, SECRET)),
     WAITING, Failure(Outcome.DISCONNECTED, "ECONNRESET (waiting for headers)")),
    (ClientConnectionResetError(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "connection closed (waiting for headers)")),
    (RuntimeError(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "RuntimeError (waiting for headers)")),
    (RuntimeError(SECRET), CONNECTING, Failure(Outcome.CONNECT, "no connection")),
    (ClientResponseError(REQUEST, (), status=400, message=SECRET), WAITING,
     Failure(Outcome.BAD_RESPONSE, "the answer is not valid HTTP")),
    (ClientPayloadError(SECRET), WAITING, Failure(Outcome.BAD_RESPONSE, "the answer is not valid HTTP")),
    (ValueError(SECRET), READING, Failure(Outcome.BAD_RESPONSE, "the answer is not valid HTTP")),
    (ValueError(SECRET), WAITING, Failure(Outcome.UNSENDABLE, "the request cannot be written as HTTP")),
    (InvalidURL(SECRET), RESOLVING, Failure(Outcome.UNSENDABLE, "the request cannot be written as HTTP")),
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
