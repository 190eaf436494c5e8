"""One attempt on the wire: POST, wait for status line and headers, no longer than the deadline.

Never raises for what a receiver, its name server or its URL does: the result is an Answer or a Failure. The
deadline covers DNS, connect, TLS, sending and waiting. The verdict falls with the headers; a body is drained
only if it is small and at once there, so that the connection can be kept, else the connection is closed. A
failure on a kept connection before any byte of an answer is sent again at once, on a fresh one, inside the
same attempt and its deadline.
Nothing of what a receiver sent leaves this module but an integer.
Source: contract 1, 2.1 and 2.7.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.blame import is_local
from webhook_dispatcher.transport.connector import Dial, GuardedConnector, current_dial
from webhook_dispatcher.transport.guard import Forbidden, Guard, Target
from webhook_dispatcher.transport.proxy import PROXY_PHASES, Proxy, read_proxy
from webhook_dispatcher.transport.reading import OutOfTime, read
from webhook_dispatcher.transport.resolver import GuardedResolver

# aiohttp's defaults (8,190 bytes, 128 headers) turn honest answers into failures.
_LINE_LIMIT = 64 * 1024
_HEADERS_LIMIT = 1000

# What is left of a body is waited for this long at most: more than the 40 ms of a delayed ACK between a
# receiver's two writes.
_DRAIN_SECONDS = 0.05
_DRAIN_BYTES = 4096
_LENGTH_DIGITS = 4

_DEFAULT_KEPT_CONNECTIONS = 1000

_BROKEN = frozenset((Outcome.DISCONNECTED, Outcome.TLS))

# Everything aiohttp, asyncio, uvloop (RuntimeError where asyncio raises OSError) and http header checks
# (ValueError) are known to raise for one request.
_EXPECTED = (ClientError, OSError, EOFError, ValueError, RuntimeError, Forbidden)


class Sender:
    """Send POST requests over kept connections; an async context manager around one session.

    kept_connections: how many may stay open between requests; others are closed after their answer.
    nameservers: "address:port", instead of the system's.
    proxy: every request goes through it, and what is not https goes nowhere.
    """

    def __init__(
        self,
        guard: Guard,
        timeout: timedelta,
        user_agent: str,
        ca_file: Path | None = None,
        *,
        kept_connections: int = _DEFAULT_KEPT_CONNECTIONS,
        nameservers: Sequence[str] = (),
        proxy: Proxy | None = None,
    ) -> None:
        self._guard = guard
        self._timeout = timeout.total_seconds()
        self._user_agent = user_agent
        self._context = _tls_context(ca_file)
        self._kept_connections = kept_connections
        self._nameservers = nameservers
        self._proxy = proxy

    async def __aenter__(self) -> Self:
        self._resolver = GuardedResolver(
            self._guard, self._nameservers, self._proxy.host if self._proxy else None
        )
        self._session = ClientSession(
            connector=GuardedConnector(self._guard, self._resolver, self._context, self._kept_connections),
            # The body is not used, so it need not be packed.
            headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            # Never a proxy from the environment.
            trust_env=False,
            proxy=self._proxy.url if self._proxy else None,
            # aiohttp rounds deadlines up to whole seconds; asyncio.timeout_at does not.
            timeout=ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            max_line_size=_LINE_LIMIT,
            max_field_size=_LINE_LIMIT,
            max_headers=_HEADERS_LIMIT,
        )
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._session.close()
        await self._resolver.close()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer | Failure:
        """Make one attempt; the deadline starts now."""
        deadline = self._loop.time() + self._timeout
        try:
            target = self._guard.target(url)
        except Forbidden as error:
            return Failure(Outcome.BLOCKED, error.reason)
        if self._proxy and target.url.scheme != "https":
            return Failure(Outcome.BLOCKED, "only https goes through the egress proxy")
        dial = Dial(target.is_trusted, is_proxied=self._proxy is not None)
        seen = await self._attempt(target, headers, body, deadline, dial)
        if seen.outcome in _BROKEN and dial.is_stale:
            fresh = Dial(target.is_trusted, must_be_fresh=True, is_proxied=dial.is_proxied)
            return await self._attempt(target, headers, body, deadline, fresh)
        return seen

    async def _attempt(
        self, target: Target, headers: Mapping[str, str], body: bytes, deadline: float, dial: Dial
    ) -> Answer | Failure:
        """Send one request; whatever happens becomes an answer or a failure."""
        token = current_dial.set(dial)
        try:
            async with asyncio.timeout_at(deadline) as limit:
                response = await self._session.post(
                    target.url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy_headers=self._proxy.headers() if self._proxy else None,
                )
        except TimeoutError as error:
            return self._unanswered(OutOfTime(self._timeout) if limit.expired() else error, dial)
        except _EXPECTED as error:
            return self._unanswered(error, dial)
        finally:
            current_dial.reset(token)
        if response.connection is not None:
            await self._drain(response, deadline)
        return read(response.status, dial.phase)

    def _unanswered(self, sight: Exception, dial: Dial) -> Answer | Failure:
        """Say what an attempt without an answer showed, and whether it is our own doing."""
        if dial.phase in PROXY_PHASES and dial.refused is None and not self._session.closed:
            return read_proxy(sight, dial.phase)
        seen = read(sight, dial.phase, dial.refused)
        if isinstance(seen, Failure) and (self._session.closed or is_local(sight, dial.approved)):
            return replace(seen, is_ours=True)
        return seen

    async def _drain(self, response: ClientResponse, deadline: float) -> None:
        """Read the rest of a small body, so that the connection can be kept; close it otherwise."""
        try:
            if _is_small(response):
                async with asyncio.timeout_at(min(deadline, self._loop.time() + _DRAIN_SECONDS)):
                    await _read_to_end(response)
        except _EXPECTED:
            pass  # The verdict has fallen; the connection is closed below.
        finally:
            if response.connection is not None:
                response.close()


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Verify against the system's roots, plus those of a file. Raises ConfigurationError."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"WEBHOOK_EGRESS_CA_FILE: {str(ca_file)!r} is not a readable PEM file of certificates"
            ) from error
    return context


def _is_small(response: ClientResponse) -> bool:
    """Tell whether the body may end soon with the connection kept: a short one, or one in chunks."""
    length = response.headers.get("Content-Length")
    if length is not None:
        # Not aiohttp's content_length: Python refuses to read thousands of digits, zeros included.
        return len(length) <= _LENGTH_DIGITS and int(length) <= _DRAIN_BYTES
    return response.headers.get("Transfer-Encoding", "").lower() == "chunked"


async def _read_to_end(response: ClientResponse) -> None:
    """Read up to the limit; at the end of the body aiohttp gives the connection back by itself."""
    taken = 0
    while not response.content.at_eof() and taken <= _DRAIN_BYTES:
        taken += len(await response.content.readany())
