"""Name resolution that refuses answers with a forbidden address.

An early filter: the choke point is the connector, which checks each address as it is dialled. c-ares works
outside the default thread pool, so that dead name servers cannot starve anything else of threads; it reads
/etc/hosts and answers `localhost` itself. What was found is kept here, by its TTL and for half a minute at
most; what was not found is not kept.

A look-up ends with its attempt. c-ares asks silent name servers again for minutes, and can only cancel all
look-ups of a channel at once; so there are two channels. Look-ups go to one of them until an attempt has
given one up there, then to the other; and when nobody waits for the first any more, which is after the time
of one attempt at most, what is left in it is cancelled.
"""

import asyncio
import contextlib
import itertools
import socket
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import aiodns
import pycares

from webhook_dispatcher.transport.guard import Forbidden, Guard
from webhook_dispatcher.transport.local_faults import ResolverFault

# A name server that was never asked is asked again after so many seconds. c-ares takes five times what one it
# knows takes on average instead, but no less than _MIN_WAIT; it doubles that for each further try, and takes
# off up to half of it, by chance. Source: c-ares 1.34, ares_metrics.c and ares_process.c.
_FIRST_WAIT = 0.5
_MIN_WAIT = 0.25

# c-ares gives each of a look-up's two queries a number of 16 bits, and goes on drawing numbers for ever once
# all are taken. Hosts that were not found lately have half of the look-ups: their name servers may be silent
# by design, and the others must not be refused for that.
_MAX_PENDING = 16_384
_MAX_UNKNOWN = _MAX_PENDING // 2

# Hosts that are remembered as found: more than one process has merchants at work.
_MAX_FOUND = 25_000

# What was found holds as long as its name server says, and no longer than in Java (networkaddress.cache.ttl):
# the first retry, a minute later, asks anew.
_MAX_KEPT_SECONDS = 30

# c-ares keeps answers, too, and empty ones for an hour, whatever their SOA says; and it sees no change of
# /etc/resolv.conf behind a symbolic link. So soon after a look-up has begun or ended, it forgets the answers
# and reads the file. Source: c-ares 1.34, ares_qcache.c, ares_event_configchg.c; ares_reinit(3).
_REREAD_SECONDS = 1.0

# Each address is tried: a name with a thousand of them would keep us, and those it points at, busy for the
# whole attempt.
_MAX_ADDRESSES = 8

# All of them are checked. c-ares alone takes 35 ms for the 4,000 that fit into an answer, we another 50.
_MAX_CHECKED = 100

# What c-ares says when it is itself at its end, or could contact no name server. A merchant can bring that
# about: an answer that is too large for UDP is asked for over TCP, which the name server may not offer. So it
# is our fault only where a name that nobody has fares no better.
_OWN_FAULTS = frozenset(
    (
        aiodns.error.ARES_ENOMEM,
        aiodns.error.ARES_EFILE,
        aiodns.error.ARES_ENOTINITIALIZED,
        aiodns.error.ARES_EDESTRUCTION,
        aiodns.error.ARES_ECANCELLED,
        aiodns.error.ARES_ECONNREFUSED,
    )
)
# What an operator is told of a name; all else in c-ares' own words.
_WORDS = {
    aiodns.error.ARES_ENOTFOUND: "name does not exist",
    aiodns.error.ARES_ENODATA: "name has no address",
    aiodns.error.ARES_ESERVFAIL: "name server failed (SERVFAIL)",
    aiodns.error.ARES_EREFUSED: "name server refused (REFUSED)",
    aiodns.error.ARES_ETIMEOUT: "name servers do not answer",
    aiodns.error.ARES_ECONNREFUSED: "name servers cannot be reached",
}
# Source: RFC 6761, 6.4: name servers say of themselves that it does not exist. The number is another each
# time, for c-ares remembers for a while what does not exist.
_NOBODYS_NAME = "{}.webhook-dispatcher.invalid"


