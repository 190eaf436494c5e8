"""Mutated URLs against the guard: whatever it accepts, every parser reads as the same harmless place."""

import socket
from collections import Counter
from ipaddress import ip_address, ip_network
from random import Random
from urllib.parse import urlsplit

from yarl import URL

from tests.fuzz.mutation import mutated
from tests.unit.test_guard import URLS
from webhook_dispatcher.transport.guard import EgressPolicy, Forbidden, Guard

CORPUS = [url for url, _, _ in URLS if url]
# fmt: off
TOKENS = [
    *"0123456789abcdefx.:/?#@[]%\\-_~!$&'()*+,;= \t\r\n\0\x7f",
    "０", "７", "１２７.０.０.１", "①②⑦", "。", "．", "｡", "ⓛ", "ﬀ", "ß", "İ", "ı", "\u200d",
    "\u00ad", "\ud800", "🦆", "٤٤٣", "127.1", "0x7f", "0177", "2130706433", "0x7f000001",
    "127.0.0.1", "169.254.169.254", "10.0.0.1", "[::1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]",
    "[fe80::1%25lo]", "[v1.x]", "localhost", ".internal", ".example.com", "%2e", "%2f", "%00",
    "%31%32%37", "%zz", "xn--", "xn--mnchen-3ya", "user:pass@", "//", "/../", "https://", "http://",
    "HTTPS://", ":443", ":0", ":25", ":65536", ":00080", "a" * 64, "b." * 130, "..", "&", "&amp;",
]
# fmt: on
POLICIES = (
    EgressPolicy(),
    EgressPolicy(
        allow_networks=(ip_network("10.0.0.0/8"),),
        allow_hosts=frozenset({"receiver", "localhost"}),
        allow_http=True,
        deny_networks=(ip_network("10.9.0.0/16"), ip_network("1.0.0.0/8")),
    ),
)


def fuzz_urls(count: int, seed: int) -> Counter[str]:
    """Check so many; AssertionError names the URL that is judged wrongly."""
    guards = [Guard(policy) for policy in POLICIES]
    random = Random(seed)
    seen: Counter[str] = Counter()
    for number in range(count):
        url = mutated(CORPUS, TOKENS, random)
        guard = guards[number % len(guards)]
        try:
            target = guard.target(url)
        except Forbidden:
            seen["refused"] += 1
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {url!r} raised {error!r}") from error
        seen["accepted"] += 1
        wrong = _disagreement(url, target.url, target.is_trusted, guard)
        assert wrong is None, f"seed {seed}: {url!r} was accepted, but {wrong}"
    return seen


def _disagreement(url: str, sent: URL, is_trusted: bool, guard: Guard) -> str | None:
    """Say what is wrong with an accepted URL."""
    read, other = urlsplit(url), URL(url)
    hosts = {_canonical(host) for host in (read.hostname, other.raw_host, sent.raw_host)}
    if len(hosts) != 1:
        return f"its host is read as any of {hosts}"
    if len({read.port, other.explicit_port, sent.explicit_port}) != 1:
        return "its port is read in two ways"
    if read.username is not None or other.user is not None or sent.user is not None:
        return "it has a user"
    # yarl drops the question mark of an empty query.
    if not url.removesuffix("?").endswith(sent.raw_path_qs.removeprefix("/").removesuffix("?")):
        return f"it is sent as {sent.raw_path_qs!r}"
    if sent.scheme == "http" and not (is_trusted or hosts & {str(address) for address in _numeric(sent)}):
        return "it is http for a name"
    for address in _numeric(sent):
        try:
            guard.check_address(address)
        except Forbidden as error:
            return f"it is an address: {error.reason}"
    return None


def _canonical(host: str | None) -> str | None:
    try:
        return str(ip_address(host or ""))
    except ValueError:
        return host


def _numeric(url: URL) -> set[str]:
    """Return the address that the system would dial without asking a name server."""
    try:
        found = socket.getaddrinfo(url.raw_host, 443, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return set()
    return {str(sockaddr[0]) for *_, sockaddr in found}
