"""Computes from passwords what the database compares: in threads, few at once, 0.1 s and 64 MiB for each.

Addresses take turns: one is computed for an address at a time, so that who tries many passwords at once, from
however many connections, keeps people elsewhere waiting for one of them each.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from webhook_dispatcher.domain.password import PasswordParameters, Verifier, make_verifier, prove
from webhook_dispatcher.web.clients import UNKNOWN, Address, subjects_of

MAX_AT_ONCE = 2
MAX_OF_ADDRESS = 4
"""Passwords from one address that are computed with, or wait for that."""


class TooBusy(Exception):
    """MAX_OF_ADDRESS passwords wait for their turn already. Reaction: ask the person to try again soon."""


class PasswordHasher:
    """Computes proofs."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_AT_ONCE)
        self._of_addresses: Counter[str] = Counter()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def prove(self, password: str, parameters: PasswordParameters, address: Address | None) -> bytes:
        """Compute what the database compares. address: whose password it is. Errors: TooBusy."""
        async with self._turn(address):
            return await asyncio.to_thread(prove, password, parameters)

    async def make_verifier(self, password: str, salt: bytes, address: Address | None) -> Verifier:
        """Compute what is kept of a new password; address as above. Errors: TooBusy."""
        async with self._turn(address):
            return await asyncio.to_thread(make_verifier, password, salt)

    @asynccontextmanager
    async def _turn(self, address: Address | None) -> AsyncIterator[None]:
        subject = subjects_of(address or UNKNOWN)[0]
        if self._of_addresses[subject] >= MAX_OF_ADDRESS:
            raise TooBusy
        self._of_addresses[subject] += 1
        turn = self._turns.setdefault(subject, asyncio.Lock())
        try:
            async with turn, self._free:
                yield
        finally:
            self._of_addresses[subject] -= 1
            if not self._of_addresses[subject]:
                del self._of_addresses[subject]
