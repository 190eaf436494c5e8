"""What one attempt's end means: from what the sender saw to the contract's outcome, and nothing else.

Pure: no I/O, no clock. The whole receiver catalogue goes through `read`. Of what a receiver sent, nothing
comes out but its status; details for operators are made of our own words, class names, errno names and the
constant texts of OpenSSL and c-ares.
Source: contract 2.1 and 3 (`outcome`); tests/integration/test_sender_catalogue.py has every row.
"""

import errno
import ssl
from enum import StrEnum

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientOSError,
    ClientPayloadError,
    ClientResponseError,
    ServerDisconnectedError,
)

from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import Forbidden


class Phase(StrEnum):
    """How far a request came, in operators' words."""

    REACHING_PROXY = "connecting to the egress proxy"
    ASKING_PROXY = "waiting for the egress proxy"
    RESOLVING = "resolving the name"
    CONNECTING = "connecting"
    WAITING = "waiting for the answer"
    READING = "reading the answer"


class OutOfTime(Exception):
    """The attempt's deadline passed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s")


def read(sight: int | Exception, phase: Phase, refused: str | None = None) -> Answer | Failure:
    """Say what an attempt showed.

    sight: the status of an answer whose headers were complete, or what was raised instead.
    refused: why the egress policy refused an address that was about to be dialled.
    """
    if isinstance(sight, int):
        return Answer(sight)
    if isinstance(sight, OutOfTime):
        return Failure(Outcome.TIMEOUT, f"{sight}: {phase}")
    if isinstance(sight, Forbidden):
        return Failure(Outcome.BLOCKED, sight.reason)
    if refused is not None:
        return Failure(Outcome.BLOCKED, refused)
    return Failure(_outcome(sight, phase), f"{type(sight).__name__}{_own_words(sight)}")


def _outcome(error: Exception, phase: Phase) -> Outcome:
    """Map an exception to the contract's outcome; the order of the cases matters, the classes overlap."""
    match error:
        case ClientConnectorDNSError():
            return Outcome.DNS
        case ClientConnectorCertificateError() | ClientConnectorSSLError() | ssl.SSLError():
            return Outcome.TLS
        case ClientConnectorError(os_error=ConnectionResetError() | ConnectionAbortedError()):
            # A refused SYN is ECONNREFUSED; a reset on the way to a connection is the handshake's.
            return Outcome.TLS
        case ClientConnectorError():
            return Outcome.CONNECT
        case ClientOSError() if isinstance(error.__cause__, ssl.SSLError):
            # TLS 1.3 tells that it wants a client certificate after the handshake.
            return Outcome.TLS
        # ClientResponseError.status is aiohttp's own 400 for a malformed answer: never the receiver's.
        case ClientResponseError() | ClientPayloadError():
            return Outcome.BAD_RESPONSE
        case ServerDisconnectedError() | ClientOSError() | ConnectionError():
            return _cut_off(phase)
        case ValueError() if phase is Phase.READING:
            return Outcome.BAD_RESPONSE
        case ValueError():
            return Outcome.UNSENDABLE
        case _:
            return _cut_off(phase)


def _cut_off(phase: Phase) -> Outcome:
    return Outcome.DISCONNECTED if phase in (Phase.WAITING, Phase.READING) else Outcome.CONNECT


def _own_words(error: Exception) -> str:
    """Add what is safe to show: errno names, OpenSSL's and c-ares' constant texts."""
    cause: BaseException | None = error
    if isinstance(error, ClientConnectorCertificateError):
        cause = error.certificate_error
    elif isinstance(error, ClientConnectorError):
        cause = error.os_error
    elif isinstance(error.__cause__, ssl.SSLError):
        cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f": {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f": {cause.reason}"
    if isinstance(error, ClientConnectorDNSError):
        return f": {error.os_error.strerror}"
    if isinstance(cause, OSError) and cause.errno is not None:
        return f": {errno.errorcode.get(cause.errno, cause.errno)}"
    return ""
