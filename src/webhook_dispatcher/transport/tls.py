"""TLS with receivers: always verified, and of what they may choose only what is cheap for us.

A handshake is worked off in the event loop, so what it costs everybody waits for.
"""

import io
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.transport.authorities import Authorities
from webhook_dispatcher.transport.certificates import TellingTls
from webhook_dispatcher.transport.costly import Cost

# By their numbers in TLS: some hundred microseconds each, where ffdhe8192 takes 95 ms of us.
# Source: RFC 8446, 4.2.7; openssl.cnf.
_GROUPS = {0x001D: "X25519", 0x0017: "P-256", 0x0018: "P-384"}
# Python can name one group alone. This is the one that all who speak TLS 1.3 have. Source: RFC 8446, 9.1.
_EVERYBODYS_GROUP = "prime256v1"

# All that a receiver may send in a handshake: as much as Java takes of its certificates alone. The dearest of
# so many bytes, a chain of a hundred certificates, takes 25 ms. Source: jdk.tls.maxHandshakeMessageSize.
_MAX_HANDSHAKE_BYTES = 32 * 1024
# A compressed certificate would be as long as OpenSSL allows. Python has no name for this of OpenSSL 3.2.
# Source: openssl/ssl.h, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION.
_NO_COMPRESSED_CERTIFICATE = 1 << 33

# Behind the heads of record and message, the version and the random bytes.
_HELLO_BEGINS = 5 + 4 + 2 + 32
_SUPPORTED_GROUPS = 10

# Python's own but for DHE, whose group is the receiver's to choose: one of 10,000 bits takes 600 ms of us.
_SUITES_OF_TLS_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!SHA1:!AESCCM:!aNULL"


_charged: ContextVar[Cost] = ContextVar("charged")


@contextmanager
def charging(cost: Cost) -> Iterator[None]:
    """Add to the cost what handshakes take on connections that are made meanwhile.

    Connections inherit the context, uvloop's from when they are made, asyncio's from when TLS begins.
    """
    token = _charged.set(cost)
    try:
        yield
    finally:
        _charged.reset(token)


class HandshakeTooLong(ssl.SSLError):
    """The receiver sent more in the handshake than is looked at."""

    reason = f"handshake of more than {_MAX_HANDSHAKE_BYTES // 1024} KiB"


class BoundedTls(TellingTls):
    """One end of a TLS connection that works off no handshake of too many bytes.

    incoming: what has come and was not looked at yet. cost: what the handshake takes is added to it.
    """

    incoming: ssl.MemoryBIO
    cost: Cost
    _handshake_bytes = 0

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises HandshakeTooLong, CertificateRefused, ssl.SSLError."""
        self._handshake_bytes += self.incoming.pending
        if self._handshake_bytes > _MAX_HANDSHAKE_BYTES:
            raise HandshakeTooLong
        began = time.thread_time()
        try:
            super().do_handshake()
        finally:
            self.cost.seconds += time.thread_time() - began


class _ReceiversContext(ssl.SSLContext):
    """Makes bounded ends."""

    sslobject_class = BoundedTls

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Let the end know what comes in, and what to charge."""
        # OpenSSL lets no wildcard stand for a name with an underscore, which DNS has and other clients serve.
        has_underscore = isinstance(server_hostname, str) and "_" in server_hostname
        try:
            self.check_hostname = not has_underscore
            tls = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        finally:
            self.check_hostname = True
        assert isinstance(tls, BoundedTls)
        if has_underscore:
            tls.unmatched_host = str(server_hostname).lower()
        tls.incoming, tls.cost = incoming, _charged.get(Cost())
        return tls


def authorities(ca_file: Path | None) -> Authorities:
    """Verify receivers against the system's roots, plus those of a file. Raises ConfigurationError."""
    try:
        return Authorities(_receivers_context, ca_file)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"WEBHOOK_EGRESS_CA_FILE: {str(ca_file)!r} is not a readable PEM file of certificates"
        ) from error


def _receivers_context() -> ssl.SSLContext:
    # Not create_default_context: it has other flags from Python 3.13 on, and the same certificates are to be
    # accepted on all.
    context = _ReceiversContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_SUITES_OF_TLS_1_2)
    _limit_groups(context)
    # A receiver of TLS 1.2 could otherwise ask for one handshake after the other on a connection.
    context.options |= ssl.OP_NO_RENEGOTIATION | _NO_COMPRESSED_CERTIFICATE
    context.hostname_checks_common_name = False  # Source: RFC 9525, 2.
    context.set_alpn_protocols(["http/1.1"])
    return context


def lacking_groups() -> Sequence[str]:
    """Name the groups that receivers are not offered, because OpenSSL was started without openssl.cnf."""
    context = _ReceiversContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit_groups(context)
    offered = set(_offered_groups(context))
    return [name for number, name in _GROUPS.items() if number not in offered]


def _limit_groups(context: ssl.SSLContext) -> None:
    """Offer one group alone where OpenSSL, as it was started, would offer others than ours."""
    if not _GROUPS.keys() >= set(_offered_groups(context)):
        context.set_ecdh_curve(_EVERYBODYS_GROUP)


def _offered_groups(context: ssl.SSLContext) -> Iterator[int]:
    """Read in a ClientHello what no function tells before Python 3.15. Source: RFC 8446, 4.1.2, 4.2.7."""
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="receiver.invalid").do_handshake()
    hello = io.BytesIO(sent.read())
    hello.seek(_HELLO_BEGINS)
    for bytes_of_length in (1, 2, 1):  # the session's id, suites, compression
        _vector(hello, bytes_of_length)
    extensions = io.BytesIO(_vector(hello, 2))
    while kind := extensions.read(2):
        extension = io.BytesIO(_vector(extensions, 2))
        if int.from_bytes(kind) == _SUPPORTED_GROUPS:
            groups = io.BytesIO(_vector(extension, 2))
            while group := groups.read(2):
                yield int.from_bytes(group)


def _vector(data: io.BytesIO, bytes_of_length: int) -> bytes:
    return data.read(int.from_bytes(data.read(bytes_of_length)))
