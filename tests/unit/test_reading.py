"""What each end of an attempt means: the verdicts on everything the sender can see, without a wire."""

import errno
import ssl

import pytest

from webhook_dispatcher.domain.verdict import Failure, Outcome
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

SECRET = "what the receiver sent"
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


def failed(number: int) -> Exception:
    return caused_by(ConnectFailed(), OSError(number, SECRET))


# fmt: off
READINGS = [
    (OutOfTime(10), RESOLVING, Failure(Outcome.TIMEOUT, "no answer within 10 s: resolving the name")),
    (OutOfTime(0.5), CONNECTING, Failure(Outcome.TIMEOUT, "no answer within 0.5 s: connecting")),
    (OutOfTime(10), WAITING, Failure(Outcome.TIMEOUT, "no answer within 10 s: waiting for the answer")),
    (OutOfTime(10), READING, Failure(Outcome.TIMEOUT, "no answer within 10 s: reading the answer")),
    (Forbidden("not public"), RESOLVING, Failure(Outcome.BLOCKED, "not public")),
    (caused_by(NameFailed(), OSError(None, "Domain name not found")), RESOLVING,
     Failure(Outcome.DNS, "NameFailed: Domain name not found")),
    (failed(errno.ECONNREFUSED), CONNECTING, Failure(Outcome.CONNECT, "ConnectFailed: ECONNREFUSED")),
    (failed(errno.ETIMEDOUT), CONNECTING, Failure(Outcome.CONNECT, "ConnectFailed: ETIMEDOUT")),
    (caused_by(ConnectFailed(), RuntimeError(SECRET)), CONNECTING, Failure(Outcome.CONNECT, "ConnectFailed")),
    (caused_by(HandshakeFailed(), ConnectionResetError(errno.ECONNRESET, SECRET)), CONNECTING,
     Failure(Outcome.TLS, "HandshakeFailed: ECONNRESET")),
    (caused_by(HandshakeFailed(), ConnectionAbortedError(SECRET)), CONNECTING,
     Failure(Outcome.TLS, "HandshakeFailed")),
    (unverified("certificate has expired"), CONNECTING,
     Failure(Outcome.TLS, "SSLCertVerificationError: certificate has expired")),
    (tls_error("WRONG_VERSION_NUMBER"), CONNECTING, Failure(Outcome.TLS, "SSLError: WRONG_VERSION_NUMBER")),
    (tls_error("BAD_RECORD_TYPE"), WAITING, Failure(Outcome.TLS, "SSLError: BAD_RECORD_TYPE")),
    (tls_error("CERTIFICATE_REQUIRED"), WAITING, Failure(Outcome.TLS, "SSLError: CERTIFICATE_REQUIRED")),
    (Disconnected(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "Disconnected")),
    (Disconnected(SECRET), READING, Failure(Outcome.DISCONNECTED, "Disconnected")),
    (Disconnected(SECRET), CONNECTING, Failure(Outcome.CONNECT, "Disconnected")),
    (ConnectionResetError(errno.ECONNRESET, SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "ConnectionResetError: ECONNRESET")),
    (ConnectionResetError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "ConnectionResetError")),
    (TimeoutError(errno.ETIMEDOUT, SECRET), WAITING,
     Failure(Outcome.DISCONNECTED, "TimeoutError: ETIMEDOUT")),
    (TimeoutError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "TimeoutError")),
    (EOFError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "EOFError")),
    (RuntimeError(SECRET), WAITING, Failure(Outcome.DISCONNECTED, "RuntimeError")),
    (RuntimeError(SECRET), CONNECTING, Failure(Outcome.CONNECT, "RuntimeError")),
    (Malformed(SECRET), READING, Failure(Outcome.BAD_RESPONSE, "Malformed")),
    (Unsendable(SECRET), RESOLVING, Failure(Outcome.UNSENDABLE, "Unsendable")),
    (ValueError(SECRET), RESOLVING, Failure(Outcome.UNSENDABLE, "ValueError")),
    (UnicodeEncodeError("utf-8", SECRET, 0, 1, SECRET), RESOLVING,
     Failure(Outcome.UNSENDABLE, "UnicodeEncodeError")),
]
# fmt: on


@pytest.mark.parametrize(("sight", "phase", "shown"), READINGS)
def test_what_is_seen_has_one_meaning(sight: Exception, phase: Phase, shown: Failure) -> None:
    assert classify(sight, phase) == shown
