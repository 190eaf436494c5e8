"""The signature header.

Source: contract 1; the scheme is Stripe's (`t=<unix seconds>,v1=<hex>`, HMAC-SHA256 over `t.body`).
"""

import hashlib
import hmac

from webhook_dispatcher.domain.endpoint import Secret


def signature(body: bytes, secrets: tuple[Secret, ...], unix_seconds: int) -> str:
    """Sign a body with every valid secret, newest first."""
    stamp = str(unix_seconds)
    signed = stamp.encode() + b"." + body
    parts = [f"t={stamp}"]
    parts += [f"v1={hmac.digest(secret.reveal(), signed, hashlib.sha256).hex()}" for secret in secrets]
    return ",".join(parts)
