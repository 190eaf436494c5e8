"""The signature header.

Source: contract 1; the scheme is Stripe's (`t=<unix seconds>,v1=<hex>`, HMAC-SHA256 over `t.body`).
"""

import hashlib
import hmac

from webhook_dispatcher.domain.endpoint import Secret

_BLOCK_BYTES = 64


def signature(body: bytes, secrets: tuple[Secret, ...], unix_seconds: int) -> str:
    """Sign a body with every valid secret, newest first."""
    stamp = str(unix_seconds)
    signed = stamp.encode() + b"." + body
    parts = [f"t={stamp}"]
    parts += [f"v1={hmac.digest(secret.reveal(), signed, hashlib.sha256).hex()}" for secret in secrets]
    return ",".join(parts)


def is_signed(body: bytes, header: str, secrets: tuple[Secret, ...]) -> bool:
    """Tell whether a header signs a body with every secret: by the definition, not by what signs."""
    stamp, *signatures = header.split(",")
    signed = stamp.removeprefix("t=").encode() + b"." + body
    return signatures == [f"v1={_hmac_sha256(secret.reveal(), signed)}" for secret in secrets]


def _hmac_sha256(key: bytes, text: bytes) -> str:
    """Return what RFC 2104 says, without the library that signs."""
    if len(key) > _BLOCK_BYTES:
        key = hashlib.sha256(key).digest()
    key = key.ljust(_BLOCK_BYTES, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + text).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest()
