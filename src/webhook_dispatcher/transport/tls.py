"""TLS with receivers: always verified, and of what they may choose only what is cheap for us.

A handshake is worked off in the event loop, so what it costs everybody waits for.
"""

import ssl
from pathlib import Path

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.transport.certificates import TellingTls

# Python's own but for DHE, whose group is the receiver's to choose: one of 10,000 bits takes 600 ms of us.
_SUITES_OF_TLS_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!SHA1:!AESCCM:!aNULL"


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Verify against the system's roots, plus those of a file. Raises ConfigurationError."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_SUITES_OF_TLS_1_2)
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
