"""Several processes of the API before one database, and what a client knows of its own requests."""

import os
import random
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import aiohttp
import pytest

from tests.acceptance.api_merchant import Merchant, PartnerApi, Reply, start_api
from tests.acceptance.installation import Installation
from tests.servers.pooler import Pooler, pooler_if_asked
from webhook_dispatcher.local.postgres import EmbeddedPostgres

FLEET = 4
STORM = float(os.environ.get("API_STORM_SECONDS", "0"))
"""How long the long forms of tests last; 0: their short forms."""


@pytest.fixture(scope="module")
def pooler(postgres: EmbeddedPostgres) -> Iterator[Pooler | None]:
    """As everywhere, with as many connections for each process as docs/operate/pgbouncer.md asks for."""
    with pooler_if_asked(postgres.dsn(), pool_size=10 * FLEET) as started:
        yield started


@dataclass(frozen=True, slots=True)
class Asked:
    """One request by its client's monotonic clock: it was counted between sent and received."""

    subject: str
    sent: float
    received: float
    status: int
    retry_after: int | None


@dataclass(frozen=True)
class Fleet:
    """The processes, and connections to all of them."""

    processes: list[PartnerApi]
    session: aiohttp.ClientSession

    @property
    def bases(self) -> list[str]:
        """The URLs of all processes."""
        return [f"http://127.0.0.1:{process.port}" for process in self.processes]

    def anywhere(self, merchant: Merchant) -> Merchant:
        """Return the merchant as a client of any one of the processes."""
        return replace(merchant, base=random.choice(self.bases), session=self.session)

    def everywhere(self, merchant: Merchant, count: int) -> list[Merchant]:
        """Return so many clients of the merchant, at one process after the other."""
        bases = self.bases
        return [
            replace(merchant, base=bases[number % len(bases)], session=self.session)
            for number in range(count)
        ]


@asynccontextmanager
async def fleet(installation: Installation, size: int = FLEET, **settings: str) -> AsyncIterator[Fleet]:
    """Run several processes while entered; they end with the installation."""
    processes = [await start_api(installation, **settings) for _ in range(size)]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Fleet(processes, session)


async def timed(merchant: Merchant, subject: str, method: str, path: str, **headers: str) -> Asked:
    """Ask, and note when."""
    sent = time.monotonic()
    reply = await merchant.ask(method, path, None, None, **headers)
    return noted(subject, sent, reply)


def noted(subject: str, sent: float, reply: Reply) -> Asked:
    """Note an answer that has just come."""
    seconds = reply.headers.get("Retry-After")
    return Asked(subject, sent, time.monotonic(), reply.status, int(seconds) if seconds else None)


def overfull(log: Iterable[Asked], most: int, window: float) -> list[str]:
    """Name the windows in which more were let through than may be, whenever each was counted."""
    found = []
    for subject, let_through in _by_subject(log, 200).items():
        ordered = sorted(let_through, key=lambda each: each.sent)
        for place, first in enumerate(ordered):
            within = [each for each in ordered[place:] if each.received < first.sent + window]
            if len(within) > most:
                found.append(f"{subject}: {len(within)} in {window} s from {first.sent}")
    return found


def needless(log: Sequence[Asked], most: int, window: float) -> list[str]:
    """Name the refusals before which no window was full, whenever each was counted."""
    passed, refused = _by_subject(log, 200), _by_subject(log, 429)
    return [
        f"{refusal}"
        for subject, refusals in refused.items()
        for refusal in refusals
        if most
        > sum(
            each.sent < refusal.received and each.received > refusal.sent - window
            for each in passed.get(subject, ())
        )
    ]


def too_early(log: Sequence[Asked]) -> list[str]:
    """Name those that passed a second or more before a refusal said that one would."""
    found = []
    passed, refused = _by_subject(log, 200), _by_subject(log, 429)
    for subject, refusals in refused.items():
        for refusal in refusals:
            assert refusal.retry_after is not None
            until = refusal.sent + refusal.retry_after - 1
            found += [
                f"{subject}: passed within [{each.sent}, {each.received}], though {refusal}"
                for each in passed.get(subject, [])
                if each.sent > refusal.received and each.received < until
            ]
    return found


def _by_subject(log: Iterable[Asked], status: int) -> dict[str, list[Asked]]:
    found: dict[str, list[Asked]] = {}
    for each in log:
        if each.status == status:
            found.setdefault(each.subject, []).append(each)
    return found
