"""What protects the person who uses a browser: headers of every answer, and the check of each change.

A change is taken if the browser says that a page of ours asked for it (Sec-Fetch-Site, or where a browser has
no such header, Origin), and if its form holds the token that only pages of this session have.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from webhook_dispatcher.domain.account import SessionToken

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        "Cache-Control": "no-store",
    }
)
"""Of every answer, whatever it is; only static files, which are the same for everybody, may be kept.

With no-referrer browsers send `Origin: null` with our own forms, and where they have no Sec-Fetch-Site these
would be refused. Source: Fetch standard, "append a request `Origin` header".
"""
KEPT = "public, max-age=31536000, immutable"
HTTPS_ALONE = "max-age=31536000"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_FORM_TOKEN = b"webhook-dispatcher console form"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


def form_token(token: SessionToken) -> str:
    """Return what each form of a session holds: whoever does not know the cookie cannot compute it."""
    return hmac.new(token.revealed.encode(), _FORM_TOKEN, hashlib.sha256).hexdigest()


def is_form_token(token: SessionToken, text: str) -> bool:
    """Tell whether a form is one of this session's."""
    return hmac.compare_digest(form_token(token).encode(), text.encode("utf-8", "replace"))


def is_ours(fetch_site: str | None, origin: str | None, host: str) -> bool:
    """Tell whether one of our own pages asked, by what the browser says of it; host: as it was asked for."""
    if fetch_site is not None:
        return fetch_site == "same-origin"
    return origin is not None and urlsplit(origin).netloc.lower() == host.lower()


def is_known_host(host: str, public_origin: str | None) -> bool:
    """Tell whether a host is ours: the public one; without one, this machine by whatever port.

    A request by another name is refused: somebody's page may have had its name point here (DNS rebinding).
    """
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    if public_origin is None:
        return match[1].lower() in LOOPBACK
    return host.lower() == urlsplit(public_origin).netloc.lower()


def headers(is_kept: bool, is_https: bool) -> dict[str, str]:
    """Return the headers of an answer. is_kept: a static file, which is kept by its name."""
    found = dict(HEADERS)
    if is_kept:
        found["Cache-Control"] = KEPT
    if is_https:
        found["Strict-Transport-Security"] = HTTPS_ALONE
    return found
