"""What one attempt's end means: from what the sender saw to the contract's outcome, and nothing else.

Pure: no I/O, no clock. The whole receiver catalogue goes through `classify`. Of what a receiver sent, nothing
comes out but its status, and the dates and names of a certificate that is refused; details for operators are
made of our own words, class names, errno names and the constant texts of OpenSSL and c-ares.
Source: contract 2.1 and 3 (`outcome`); tests/integration/test_sender_catalogue.py has every row.
"""

import errno
import ssl
from enum import StrEnum

from webhook_dispatcher.domain.verdict import Failure, Outcome
from webhook_dispatcher.transport.certificates import CertificateRefused
from webhook_dispatcher.transport.guard import Forbidden


class Phase(StrEnum):
    """How far a request came, in operators' words."""

    REACHING_PROXY = "connecting to the egress proxy"
    ASKING_PROXY = "waiting for the egress proxy"
    AWAITING_TURN = "waiting for its turn among costly receivers"
    RESOLVING = "resolving the name"
    CONNECTING = "connecting"
    HANDSHAKING = "in the TLS handshake"
    WAITING = "waiting for headers"
    READING = "reading headers"


class AttemptEnded(Exception):
    """What our own client raises for one request, beside OSError."""


class OutOfTime(AttemptEnded):
    """The attempt's deadline passed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s")


class Expired(AttemptEnded):
    """A connection was given up because its time was over; the sender knows how much that was."""


class Withheld(AttemptEnded):
    """The request might not be sent any more when it could be."""


class NameFailed(AttemptEnded):
    """There is no address to dial; caused by the resolver's OSError."""


class ConnectFailed(AttemptEnded):
    """No address could be connected to; caused by the last OSError (RuntimeError in uvloop)."""


class HandshakeFailed(AttemptEnded):
    """The connection broke before TLS was agreed upon; caused by the OSError."""


class Disconnected(ConnectionError):
    """The other side closed the connection before a final answer was complete."""


class Malformed(AttemptEnded):
    """What came is not HTTP, or too much of it."""


class Unsendable(ValueError):
    """The request cannot be written as HTTP."""


def classify(error: Exception, phase: Phase) -> Failure:
    """Turn the exception that ended an attempt into a failure. phase: how far the request came."""
    if isinstance(error, OutOfTime):
        return Failure(Outcome.TIMEOUT, f"{error} ({phase})")
    if isinstance(error, Forbidden):
        return Failure(Outcome.BLOCKED, error.reason)
    return Failure(_outcome(error, phase), words_for(error, phase))


def _outcome(error: Exception, phase: Phase) -> Outcome:
    """Map an exception to the contract's outcome; the order of the cases matters, the classes overlap."""
    match error:
        case NameFailed():
            return Outcome.DNS
        # TLS 1.3 tells only after the handshake that it wants a client certificate.
        case HandshakeFailed() | ssl.SSLError():
            return Outcome.TLS
        case ConnectFailed():
            return Outcome.CONNECT
        case Malformed():
            return Outcome.BAD_RESPONSE
        case ValueError():
            return Outcome.UNSENDABLE
        case _:
            return Outcome.DISCONNECTED if phase in (Phase.WAITING, Phase.READING) else Outcome.CONNECT


def words_for(error: Exception, phase: Phase) -> str:
    """Say what went wrong, in what is safe to show: never what the exception itself says."""
    cause = error.__cause__ if isinstance(error, (NameFailed, ConnectFailed, HandshakeFailed)) else error
    match error:
        case NameFailed():
            return (isinstance(cause, OSError) and cause.strerror) or "name cannot be looked up"
        case CertificateRefused():
            return error.words
        case ssl.SSLCertVerificationError():
            return error.verify_message
        case ssl.SSLError():
            return f"TLS: {error.reason}"
        case Malformed():
            return "the answer is not valid HTTP"
        case ValueError():
            return "the request cannot be written as HTTP"
        case ConnectFailed():
            return _named(cause) or "no connection"
        case HandshakeFailed():
            return f"{_named(cause) or 'connection closed'} {Phase.HANDSHAKING}"
        case ConnectionError() | EOFError():
            return f"{_named(cause) or 'connection closed'} ({phase})"
        case _:
            return f"{_named(cause) or type(error).__name__} ({phase})"


def _named(cause: BaseException | None) -> str | None:
    if not isinstance(cause, OSError) or cause.errno is None:
        return None
    return errno.errorcode.get(cause.errno) or f"error {cause.errno}"
