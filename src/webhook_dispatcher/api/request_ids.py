"""The ids of a request: the one by which support finds it, and one that no two requests share.

The first is the client's own, if it is fit to be logged; a client may give many requests the same one.
"""

import os
import re

HEADER = "x-request-id"

_FIT = re.compile(r"[A-Za-z0-9._~-]{1,128}")


def choose(header: str | None) -> str:
    """Return the client's id, or a new one."""
    return header if header is not None and _FIT.fullmatch(header) else _new_uuid()


def _new_uuid() -> str:
    """Return a random UUID (RFC 9562, 5.4): a fifth of what the library's object costs."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def new_trace() -> str:
    """Return an id of ours, in the form of a trace id of W3C Trace Context, which tools for logs know."""
    return os.urandom(16).hex()