class Lookup(NamedTuple):
    """What a look-up found. was_queried: by asking a name server; not kept, nor in /etc/hosts."""

    addresses: list[str]
    was_queried: bool


class _Cached(NamedTuple):
    """What was found of a host, and until when it holds (clock of the loop)."""

    addresses: list[str]
    until: float


class _Resolver(aiodns.DNSResolver):
    """c-ares, made to forget."""

    def reread(self) -> None:
        """Forget all answers and read the system's configuration, in a thread of c-ares' own."""
        # Private to aiodns; test_a_name_that_had_no_address_is_asked_for_again fails if this stops working.
        self._channel.reinit()


class TooManyAddresses(OSError):
    """A name has more addresses than are looked at. count: how many."""

    def __init__(self, count: int) -> None:
        super().__init__(None, f"name has more than {_MAX_CHECKED} addresses")
        self.count = count


class GuardedResolver:
    """Resolve host names with c-ares and let the guard judge the answer.

    Must be made inside the running loop. `nameservers` ("address:port") replace those of the system. The
    egress proxy's host may have any address: with a proxy, no other name is ever asked for. Silent name
    servers are not given up before `attempt_seconds` are over.
    """

    def __init__(
        self,
        guard: Guard,
        nameservers: Sequence[str] = (),
        proxy_host: str | None = None,
        attempt_seconds: float = 10.0,
    ) -> None:
        self._guard = guard
        self._proxy_host = proxy_host
        self._numbers = itertools.count()
        self._loop = asyncio.get_running_loop()
        # Kept here and not by c-ares: each of its channels would know only what was looked up there.
        self._found: OrderedDict[str, _Cached] = OrderedDict()
        self._in_use, self._other = (_Channel(nameservers, _tries(attempt_seconds)) for _ in range(2))
        # Any reply shows that a name server is reached, so none is asked for over TCP.
        self._control = _Channel(nameservers, 1, pycares.ARES_FLAG_IGNTC)

    async def resolve(self, host: str) -> Lookup:
        """Return the host's first addresses. Raises OSError, or Forbidden if any may not be dialled."""
        cached, was_queried = self._found.get(host), False
        if cached is None or cached.until <= self._loop.time():
            cached, was_queried = await self._query(host)
        if host != self._proxy_host:
            is_trusted = self._guard.trusts(host)
            try:
                for address in cached.addresses:
                    self._guard.check_address(address, is_trusted)
            except Forbidden as error:
                raise Forbidden(f"name resolves to what must not be dialled: {error.reason}") from None
        return Lookup(cached.addresses[:_MAX_ADDRESSES], was_queried)

    async def _query(self, host: str) -> tuple[_Cached, bool]:
        """Look a host up, and say whether a name server was asked. Raises OSError."""
        try:
            answer, was_queried = await self._look_up(host)
        except aiodns.error.DNSError as error:
            # args: c-ares' own number and words; nothing that came over the wire.
            kind = ResolverFault if await self._is_own_fault(error.args[0]) else OSError
            raise kind(None, _WORDS.get(error.args[0]) or str(error.args[-1])) from error
        except UnicodeError as error:
            raise OSError(None, "name cannot be looked up") from error
        if len(answer.nodes) > _MAX_CHECKED:
            raise TooManyAddresses(len(answer.nodes))
        # A scope (addr[3]) is left out: a scoped address is link-local, and refused as that.
        addresses = [node.addr[0].decode("ascii") for node in answer.nodes]
        if not addresses:
            raise OSError(None, "name has no address")
        lives = [node.ttl for node in answer.nodes] + [name.ttl for name in answer.cnames]
        found = _Cached(addresses, self._loop.time() + min(*lives, _MAX_KEPT_SECONDS))
        self._found[host] = found
        self._found.move_to_end(host)
        if len(self._found) > _MAX_FOUND:
            self._found.popitem(last=False)
        return found, was_queried

    async def close(self) -> None:
        """Give up pending look-ups."""
        await self._in_use.close()
        await self._other.close()
        await self._control.close()

    @property
    def pending(self) -> int:
        """Return how many look-ups are running, those included that no attempt waits for any more."""
        return self._in_use.pending + self._other.pending

    async def _look_up(self, host: str) -> tuple[pycares.AddrInfoResult, bool]:
        """Ask c-ares, and say whether a name server was asked.

        Errors: aiodns.error.DNSError; OSError or ResolverFault where too many look-ups are running.
        """
        if self.pending >= _MAX_UNKNOWN and host not in self._found:
            raise OSError(None, "too many names of which none is known are being looked up")
        if self.pending >= _MAX_PENDING:
            raise ResolverFault(None, "too many names are being looked up")
        if self._in_use.has_leftovers and not self._other.pending:
            self._in_use, self._other = self._other, self._in_use
        try:
            return await self._in_use.look_up(host)
        except asyncio.CancelledError:
            self._found.pop(host, None)
            raise

    async def _is_own_fault(self, code: object) -> bool:
        """Tell whether what c-ares said of a name is none of that name's doing."""
        if code not in _OWN_FAULTS:
            return False
        try:
            await self._control.look_up(_NOBODYS_NAME.format(next(self._numbers)))
        except aiodns.error.DNSError as error:
            return error.args[0] in _OWN_FAULTS
        return False


