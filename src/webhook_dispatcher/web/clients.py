"""Whose IP address a request comes from, and by which subjects it is counted.

It is the peer's address. Where the peer is a trusted proxy, it is the right-most address of X-Forwarded-For
that is no trusted proxy's: what stands further left can have been written by anybody.
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

MAX_HOPS = 32
"""Addresses of X-Forwarded-For that are looked at, from the right."""
UNKNOWN = IPv4Address("0.0.0.0")
"""Where a peer has no address any more, since its connection is lost."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def address_of(peer: str | None, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> Address:
    """Return whom a request comes from; forwarded_for: the values of that header, as they came."""
    found = _read(peer or "") or UNKNOWN
    if not forwarded_for:
        return found
    for text in reversed(",".join(forwarded_for).rsplit(",", MAX_HOPS)[-MAX_HOPS:]):
        if not any(found in network for network in trusted):
            break
        before = _read(text)
        if before is None:
            break
        found = before
    return found


def subjects_of(address: Address) -> tuple[str, ...]:
    """Return what an address is counted by: itself, or of IPv6 the /64 and the /48 that it lies in."""
    if isinstance(address, IPv4Address):
        return (str(address),)
    return tuple(str(IPv6Network((address, length), strict=False)) for length in (64, 48))


@lru_cache(maxsize=1024)
def _read(text: str) -> Address | None:
    """Read an address, with a port or without; IPv4 within ::ffff:0:0/96 is IPv4."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
