"""TLS with receivers: always verified, and of what they may choose only what is cheap for us.

A handshake is worked off in the event loop, so what it costs everybody waits for.
"""

import io
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.transport.certificates import TellingTls

# By their numbers in TLS: some hundred microseconds each, where ffdhe8192 takes 95 ms of us.
# Source: RFC 8446, 4.2.7; openssl.cnf.
_GROUPS = {0x001D: "X25519", 0x0017: "P-256", 0x0018: "P-384"}
# Python can name one group alone. This is the one that all who speak TLS 1.3 have. Source: RFC 8446, 9.1.
_EVERYBODYS_GROUP = "prime256v1"

# Behind the heads of record and message, the version and the random bytes.
_HELLO_BEGINS = 5 + 4 + 2 + 32
_SUPPORTED_GROUPS = 10

# Python's own but for DHE, whose group is the receiver's to choose: one of 10,000 bits takes 600 ms of us.
_SUITES_OF_TLS_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!SHA1:!AESCCM:!aNULL"


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Verify against the system's roots, plus those of a file. Raises ConfigurationError."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_SUITES_OF_TLS_1_2)
    _limit_groups(context)
    # A receiver of TLS 1.2 could otherwise ask for one handshake after the other on a connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.hostname_checks_common_name = False  # Source: RFC 9525, 2.
    # The same certificates are accepted on every Python: from 3.13 on the default is stricter.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.sslobject_class = TellingTls
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"WEBHOOK_EGRESS_CA_FILE: {str(ca_file)!r} is not a readable PEM file of certificates"
            ) from error
    return context


def lacking_groups() -> Sequence[str]:
    """Name the groups that receivers are not offered, because OpenSSL was started without openssl.cnf."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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
