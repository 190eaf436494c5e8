"""What every rival does with an event: sign it and post it, over kept connections of one aiohttp session.

The same headers, signature, deadline and verdict (2xx, headers within ten seconds) as webhook-dispatcher, and
nothing else that it does: no rules for addresses, no record of the attempt.
Source: contract 1 and 2.1.
"""

import hashlib
import hmac
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, ThreadedResolver
from yarl import URL

from benchmarks.bodies import EVENT_TYPE, body, posted

SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
RETRY_SECONDS = (60, 300, 900, 3_600, 10_800, 21_600, 43_200)
"""Delays after failed attempts, as webhook-dispatcher has them; after the last the event has failed."""
_DEADLINE = 10.0


@dataclass(frozen=True, slots=True)
class Event:
    """What is owed to a merchant; the body is that of the request."""

    merchant_id: str
    event_id: str
    body: bytes


class Unanswered(Exception):
    """The attempt failed: an answer other than 2xx, or none."""


class Poster:
    """Posts events to each merchant's own URL."""

    def __init__(self, session: ClientSession, root: str) -> None:
        self._session = session
        self._url = cache(lambda merchant_id: URL(url_of(root, merchant_id), encoded=True))

    async def post(self, event: Event) -> None:
        """Make one attempt. Raises Unanswered, or what aiohttp raises."""
        stamp = b"%d" % time.time()
        signature = hmac.digest(SECRET, stamp + b"." + event.body, hashlib.sha256).hex()
        headers = {
            "Service-Event-Id": event.event_id,
            "Service-Event-Type": EVENT_TYPE,
            "Service-Signature": f"t={stamp.decode()},v1={signature}",
        }
        async with self._session.post(
            self._url(event.merchant_id), data=event.body, headers=headers, allow_redirects=False
        ) as response:
            status = response.status
        if not 200 <= status < 300:
            raise Unanswered(f"status {status}")


@asynccontextmanager
async def poster(root: str, ca_file: Path | None = None) -> AsyncIterator[Poster]:
    """Open a session, for as long as it is entered; connections are made as they are needed."""
    tls = True if ca_file is None else ssl.create_default_context(cafile=str(ca_file))
    async with ClientSession(
        # Names by the system's getaddrinfo: it takes a little less of the processor than aiodns.
        connector=TCPConnector(limit=0, ssl=tls, keepalive_timeout=60, resolver=ThreadedResolver()),
        headers={
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": "webhook-dispatcher/rival",
            "Accept-Encoding": "identity",
        },
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        timeout=ClientTimeout(total=_DEADLINE, connect=None, sock_connect=None, sock_read=None),
    ) as session:
        yield Poster(session, root)


def url_of(root: str, merchant_id: str) -> str:
    """Return a merchant's URL: the root, in which a `*` stands for the merchant, and its id."""
    return root.replace("*", merchant_id) + merchant_id


def merchant(number: int) -> str:
    """Return a merchant's id."""
    return f"m-{number:06}"


def make_event(merchant_id: str, size: int, number: int) -> Event:
    """Make an event around an object of so many bytes."""
    event_id = uuid4()
    return Event(merchant_id, str(event_id), posted(event_id, body(size, number)))


def backlog(events: int, merchants: int, size: int) -> Iterator[Event]:
    """Make events, round the merchants."""
    return (make_event(merchant(number % merchants), size, number) for number in range(events))
