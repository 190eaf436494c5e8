"""Verify a webhook's signature. Pass the raw body, as bytes, before anything parses it."""

import hashlib
import hmac
import re
import time

TOLERANCE = 300  # seconds


def refusal(body: bytes, header: str | None, secret: str) -> int | None:
    """Return the status to refuse an event with, or None to accept it: 401 wrong signature, 400 stale.

    header: `Service-Signature`; any one `v1` is enough (two during a rotation).
    """
    parts = [part.strip() for part in header.split(",")] if isinstance(header, str) else []
    stamps = [part[2:] for part in parts if part.startswith("t=")]
    signatures = [part[3:] for part in parts if re.fullmatch("v1=[0-9a-f]{64}", part)]
    if len(stamps) != 1 or not re.fullmatch("[0-9]{1,12}", stamps[0]):
        return 401
    expected = hmac.new(secret.encode(), stamps[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    if not any(hmac.compare_digest(expected, signature) for signature in signatures):
        return 401
    return 400 if abs(time.time() - int(stamps[0])) > TOLERANCE else None
