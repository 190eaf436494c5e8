"""The dearest connection that a receiver can choose and is still served on (security/not-covered.md)."""

import ssl
from collections.abc import Sequence
from pathlib import Path

import trustme

CHAIN_BYTES = 31_500
"""Of a handshake's certificates; behind 32 KiB it is given up (transport/tls.py)."""
CERTIFICATE_BYTES = 520
"""What one takes, at most, beside the names in it."""
HEADERS = 990
"""Of an answer, whose head is refused behind 1,000 (transport/parsing.py)."""
HEADER_BYTES = 250
"""Each; together nearly 256 KiB, behind which a head is refused."""


def dear_context(ca_file: Path, names: Sequence[str]) -> ssl.SSLContext:
    """Make a server's context with a long chain of certificates, and add its authority to those in a file."""
    links = (CHAIN_BYTES - sum(len(name) + 2 for name in names)) // CERTIFICATE_BYTES
    authority = trustme.CA(path_length=links)
    with ca_file.open("ab") as file:
        file.write(authority.cert_pem.bytes())
    for _ in range(links):
        authority = authority.create_child_ca()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def choosing(names: Sequence[str], theirs: ssl.SSLContext, others: ssl.SSLContext) -> ssl.SSLContext:
    """Make a server's context that is one for some names, and another for all others."""

    def choose(connection: ssl.SSLObject, name: str, _: ssl.SSLContext) -> None:
        connection.context = theirs if name in names else others

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = choose
    return context


def dear_headers() -> bytes:
    """Return headers of an answer, as many and as large as they may be."""
    filling = b"x" * (HEADER_BYTES - len(b"X-000: \r\n"))
    return b"".join(b"X-%03d: %s\r\n" % (number, filling) for number in range(HEADERS))
