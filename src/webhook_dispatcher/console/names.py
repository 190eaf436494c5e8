"""Merchants' ids in paths, which hold whatever printable characters somebody chose.

Browsers and proxies change what stands in a path: `..` and its encoded forms go up, `%2F` may become a slash.
So an id is written as it is where it is plain, and otherwise as `~` and its base64.
"""

import base64
import binascii
import re

from webhook_dispatcher.domain.lane import merchant_of

MAX_ID_LENGTH = 128
SEGMENT = r"[A-Za-z0-9._~$-]{1,800}"
"""What a parameter of a path may be."""
_PLAIN = re.compile(r"[A-Za-z0-9_$-][A-Za-z0-9_$.-]{0,127}")


def written(merchant_id: str) -> str:
    """Return an id as a part of a path."""
    if _PLAIN.fullmatch(merchant_id):
        return merchant_id
    return "~" + base64.urlsafe_b64encode(merchant_id.encode("utf-8", "replace")).rstrip(b"=").decode()


def read(part: str) -> str | None:
    """Return the id that a part of a path stands for; None: it is none that `written` returns."""
    if _PLAIN.fullmatch(part):
        return part
    if not part.startswith("~") or len(part) > MAX_ID_LENGTH * 6:
        return None
    try:
        text = base64.b64decode(part[1:] + "=" * (-len(part[1:]) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    is_id = 1 <= len(text) <= MAX_ID_LENGTH and merchant_of(text) == text
    return text if is_id and written(text) == part else None
