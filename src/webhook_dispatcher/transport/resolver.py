"""Name resolution that refuses answers with a forbidden address.

An early filter: the choke point is the connector, which checks each address as it is dialled. c-ares works
outside the default thread pool, so that dead name servers cannot starve anything else of threads; it reads
/etc/hosts, answers `localhost` itself and caches by TTL.
"""

import socket
from collections.abc import Sequence

import aiodns
import pycares
from aiohttp.abc import AbstractResolver, ResolveResult

from webhook_dispatcher.transport.guard import Forbidden, Guard

# Asked again after 1.5, 4.5 and 10.5 s (c-ares doubles): a lost packet costs little, and name servers that
# are silent end in the attempt's own deadline.
_FIRST_WAIT = 1.5
_TRIES = 4


class GuardedResolver(AbstractResolver):
    """Resolve host names with c-ares and let the guard judge the answer.

    Must be made inside the running loop. `nameservers` ("address:port") replace those of the system.
    """

    def __init__(self, guard: Guard, nameservers: Sequence[str] = ()) -> None:
        self._guard = guard
        # No search domains: `hooks.example` must never become hooks.example.default.svc.cluster.local.
        self._resolver = aiodns.DNSResolver(
            nameservers=nameservers or None,
            timeout=_FIRST_WAIT,
            tries=_TRIES,
            flags=pycares.ARES_FLAG_NOSEARCH,
        )

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return every address of the host. Raises OSError, or Forbidden if one may not be dialled."""
        try:
            answer = await self._resolver.getaddrinfo(host, port=port, type=socket.SOCK_STREAM, family=family)
        except aiodns.error.DNSError as error:
            # args: c-ares' own number and words; nothing that came over the wire.
            raise OSError(None, str(error.args[-1])) from error
        except UnicodeError as error:
            raise OSError(None, "the name cannot be looked up") from error
        results = [_result(host, port, node) for node in answer.nodes]
        if not results:
            raise OSError(None, "the name has no address")
        if not self._guard.trusts(host):
            for result in results:
                self._check(result["host"])
        return results

    async def close(self) -> None:
        """Give up pending look-ups."""
        await self._resolver.close()

    def _check(self, address: str) -> None:
        try:
            self._guard.check_address(address)
        except Forbidden as error:
            raise Forbidden(f"the host's name resolves to {error.reason}") from None


def _result(host: str, port: int, node: pycares.AddrInfoNode) -> ResolveResult:
    # A scope (addr[3]) is left out: a scoped address is link-local, and refused as that.
    return ResolveResult(
        hostname=host,
        host=node.addr[0].decode("ascii"),
        port=port,
        family=node.family,
        proto=0,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
