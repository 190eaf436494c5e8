"""What each end of an attempt means: the verdicts on everything the sender can see, without a wire."""

import errno
import ssl

import pytest
from aiohttp import (
    ClientConnectionResetError,
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientOSError,
    ClientPayloadError,
    ClientResponseError,
    InvalidURL,
    RequestInfo,
    ServerDisconnectedError,
)
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import Forbidden
from webhook_dispatcher.transport.reading import OutOfTime, Phase, read

SECRET = "what the receiver sent"
REQUEST = RequestInfo(URL("https://hooks.example.org/"), "POST", CIMultiDictProxy(CIMultiDict()))
KEY = ConnectionKey("hooks.example.org", 443, True, True, None, None, None)
RESOLVING, CONNECTING, WAITING, READING = Phase.RESOLVING, Phase.CONNECTING, Phase.WAITING, Phase.READING


def unverified(words: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, SECRET)
    error.verify_message = words
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
    (200, WAITING, Answer(200)),
    (299, WAITING, Answer(299)),
    (302, WAITING, Answer(302)),
    (0, WAITING, Answer(0)),
    (999, WAITING, Answer(999)),
    (OutOfTime(10), RESOLVING, Failure(Outcome.TIMEOUT, "no answer within 10 s: resolving the name")),
    (OutOfTime(0.5), CONNECTING, Failure(Outcome.TIMEOUT, "no answer within 0.5 s: connecting")),
    (OutOfTime(10), WAITING, Failure(Outcome.TIMEOUT, "no answer within 10 s: waiting for the answer")),
    (OutOfTime(10), READING, Failure(Outcome.TIMEOUT, "no answer within 10 s: reading the answer")),
    (Forbidden("not public"), RESOLVING, Failure(Outcome.BLOCKED, "not public")),
    (ClientConnectorDNSError(KEY, OSError(None, "Domain name not found")), RESOLVING,
     Failure(Outcome.DNS, "ClientConnectorDNSError: Domain name not found")),
    (connector_error(errno.ECONNREFUSED), CONNECTING,
     Failure(Outcome.CONNECT, "ClientConnectorError: ECONNREFUSED")),
    (connector_error(errno.ETIMEDOUT), CONNECTING,
     Failure(Outcome.CONNECT, "ClientConnectorError: ETIMEDOUT")),
    (connector_error(errno.ECONNRESET), CONNECTING, Failure(Outcome.TLS, "ClientConnectorError: ECONNRESET")),
    (connector_error(errno.ECONNABORTED), CONNECTING,
     Failure(Outcome.TLS, "ClientConnectorError: ECONNABORTED")),
    (ClientConnectorCertificateError(KEY, unverified("certificate has expired")), CONNECTING,
     Failure(Outcome.TLS, "ClientConnectorCertificateError: certificate has expired")),
    (ClientConnectorSSLError(KEY, tls_error("WRONG_VERSION_NUMBER")), CONNECTING,
     Failure(Outcome.TLS, "ClientConnectorSSLError: WRONG_VERSION_NUMBER")),
    (tls_error("BAD_RECORD_TYPE"), WAITING, Failure(Outcome.TLS, "SSLError: BAD_RECORD_TYPE")),
    (caused_by(ClientOSError(1, SECRET), tls_error("CERTIFICATE_REQUIRED")), WAITING,
     Failure(Outcome.TLS, "ClientOSError: CERTIFICATE_REQUIRED")),
    (ServerDisconnectedError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "ServerDisconnectedError")),
    (ServerDisconnectedError(SECRET), READING, Failure(Outcome.DISCONNECTED, "ServerDisconnectedError")),
    (ServerDisconnectedError(SECRET), CONNECTING, Failure(Outcome.CONNECT, "ServerDisconnectedError")),
    (ClientOSError(errno.ECONNRESET, SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "ClientOSError: ECONNRESET")),
    (ClientConnectionResetError(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "ClientConnectionResetError")),
    (ConnectionResetError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "ConnectionResetError")),
    (TimeoutError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "TimeoutError")),
    (EOFError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "EOFError")),
    (RuntimeError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "RuntimeError")),
    (RuntimeError(SECRET), CONNECTING, Failure(Outcome.CONNECT, "RuntimeError")),
    (ClientResponseError(REQUEST, (), status=400, message=SECRET), WAITING,
     Failure(Outcome.BAD_RESPONSE, "ClientResponseError")),
    (ClientPayloadError(SECRET), WAITING, Failure(Outcome.BAD_RESPONSE, "ClientPayloadError")),
    (ValueError(SECRET), READING, Failure(Outcome.BAD_RESPONSE, "ValueError")),
    (ValueError(SECRET), WAITING, Failure(Outcome.UNSENDABLE, "ValueError")),
    (ValueError(SECRET), CONNECTING, Failure(Outcome.UNSENDABLE, "ValueError")),
    (InvalidURL(SECRET), RESOLVING, Failure(Outcome.UNSENDABLE, "InvalidURL")),
]
# fmt: on


@pytest.mark.parametrize(("sight", "phase", "shown"), READINGS)
def test_what_is_seen_has_one_meaning(sight: int | Exception, phase: Phase, shown: Answer | Failure) -> None:
    assert read(sight, phase) == shown


@pytest.mark.parametrize(("sight", "phase", "shown"), READINGS)
def test_a_refused_dial_explains_every_failure_but_the_deadlines(
    sight: int | Exception, phase: Phase, shown: Answer | Failure
) -> None:
    if isinstance(sight, int | OutOfTime | Forbidden):
        assert read(sight, phase, "refused") == shown
    else:
        assert read(sight, phase, "refused") == Failure(Outcome.BLOCKED, "refused")


@given(st.integers())
def test_a_status_is_delivered_in_the_two_hundreds_and_nowhere_else(status: int) -> None:
    assert (read(status, WAITING).outcome is Outcome.DELIVERED) == (200 <= status <= 299)
