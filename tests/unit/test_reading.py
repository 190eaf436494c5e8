"""What each end of an attempt means: the verdicts on everything the sender can see, without a wire."""

import errno

import pytest

from tests.unit.fakes.network import SECRET, caused_by, tls_error, unverified
from webhook_dispatcher.domain.verdict import Failure, Outcome
from webhook_dispatcher.transport.certificates import CertificateRefused
from webhook_dispatcher.transport.failures import (
    ConnectFailed,
    Disconnected,
    HandshakeFailed,
    Malformed,
    NameFailed,
    OutOfTime,
    Phase,
    Unsendable,
    classify,
)
from webhook_dispatcher.transport.guard import Forbidden

RESOLVING, CONNECTING, WAITING, READING = Phase.RESOLVING, Phase.CONNECTING, Phase.WAITING, Phase.READING
HANDSHAKING = Phase.HANDSHAKING
NOT_HTTP = "the request cannot be written as HTTP"


def failed(number: int) -> Exception:
    return caused_by(ConnectFailed(), OSError(number, SECRET))


# fmt: off
READINGS = [
    (OutOfTime(10), RESOLVING, Failure(Outcome.TIMEOUT, "no answer within 10 s (resolving the name)")),
    (OutOfTime(0.5), CONNECTING, Failure(Outcome.TIMEOUT, "no answer within 0.5 s (connecting)")),
    (OutOfTime(10), HANDSHAKING, Failure(Outcome.TIMEOUT, "no answer within 10 s (in the TLS handshake)")),
    (OutOfTime(10), WAITING, Failure(Outcome.TIMEOUT, "no answer within 10 s (waiting for headers)")),
    (OutOfTime(10), READING, Failure(Outcome.TIMEOUT, "no answer within 10 s (reading headers)")),
    (Forbidden("not public"), RESOLVING, Failure(Outcome.BLOCKED, "not public")),
    (caused_by(NameFailed(), OSError(None, "name does not exist")), RESOLVING,
     Failure(Outcome.DNS, "name does not exist")),
    (NameFailed(SECRET), RESOLVING, Failure(Outcome.DNS, "name cannot be looked up")),
    (failed(errno.ECONNREFUSED), CONNECTING, Failure(Outcome.CONNECT, "ECONNREFUSED")),
    (caused_by(ConnectFailed(), RuntimeError(SECRET)), CONNECTING, Failure(Outcome.CONNECT, "no connection")),
    (caused_by(HandshakeFailed(), ConnectionResetError(errno.ECONNRESET, SECRET)), CONNECTING,
     Failure(Outcome.TLS, "ECONNRESET in the TLS handshake")),
    (caused_by(HandshakeFailed(), ConnectionAbortedError(SECRET)), CONNECTING,
     Failure(Outcome.TLS, "connection closed in the TLS handshake")),
    (CertificateRefused("certificate expired on 2026-11-01"), HANDSHAKING,
     Failure(Outcome.TLS, "certificate expired on 2026-11-01")),
    (unverified("certificate has expired"), CONNECTING,
     Failure(Outcome.TLS, "certificate has expired")),
    (tls_error("WRONG_VERSION_NUMBER"), CONNECTING, Failure(Outcome.TLS, "TLS: WRONG_VERSION_NUMBER")),
    (tls_error("CERTIFICATE_REQUIRED"), WAITING, Failure(Outcome.TLS, "TLS: CERTIFICATE_REQUIRED")),
    (Disconnected(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "connection closed (waiting for headers)")),
    (Disconnected(SECRET), CONNECTING, Failure(Outcome.CONNECT, "connection closed (connecting)")),
    (ConnectionResetError(errno.ECONNRESET, SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "ECONNRESET (waiting for headers)")),
    (ConnectionResetError(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "connection closed (waiting for headers)")),
    (TimeoutError(errno.ETIMEDOUT, SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "ETIMEDOUT (waiting for headers)")),
    (TimeoutError(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "TimeoutError (waiting for headers)")),
    (EOFError(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "connection closed (waiting for headers)")),
    (RuntimeError(SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "RuntimeError (waiting for headers)")),
    (RuntimeError(SECRET), CONNECTING, Failure(Outcome.CONNECT, "RuntimeError (connecting)")),
    (Malformed(SECRET), READING, Failure(Outcome.BAD_RESPONSE, "the answer is not valid HTTP")),
    (Unsendable(SECRET), RESOLVING, Failure(Outcome.UNSENDABLE, NOT_HTTP)),
    (ValueError(SECRET), RESOLVING, Failure(Outcome.UNSENDABLE, NOT_HTTP)),
    (UnicodeEncodeError("utf-8", SECRET, 0, 1, SECRET), RESOLVING,
     Failure(Outcome.UNSENDABLE, NOT_HTTP)),
]
# fmt: on


@pytest.mark.parametrize(("sight", "phase", "shown"), READINGS)
def test_what_is_seen_has_one_meaning(sight: Exception, phase: Phase, shown: Failure) -> None:
    assert classify(sight, phase) == shown
