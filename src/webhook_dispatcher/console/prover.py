"""Computes from passwords what the database compares: in threads, few at once, 0.1 s and 64 MiB for each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webhook_dispatcher.domain.password import PasswordParameters, Verifier, make_verifier, prove

MAX_AT_ONCE = 2
MAX_WAITING = 20


class TooBusy(Exception):
    """MAX_WAITING passwords wait for their turn already. Reaction: ask the person to try again soon."""


class Prover:
    """Computes proofs."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_AT_ONCE)
        self._waiting = 0

    async def prove(self, password: str, parameters: PasswordParameters) -> bytes:
        """Compute what the database compares. Errors: TooBusy."""
        async with self._turn():
            return await asyncio.to_thread(prove, password, parameters)

    async def make_verifier(self, password: str, salt: bytes) -> Verifier:
        """Compute what is kept of a new password. Errors: TooBusy."""
        async with self._turn():
            return await asyncio.to_thread(make_verifier, password, salt)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._waiting >= MAX_WAITING:
            raise TooBusy
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()
