"""Which URLs and addresses may be sent to at all.

Two checks, both needed: `target` reads the URL without DNS, on every attempt (the row may have been written
by anyone); `check_address` is asked about every address that is about to be dialled. What is not understood
is refused. The URL that was checked is the very object that is sent, byte for byte except for the case of
scheme and host and the question mark of an empty query, so that no second parser can read another host into
it.
Source: contract 2.7; tests/data/urls.tsv and addresses.tsv.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from yarl import URL

from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.transport.addresses import (
    NO_CARRIERS,
    Address,
    carried_v4,
    forbidden_use,
    is_within,
    parse_address,
)

MAXIMUM_URL_LENGTH = 2048
_REMEMBERED_URLS = 16_384

# fmt: off
# Source: WHATWG Fetch, "bad port".
_BAD_PORTS = frozenset((
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
))
# Top-level names that are never public. Source: RFC 6761, 6762 (appendix G), 7686, 8375 and 9476; ICANN's
# resolutions on .corp, .home, .mail (2018) and .internal (2024); what resolvers and clusters make up.
_SPECIAL_TOP_LEVELS = frozenset((
    "alt", "arpa", "cluster", "corp", "example", "home", "internal", "intranet", "invalid", "lan", "local",
    "localdomain", "localdomain6", "localhost", "localhost6", "mail", "onion", "private", "svc", "test",
))
# fmt: on

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._\-]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<rest>(?:/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*)?"
    r"(?:\?(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*)?)"
)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_\-]{0,61}[a-z0-9_])?")
# Source: WHATWG URL, "ends in a number".
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class Forbidden(DispatcherError):
    """A URL or an address must not be sent to. `reason` is for operators and never quotes unchecked text."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What the operator allows beyond public https: networks, and host names in lower case.

    deny_networks: refused whatever allows them, host names included; our own public addresses, for example.
    """

    allow_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    allow_hosts: frozenset[str] = frozenset()
    allow_http: bool = False
    deny_networks: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that passed the static check, and what every request to it has in common.

    is_trusted: the operator allowed its host by name.
    origin: with whom connections to it can be shared.
    opening: the first lines of a request, as text.
    """

    url: URL
    is_trusted: bool
    origin: str = field(init=False)
    opening: str = field(init=False)

    def __post_init__(self) -> None:
        url = self.url
        object.__setattr__(self, "origin", f"{url.scheme}://{url.raw_host}:{url.port}")
        opening = f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
        object.__setattr__(self, "opening", opening)


