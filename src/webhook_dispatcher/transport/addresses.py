"""Which IP addresses are public: explicit tables, each entry with the document that sets it aside.

Own tables, because what `ipaddress.is_global` says differs between patch releases of Python, and lets
multicast, NAT64, 6to4 and IPv4-compatible addresses through. IPv6 is closed unless open: only 2000::/3, minus
exceptions; so IPv4-mapped, NAT64, unique local, link-local and multicast addresses need no entry.
Source: the IANA special-purpose and multicast address registries; tests/data/addresses.tsv.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_FORBIDDEN_V4 = tuple(
    (IPv4Network(network), use)
    for network, use in (
        ("0.0.0.0/8", "this network, RFC 791"),
        ("10.0.0.0/8", "private use, RFC 1918"),
        ("100.64.0.0/10", "shared address space, RFC 6598"),
        ("127.0.0.0/8", "loopback, RFC 1122"),
        ("169.254.0.0/16", "link-local and cloud metadata, RFC 3927"),
        ("172.16.0.0/12", "private use, RFC 1918"),
        ("192.0.0.0/24", "IETF protocol assignments, RFC 6890"),
        ("192.0.2.0/24", "documentation, RFC 5737"),
        ("192.31.196.0/24", "AS112, RFC 7535"),
        ("192.52.193.0/24", "AMT, RFC 7450"),
        ("192.88.99.0/24", "6to4 relay, RFC 7526"),
        ("192.168.0.0/16", "private use, RFC 1918"),
        ("192.175.48.0/24", "AS112, RFC 7534"),
        ("198.18.0.0/15", "benchmarking, RFC 2544"),
        ("198.51.100.0/24", "documentation, RFC 5737"),
        ("203.0.113.0/24", "documentation, RFC 5737"),
        ("224.0.0.0/4", "multicast, RFC 5771"),
        ("240.0.0.0/4", "reserved and broadcast, RFC 1112"),
        # In no registry: a public address that, inside Azure, is the host's own agent.
        # learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
        ("168.63.129.16/32", "Azure wire server"),
    )
)

_GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")

_FORBIDDEN_V6 = tuple(
    (IPv6Network(network), use)
    for network, use in (
        ("2001::/23", "IETF protocol assignments: Teredo, benchmarking, ORCHID, DETs, RFC 2928"),
        ("2001:db8::/32", "documentation, RFC 3849"),
        ("2002::/16", "6to4, RFC 3056"),
        ("2620:4f:8000::/48", "AS112, RFC 7534"),
        ("3ffe::/16", "6bone, returned, RFC 3701"),
        ("3fff::/20", "documentation, RFC 9637"),
    )
)

# IPv6 networks whose addresses carry an IPv4 address: how many bits from the right it lies, and which of its
# bits are reversed.
_CARRIERS = tuple(
    (IPv6Network(network), shift, reversed_bits)
    for network, shift, reversed_bits in (
        ("::/96", 0, 0),  # IPv4-compatible, RFC 4291
        ("::ffff:0:0/96", 0, 0),  # IPv4-mapped, RFC 4291
        ("::ffff:0:0:0/96", 0, 0),  # IPv4-translated, RFC 2765
        ("64:ff9b::/96", 0, 0),  # NAT64, RFC 6052
        ("64:ff9b:1::/48", 0, 0),  # NAT64 of a site's own, RFC 8215, with a prefix of 96 bits
        ("2001::/32", 64, 0),  # Teredo's server, RFC 4380
        ("2001::/32", 0, 0xFFFF_FFFF),  # Teredo's client
        ("2002::/16", 80, 0),  # 6to4, RFC 3056
    )
)
# :: and ::1 look like carriers of what is never public, and are none.
NO_CARRIERS = IPv6Network("::/127")

# Where the IPv4 address lies depends on how long the site made its prefix. Source: RFC 6052, 2.2.
_NAT64_OF_A_SITE = IPv6Network("64:ff9b:1::/48")
_NAT64_PREFIX_LENGTH = 96


def parse_address(text: str) -> Address | None:
    """Read a plain address literal; anything else, a scoped address included, is None."""
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def network_of(address: Address) -> str:
    """Return the network that one party may be taken to have: a /24, or a /48 of IPv6."""
    return str(ip_network((address, 24 if address.version == 4 else 48), strict=False))


def forbidden_use(address: Address) -> str | None:
    """Say what the address is set aside for, or None if it is public."""
    if isinstance(address, IPv4Address):
        return next((use for network, use in _FORBIDDEN_V4 if address in network), None)
    if address not in _GLOBAL_UNICAST_V6:
        return "not global unicast (2000::/3), RFC 4291"
    return next((use for network, use in _FORBIDDEN_V6 if address in network), None)


def is_within(address: Address, allowed: Network) -> bool:
    """Tell whether an allowed network has the address, and says which IPv4 address it carries, if any."""
    if address not in allowed:
        return False
    return allowed.prefixlen >= _NAT64_PREFIX_LENGTH or address not in _NAT64_OF_A_SITE


def carried_v4(address: Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that packets for this IPv6 address may end at."""
    if isinstance(address, IPv4Address):
        return []
    return [
        IPv4Address((int(address) >> shift & 0xFFFF_FFFF) ^ reversed_bits)
        for network, shift, reversed_bits in _CARRIERS
        if address in network
    ]
