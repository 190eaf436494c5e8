"""The link to the database: off this machine it is encrypted, and the server proves who it is.

Read as asyncpg reads a URL, and failing closed: whatever is not plainly this machine counts as off it.
Source: https://www.postgresql.org/docs/current/libpq-ssl.html (sslmode, sslrootcert=system).
"""

import ssl
from ipaddress import ip_address, ip_network
from urllib.parse import parse_qs, unquote, urlsplit

VERIFIED = "verify-full"
SYSTEM_ROOTS = "system"
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_ALPN = ["postgresql"]  # asked for by servers from 17 on when TLS starts without a preamble


def secured(url: str) -> str:
    """Return the URL with `sslmode=verify-full` where it leaves this machine; ValueError if it says less."""
    if is_local(url):
        return url
    mode = _option(url, "sslmode")
    if mode is None:
        bare = url.rstrip("?&")
        return f"{bare}{'&' if '?' in bare else '?'}sslmode={VERIFIED}"
    if mode.replace("_", "-") != VERIFIED:
        raise ValueError(
            f"sslmode={mode!r} does not make sure which server this is; a database off this machine needs "
            f"sslmode={VERIFIED} (sslrootcert=FILE names its authority, else the system's count), or, where "
            "the network itself is trusted, WEBHOOK_DATABASE_TLS=waived"
        )
    return url


def is_local(url: str) -> bool:
    """Tell whether a URL names servers, and all of them on this machine."""
    if _option(url, "service") is not None:
        return False
    hosts = _hosts(url)
    return bool(hosts) and all(map(_is_local_host, hosts))


def root_certificates(url: str) -> str | None:
    """Return the file of authorities that a URL names, if it names one."""
    named = _option(url, "sslrootcert")
    return None if named == SYSTEM_ROOTS else named


def tls_context(url: str) -> ssl.SSLContext | None:
    """Build what asyncpg cannot, `verify-full` by the system's authorities; None leaves it to asyncpg."""
    mode, roots = _option(url, "sslmode") or "", _option(url, "sslrootcert")
    if mode.replace("_", "-") != VERIFIED:
        if roots == SYSTEM_ROOTS:
            raise ValueError(f"sslrootcert={SYSTEM_ROOTS} needs sslmode={VERIFIED} beside it")
        return None
    if root_certificates(url) is not None:
        return None
    for option in ("sslcrl", "ssl_min_protocol_version", "ssl_max_protocol_version"):
        if _option(url, option) is not None:
            raise ValueError(f"{option} needs sslrootcert=FILE beside it")
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # not every build's default
    context.set_alpn_protocols(_ALPN)
    certificate = _option(url, "sslcert")
    if certificate is not None:
        password = _option(url, "sslpassword") or ""
        try:
            context.load_cert_chain(certificate, _option(url, "sslkey"), lambda: password)
        except OSError as error:
            reason = error.strerror or "not a certificate and its key in PEM form"
            raise ValueError(f"sslcert {certificate!r}: {reason}") from None
    return context


def _option(url: str, name: str) -> str | None:
    """Return an option of the URL; of several the last counts, empty ones do not."""
    values = parse_qs(urlsplit(url).query).get(name)
    return values[-1] if values else None


def _hosts(url: str) -> list[str]:
    """Return the hosts a URL names, those before the path ahead of `host=`."""
    # Asyncpg takes what follows the first @ for the host; urlsplit, what follows the last.
    netloc = urlsplit(url).netloc
    named = netloc.partition("@")[2] if "@" in netloc else netloc
    if named:
        return [unquote(_without_port(host)) for host in named.split(",")]
    option = _option(url, "host")
    return [_without_port(host) for host in option.split(",")] if option else []


def _without_port(host: str) -> str:
    if host.startswith("/"):
        return host
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_local_host(host: str) -> bool:
    if host.startswith("/") or host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in LOOPBACK)