class Guard:
    """The egress policy, asked before anything leaves."""

    def __init__(self, policy: EgressPolicy) -> None:
        self._allow_networks = policy.allow_networks
        self._allow_hosts = frozenset(host.lower() for host in policy.allow_hosts)
        self._allow_http = policy.allow_http
        self._deny_networks = policy.deny_networks
        # The verdict depends on nothing but the text and the policy; refusals are not remembered.
        self.target = lru_cache(_REMEMBERED_URLS)(self._target)

    def find_fault(self, url: str) -> str | None:
        """Say why a URL must not be sent to; what only DNS can tell is not looked at."""
        try:
            self.target(url)
        except Forbidden as error:
            return error.reason
        return None

    def check_address(self, address: object, is_trusted: bool = False, is_proxys: bool = False) -> Address:
        """Return an address (as in sockaddr[0]) unless it is denied, or neither public nor allowed.

        is_trusted: the operator allowed its host by name; only what is denied is refused.
        is_proxys: it is the egress proxy's, which may be anywhere. Raises Forbidden.
        """
        # Anything but a literal would be resolved again by sock_connect, behind our back.
        parsed = parse_address(address) if isinstance(address, str) else None
        if parsed is None:
            raise Forbidden("what was to be dialled is not an IP address")
        if not is_proxys:
            self._check_parsed(parsed, is_trusted)
        return parsed

    def trusts(self, host: str) -> bool:
        """Tell whether the operator allowed this host by name: then any address will do, if not denied."""
        return host in self._allow_hosts

    def _check_parsed(self, address: Address, is_trusted: bool) -> None:
        if any(address in network for network in self._deny_networks):
            raise Forbidden(f"{address} is in a denied network (WEBHOOK_EGRESS_DENY_NETWORKS)")
        use = None if is_trusted else forbidden_use(address)
        if use is not None and not self._is_in_allowed_network(address):
            raise Forbidden(f"{address} is not a public address ({use})")
        for carried in carried_v4(address):
            self._check_parsed(carried, is_trusted or address in NO_CARRIERS)

    def _is_in_allowed_network(self, address: Address) -> bool:
        return any(is_within(address, network) for network in self._allow_networks)

    def _target(self, url: str) -> Target:
        """Parse and check a URL without DNS. Raises Forbidden."""
        _check_text(url)
        match = _URL.fullmatch(url)
        if match is None:
            raise Forbidden("the URL is not well formed (scheme://host[:port]/path?query, percent-encoded)")
        scheme = match["scheme"].lower()
        if scheme not in ("https", "http"):
            raise Forbidden("the URL's scheme is not https")
        port = match["port"]
        if port is not None and (int(port) > 65535 or int(port) in _BAD_PORTS):
            raise Forbidden("the URL's port is out of range or belongs to another protocol (Fetch bad ports)")
        host, address = _read_host(match["v6"], match["name"])
        is_trusted = self.trusts(host)
        if address is not None:
            self._check_parsed(address, is_trusted)
        elif not is_trusted:
            _check_name(host)
        if scheme == "http":
            self._check_http(address, is_trusted)
        authority = (f"[{host}]" if ":" in host else host) + ("" if port is None else f":{port}")
        try:
            return Target(URL(f"{scheme}://{authority}{match['rest']}", encoded=True), is_trusted)
        except ValueError as error:
            raise Forbidden("the URL cannot be parsed") from error

    def _check_http(self, address: Address | None, is_trusted: bool) -> None:
        if not self._allow_http:
            raise Forbidden("the URL's scheme is not https")
        if not is_trusted and (address is None or not self._is_in_allowed_network(address)):
            raise Forbidden("http is allowed for allowed networks and hosts only")


def _check_text(url: str) -> None:
    """Refuse what no parser should even see, and give the commonest mistakes their own words."""
    if not isinstance(url, str) or not url.strip():
        raise Forbidden("the URL is blank")
    if len(url) > MAXIMUM_URL_LENGTH:
        raise Forbidden(f"the URL is longer than {MAXIMUM_URL_LENGTH} characters")
    if not (url.isascii() and url.isprintable()):
        raise Forbidden("the URL has characters other than printable ASCII (use punycode, percent-encoding)")
    if "#" in url:
        raise Forbidden("the URL has a fragment")
    authority = re.match(r"[^:/?#]*://([^/?#]*)", url)
    if authority is not None and "@" in authority[1]:
        raise Forbidden("the URL has a user name or password")


def _read_host(v6: str | None, name: str | None) -> tuple[str, Address | None]:
    """Return the host in lower case, and its address if it is a literal."""
    if v6 is not None:
        parsed = parse_address(v6)
        if not isinstance(parsed, IPv6Address):
            raise Forbidden("the URL's host is not an IPv6 address")
        return v6.lower(), parsed
    host = (name or "").lower()
    if host.endswith("."):
        raise Forbidden("the URL's host ends in a dot")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        parsed = parse_address(host)
        if not isinstance(parsed, IPv4Address):
            raise Forbidden("the URL's host ends in a number and is not a plain IPv4 address")
        return host, parsed
    if len(host) > 253 or not all(_is_label(label) for label in labels):
        raise Forbidden("the URL's host is not a valid name")
    return host, None


def _check_name(host: str) -> None:
    labels = host.split(".")
    if len(labels) < 2:
        raise Forbidden("the URL's host is a single label, not a public name")
    if labels[-1] in _SPECIAL_TOP_LEVELS:
        raise Forbidden(f"names under .{labels[-1]} are not public")


def _is_label(label: str) -> bool:
    if _LABEL.fullmatch(label) is None:
        return False
    if not label.startswith("xn--"):
        return True
    # Not the idna codec of the standard library: it is IDNA 2003 and refuses names that are registered today.
    try:
        decoded = label[4:].encode().decode("punycode")
        encoded = decoded.encode("punycode").decode()
    except UnicodeError:
        return False
    return encoded == label[4:] and decoded.isprintable() and not decoded.isascii()
