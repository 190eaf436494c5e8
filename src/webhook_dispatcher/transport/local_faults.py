"""Local faults: failures that are ours, since this machine could not have reached anybody.

A single failure of ours is told to operators and never counts, so nothing that a merchant can bring about by
its URL, its name servers or its network may be one: an address of a family without a route, or a router's
"unreachable" on the way, is ours only when this machine has no route to anywhere.
"""

import errno
import socket
import ssl
from collections.abc import Callable, Collection, Iterator

from webhook_dispatcher.transport.addresses import Address

# No more file descriptors, memory or buffers.
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_UNREACHABLE = frozenset((errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH))

# Some public address of each family (those of two resolvers); nothing is ever sent there.
_ANYWHERE = ((4, socket.AF_INET, "1.1.1.1"), (6, socket.AF_INET6, "2606:4700:4700::1111"))


class ResolverFault(OSError):
    """A name could not be looked up for a reason that is not the name's."""


def routed_families() -> frozenset[int]:
    """Return the IP versions that have a route to the public network; none without file descriptors, too."""
    found = set()
    for version, family, address in _ANYWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                # Connecting a datagram socket asks the routing table and sends nothing.
                sock.connect((address, 53))
        except OSError:
            continue
        found.add(version)
    return frozenset(found)


def is_local(
    error: Exception, tried: Collection[Address], routed: Callable[[], frozenset[int]] = routed_families
) -> bool:
    """Tell whether the failure came about on this machine.

    tried: the addresses that sockets were made for.
    """
    for cause in _causes(error):
        if isinstance(cause, ResolverFault):
            return True
        if not isinstance(cause, OSError) or isinstance(cause, ssl.SSLError):
            continue
        if cause.errno in _EXHAUSTED:
            return True
        if cause.errno in _UNREACHABLE:
            return not routed()
        if cause.errno == errno.EADDRNOTAVAIL:
            # Ports have run out; but a machine whose IPv6 is switched off says the same of IPv6 addresses.
            families = routed()
            return not families or any(address.version in families for address in tried)
    return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