class _Channel:
    """One of c-ares' channels.

    pending: look-ups that c-ares has not ended, among them those that nobody waits for any more.
    """

    def __init__(self, nameservers: Sequence[str], tries: int, flags: int = 0) -> None:
        # No search domains: `hooks.example` must never become hooks.example.default.svc.cluster.local.
        self._resolver = _Resolver(
            nameservers=nameservers or None,
            timeout=_FIRST_WAIT,
            tries=tries,
            flags=flags | pycares.ARES_FLAG_NOSEARCH,
        )
        self._is_closed = False
        self._reread: asyncio.TimerHandle | None = None
        self.pending = self._awaited = 0

    @property
    def has_leftovers(self) -> bool:
        """Tell whether look-ups are running that nobody waits for."""
        return self.pending > self._awaited

    async def look_up(self, host: str) -> tuple[pycares.AddrInfoResult, bool]:
        """Ask c-ares, and say whether a name server was asked. Raises aiodns.error.DNSError."""
        was_queried = False

        def look() -> None:
            nonlocal was_queried
            was_queried = not query.done()

        query = self._resolver.getaddrinfo(host, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM)
        self.pending += 1
        self._reread_soon()
        query.add_done_callback(self._forget)
        # What c-ares knows it says within that call: then the query is done before this is called. A name
        # server that is as quick is taken for its cache, and proves nothing: no harm.
        asyncio.get_running_loop().call_soon(look)
        self._awaited += 1
        try:
            await asyncio.wait((query,))
        finally:
            self._awaited -= 1
            if self.pending and not self._awaited and not self._is_closed:
                self._resolver.cancel()
        return query.result(), was_queried

    async def close(self) -> None:
        """Give up pending look-ups."""
        self._is_closed = True
        if self._reread is not None:
            self._reread.cancel()
        await self._resolver.close()

    def _reread_soon(self) -> None:
        if self._reread is None and not self._is_closed:
            self._reread = asyncio.get_running_loop().call_later(_REREAD_SECONDS, self._reread_now)

    def _reread_now(self) -> None:
        self._reread = None
        with contextlib.suppress(pycares.AresError):  # No memory or thread for it: the next time will do.
            self._resolver.reread()

    def _forget(self, query: asyncio.Future[pycares.AddrInfoResult]) -> None:
        self.pending -= 1
        self._reread_soon()
        if not query.cancelled():
            query.exception()  # which nobody may be waiting for any more


def _tries(seconds: float) -> int:
    """Return how often to ask, with the shortest waits that c-ares may choose: 7 times in 10 s."""
    tries = 1
    while _MIN_WAIT * 2 ** (tries - 1) < seconds:
        tries += 1
    return tries
