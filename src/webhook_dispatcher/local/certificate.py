"""A certificate authority made on the spot, and its certificate, mostly for this machine's loopback names."""

import ssl
from collections.abc import Sequence
from pathlib import Path

from webhook_dispatcher.domain.errors import ConfigurationError

NAMES = ("127.0.0.1", "localhost", "::1")


def server_context(ca_file: Path, names: Sequence[str] = NAMES) -> ssl.SSLContext:
    """Make a server's TLS context, and write the authority that clients must trust to a file."""
    try:
        import trustme
    except ImportError:
        raise ConfigurationError(
            "certificates are made with trustme: pip install 'webhook-dispatcher[local]'"
        ) from None
    authority = trustme.CA(organization_name="webhook-dispatcher, local use only")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    authority.cert_pem.write_to_path(str(ca_file))
    return context
