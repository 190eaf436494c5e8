"""The one cookie: a session's token, for this site alone, out of reach of scripts.

Over https its name has the prefix __Host-: the browser then takes it from https alone, for this host and no
other. On this machine's loopback, by http, browsers would refuse that.
"""

from http.cookies import CookieError, SimpleCookie

from webhook_dispatcher.domain.account import SessionToken

MAX_COOKIE_BYTES = 4096


def name(is_https: bool) -> str:
    """Return the cookie's name."""
    return "__Host-session" if is_https else "session"


def written(token: SessionToken | None, is_https: bool) -> str:
    """Return the header that begins a session, or without a token ends it in the browser."""
    value = "" if token is None else token.revealed
    parts = [f"{name(is_https)}={value}", "Path=/", "HttpOnly", "SameSite=Strict"]
    if is_https:
        parts.append("Secure")
    if token is None:
        parts.append("Max-Age=0")
    return "; ".join(parts)


def read(header: str, is_https: bool) -> SessionToken | None:
    """Return the token that a request brought, if it is one."""
    if len(header) > MAX_COOKIE_BYTES:
        return None
    try:
        found = SimpleCookie(header).get(name(is_https))
    except CookieError:
        return None
    return None if found is None else SessionToken.parse(found.value)
