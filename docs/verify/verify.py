"""Verify a webhook's signature. Pass the raw body, as bytes, before anything parses it."""

import hashlib
import hmac
import re
import time

TOLERANCE = 300  # seconds


def verify(body: bytes, header: str, secret: str) -> bool:
    """Tell whether `Service-Signature` fits the body; any one `v1` is enough (two during a rotation)."""
    pairs = [part.split("=", 1) for part in header.split(",") if "=" in part]
    stamps = [value for name, value in pairs if name == "t"]
    signatures = [value for name, value in pairs if name == "v1"]
    if len(stamps) != 1 or not re.fullmatch("[0-9]{1,12}", stamps[0]):
        return False
    if abs(time.time() - int(stamps[0])) > TOLERANCE:
        return False
    expected = hmac.new(secret.encode(), stamps[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    return any(hmac.compare_digest(expected.encode(), signature.encode()) for signature in signatures)
