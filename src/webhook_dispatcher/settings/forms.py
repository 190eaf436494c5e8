"""The form of each kind of setting: text in, checked value out; ValueError says what would be right.

Values that are of the field's own type already pass, so that a program can make settings without text.
"""

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import PlainValidator, SecretStr

from webhook_dispatcher.domain.duration import parse_duration, render_duration
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.signing import Keyring
from webhook_dispatcher.storage import link
from webhook_dispatcher.telemetry.address import split_address

MAX_RETRIES = 20
MAX_PROCESSES = 64
OPTIONS_WITH_AT = ("user", "password", "application_name")
"""Options of a database URL whose values may hold an @."""
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})?(\.[a-z0-9_]([a-z0-9_-]{0,62})?)*")

T = TypeVar("T")
Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Form(PlainValidator):
    """How a value is read from its text; `shape` says to people what the text may be."""

    shape: str = ""


def text(parse: Callable[[str], Any], shape: str) -> Form:
    """Parse what comes as text; values of the field's own type pass."""
    return Form(lambda value: parse(value.strip()) if isinstance(value, str) else value, shape=shape)


def listed(parse: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Parse what stands between commas."""
    return lambda text: tuple(parse(part.strip()) for part in text.split(","))


def duration(shortest: str, longest: str) -> Form:
    """Read an ISO 8601 duration between two others."""
    low, high = parse_duration(shortest), parse_duration(longest)

    def check(value: Any) -> timedelta:
        duration = parse_duration(value.strip()) if isinstance(value, str) else value
        if not isinstance(duration, timedelta) or not low <= duration <= high:
            raise ValueError(f"must be from {shortest} to {longest}")
        return duration

    return Form(check, shape=f"duration from `{shortest}` to `{longest}`")


def whole_number(low: int, high: int, *words: str) -> Form:
    """Read a whole number between two others, or one of some words."""
    right = ", or ".join([f"from {low} to {high}", *words])

    def check(value: Any) -> int | str:
        given = str(value).strip().lower()
        if given in words:
            return given
        if not re.fullmatch(r"[0-9]{1,9}", given) or not low <= int(given) <= high:
            raise ValueError(f"must be a whole number {right}, not {value!r}")
        return int(given)

    shape = ", or ".join([f"whole number from {low:,} to {high:,}", *(f"`{word}`" for word in words)])
    return Form(check, shape=shape)


def share(text: str) -> float:
    """Read a decimal fraction from 0 to 1."""
    if not re.fullmatch(r"(0|1)(\.[0-9]{1,9})?", text) or float(text) > 1:
        raise ValueError(f"must be a number from 0 to 1, such as 0.01, not {text!r}")
    return float(text)


def choice(*choices: str) -> Form:
    """Read one of a few words."""

    def check(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {text!r}")
        return text.lower()

    *others, last = (f"`{word}`" for word in choices)
    return text(check, f"{', '.join(others)} or {last}")


def boolean(text: str) -> bool:
    """Read true or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {text!r}")
    return text.lower() == "true"


def database_url(text: str) -> SecretStr:
    """Check the form without ever quoting the value: it holds a password."""
    right = "must be of the form postgresql://user:password@host:port/database"
    if (character := unescaped(text)) is not None:
        escape = f"%{ord(character):02X}"
        raise ValueError(f"{right}: user and password are percent-encoded, write {character} as {escape}")
    try:
        parts = urlsplit(text)
        complete = parts.scheme in ("postgresql", "postgres") and text[len(parts.scheme) :].startswith("://")
        ports = [urlsplit(f"//{host}").port for host in parts.netloc.rpartition("@")[2].split(",")]
        if not complete or 0 in ports or re.search(r"[\s\x00-\x1f]", text):
            raise ValueError
    except ValueError:
        raise ValueError(f"{right}, special characters in the password percent-encoded") from None
    return SecretStr(text)


def unescaped(url: str) -> str | None:
    """Return a character that ends the user or the password of a URL before its end, or None.

    What is behind it would be taken for a host or a database: asked for at the name server, and shown.
    """
    rest = url.partition("://")[2]
    authority, mark, behind = _cut(rest, "/?#")
    path, _, query = _cut(mark + behind, "?")
    if "#" in rest:
        return "#"
    if re.search("%(?![0-9A-Fa-f]{2})", rest):
        return "%"
    if authority.count("@") > 1:
        return "@"
    if ":" in authority and "@" not in authority and _has_strange_at(query):
        return mark  # a password of digits that looks like a port
    # Behind the authority there is an @ in the values of options alone.
    return mark if "@" in path + _cut(query, "=")[0] else None


def _has_strange_at(query: str) -> bool:
    """Tell whether an option has an @ that nobody writes there: it is in front of the host, then."""
    options = (option.partition("=") for option in query.split("&"))
    return any("@" in value for name, _, value in options if name not in OPTIONS_WITH_AT)


def _cut(text: str, marks: str) -> tuple[str, str, str]:
    """Cut a text at the first of several characters: what is before it, the character, what is behind."""
    found = re.search(f"[{re.escape(marks)}]", text)
    at, end = found.span() if found else (len(text), len(text))
    return text[:at], text[at:end], text[end:]


def secret_keys(text: str) -> SecretStr:
    """Check the keys without ever quoting them."""
    try:
        Keyring.parse(text)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return SecretStr(text)


def schedule(text: str) -> Schedule:
    """Read the delays between attempts."""
    delays = listed(parse_duration)(text)
    if len(delays) > MAX_RETRIES:
        raise ValueError(f"has {len(delays)} delays; at most {MAX_RETRIES} are allowed")
    for delay in delays:
        if not timedelta(0) < delay <= timedelta(days=30):
            raise ValueError(
                f"every delay must be longer than PT0S and at most P30D, not {render_duration(delay)}"
            )
    return Schedule(delays)


def address(text: str) -> str:
    """Check host:port."""
    split_address(text)
    return text


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        pass
    try:
        meant = f"did you mean {ip_network(text, strict=False)}?"
    except ValueError:
        meant = "write it as 10.0.0.0/8 or fd00::/8"
    raise ValueError(f"{text!r} is not a network: {meant}")


def _host(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        if _HOST.fullmatch(text):
            return text
        raise ValueError(f"{text!r} is not a host name: no scheme, port, path or wildcard") from None
    raise ValueError(f"{text!r} is an address: name it in WEBHOOK_EGRESS_ALLOW_NETWORKS")


def _nameserver(text: str) -> str:
    try:
        ip_address(split_address(text)[0])
    except ValueError:
        raise ValueError(f"{text!r} is not address:port, such as 10.0.0.2:53 or [fd00::2]:53") from None
    return text


def egress_proxy(text: str) -> SecretStr:
    """Check the proxy's form without ever quoting it: it may hold a password."""
    from webhook_dispatcher.transport.proxy import Proxy

    Proxy.parse(text)
    return SecretStr(text)


def upstream(text: str) -> str:
    """Check the charge service's URL without ever quoting it: it could hold a password."""
    from yarl import URL  # late, as above

    url = URL(text)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("must begin with http:// or https:// and a host")
    if url.user is not None or url.password is not None or url.query_string or url.fragment:
        raise ValueError("must have no user, password, query or fragment")
    return text


def origin(text: str) -> str:
    """Read a site's public URL, without a path; http is for this machine alone."""
    url = urlsplit(text)
    is_plain = url.path in ("", "/") and not (url.query or url.fragment or "@" in url.netloc)
    if not (url.hostname and is_plain and _HOST.fullmatch(url.hostname.lower())):
        raise ValueError("must be a URL without a path, such as https://console.example.com")
    if url.scheme != "https" and not (url.scheme == "http" and url.hostname in ("localhost", "127.0.0.1")):
        raise ValueError("must be https; http is for localhost and 127.0.0.1 alone")
    return f"{url.scheme}://{url.netloc.lower()}"


def header_name(text: str) -> str:
    """Read the name of an HTTP header."""
    if not re.fullmatch("[A-Za-z][A-Za-z0-9-]{0,63}", text):
        raise ValueError("must be a header's name: letters, digits and dashes")
    return text


def ca_file(text: str) -> Path:
    """Check that a file holds certificates."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(text)
    except ssl.SSLError:
        raise ValueError(f"{text!r} holds no certificate in PEM form") from None
    except OSError as error:
        raise ValueError(f"{text!r} cannot be read: {error.strerror}") from None
    return Path(text)


def root_certificates(url: str) -> None:
    """Check the authorities that a database's URL names."""
    named = link.root_certificates(url)
    if named is not None:
        try:
            ca_file(named)
        except ValueError as error:
            raise ValueError(f"sslrootcert={error}") from None


def installation(text: str) -> str:
    """Read an installation's name. Source: contract 5."""
    if not re.fullmatch(r"[a-z0-9._-]{1,63}", text):
        raise ValueError(f"has 1 to 63 characters of a-z, 0-9, dot, dash and underscore, unlike {text!r}")
    return text


INSTALLATION = text(installation, "1 to 63 characters of `a-z0-9._-`")
SECRET_KEYS = text(secret_keys, "`id:base64key`, or several, separated by commas")
LIMITS = text(RateLimits.parse, "limits such as `key=600/PT1M`, separated by white space")
SCHEDULE = text(schedule, f"1 to {MAX_RETRIES} durations of at most `P30D`, separated by commas")
ADDRESS = text(address, "`host:port`")
UPSTREAM = text(upstream, "http or https URL without user, password, query and fragment")
ORIGIN = text(origin, "URL without a path")
HEADER_NAME = text(header_name, "name of a header")
NETWORKS = text(listed(_network), "networks, separated by commas")
HOSTS = text(lambda text: frozenset(listed(_host)(text.lower())), "host names, separated by commas")
NAMESERVERS = text(listed(_nameserver), "`address:port`, or several, separated by commas")
EGRESS_PROXY = text(egress_proxy, "`http://[user:password@]host:port`")
SHARE = text(share, "number from 0 to 1")
BOOLEAN = text(boolean, "`true` or `false`")
CA_FILE = text(ca_file, "path of a file")
PATH = text(Path, "path")
