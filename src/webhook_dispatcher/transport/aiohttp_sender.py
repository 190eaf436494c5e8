"""The same attempt as in sender.py, made by aiohttp's client: an escape for operators, and the reference.

What an attempt may do and what it shows is the same; test_sender* runs against both. Connecting (Happy
Eyeballs, TLS, the proxy's CONNECT), writing, parsing and pooling are aiohttp's; the guard, the resolver, the
resend and the classification of failures are ours.
Beyond what tests/integration/senders.py lists, one thing differs: a TLS handshake gets 60 s at most, whatever
the deadline.
Source: contract 1, 2.1 and 2.7; docs/adr/0010-a-client-of-our-own-on-llhttp.md.
"""

import asyncio
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar

from webhook_dispatcher.domain.verdict import NOT_SENT, Answer, Failure, Outcome, may_always
from webhook_dispatcher.transport.aiohttp_connections import (
    Dial,
    GuardedConnector,
    Resolver,
    ScopedRequest,
    current_dial,
)
from webhook_dispatcher.transport.aiohttp_errors import EXPECTED, translate
from webhook_dispatcher.transport.failures import HandshakeFailed, OutOfTime, Withheld, classify
from webhook_dispatcher.transport.guard import Forbidden, Guard, Target
from webhook_dispatcher.transport.local_faults import is_local
from webhook_dispatcher.transport.parsing import EXCERPT_SECONDS, as_text
from webhook_dispatcher.transport.proxy import PROXY_PHASES, Proxy, classify_proxy
from webhook_dispatcher.transport.resolver import GuardedResolver
from webhook_dispatcher.transport.tls import authorities

# aiohttp's defaults (8,190 bytes, 128 headers) turn honest answers into failures.
_LINE_LIMIT = 64 * 1024
_HEADERS_LIMIT = 1000

# aiohttp warns of more bytes in one write.
_AT_ONCE_BYTES = 1 << 20

# As in connection.py: more than the 40 ms of a delayed ACK between a receiver's two writes.
_DRAIN_SECONDS = 0.05
_DRAIN_BYTES = 4096
_LENGTH_DIGITS = 4

_DEFAULT_KEPT_CONNECTIONS = 1000

_BROKEN = frozenset((Outcome.DISCONNECTED, Outcome.TLS))
_REQUEST_TIMEOUT = Answer(408)


class AiohttpSender:
    """Send POST requests over kept connections; an async context manager around one session.

    user_agent: of requests whose headers have none.
    kept_connections: how many may stay open between requests; others are closed after their answer.
    nameservers: "address:port", instead of the system's.
    proxy: every request goes through it, and what is not https goes nowhere.
    excerpt_bytes: how much is wanted of the body of an answer that is no delivery.
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
        excerpt_bytes: int = 0,
    ) -> None:
        self._guard = guard
        self._timeout = timeout.total_seconds()
        self._user_agent = user_agent
        self._authorities = authorities(ca_file)
        self._kept_connections = kept_connections
        self._nameservers = nameservers
        self._proxy = proxy
        self._excerpt_bytes = excerpt_bytes

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._resolver = Resolver(
            GuardedResolver(
                self._guard,
                self._nameservers,
                self._proxy.host if self._proxy else None,
                attempt_seconds=self._timeout,
            )
        )
        self._connector = GuardedConnector(self._guard, self._resolver, self._kept_connections)
        self._session = ClientSession(
            connector=self._connector,
            request_class=ScopedRequest,
            # The body is not used, so it need not be packed.
            headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
            skip_auto_headers=("Content-Type",),
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
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._session.close()
        await self._resolver.close()

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, may_send: Callable[[], bool] = may_always
    ) -> Answer | Failure:
        """Make one attempt; the deadline starts now. NOT_SENT where it may not be sent when it could be."""
        deadline = self._loop.time() + self._timeout
        if self._session.closed:
            return Failure(Outcome.CONNECT, "the sender is closed", is_ours=True)
        try:
            target = self._guard.target(url)
        except Forbidden as error:
            return Failure(Outcome.BLOCKED, error.reason)
        if self._proxy and target.url.scheme != "https":
            return Failure(Outcome.BLOCKED, "only https goes through the egress proxy")
        dial = Dial(url, target.is_trusted, is_proxied=self._proxy is not None, may_send=may_send)
        result = await self._attempt(target, headers, body, deadline, dial)
        if _is_resent(result, dial):
            dial = replace(dial, must_be_fresh=True, handler=None, sockets=[])
            result = await self._attempt(target, headers, body, deadline, dial)
            if isinstance(result, Failure) and result.outcome is Outcome.TIMEOUT:
                # The receiver may have left the egress proxy too little time to be reached.
                result = replace(result, is_ours=False)
        if result is NOT_SENT:
            return NOT_SENT
        origin = dial.network or target.url.raw_host or ""
        if isinstance(result, Answer):
            took_name = dial.took_name or dial.is_proxied
            return replace(result, origin=origin, is_fresh=took_name and not dial.is_reused)
        return replace(result, origin=origin, has_address=dial.handler is not None or bool(dial.network))

    async def _attempt(
        self, target: Target, headers: Mapping[str, str], body: bytes, deadline: float, dial: Dial
    ) -> Answer | Failure:
        """Send one request; whatever happens becomes an answer or a failure."""
        token = current_dial.set(dial)
        try:
            async with asyncio.timeout_at(deadline) as limit:
                response = await self._session.post(
                    target.url,
                    data=body if len(body) <= _AT_ONCE_BYTES else io.BytesIO(body),
                    headers=headers,
                    allow_redirects=False,
                    ssl=self._authorities.context(),
                    proxy_headers=self._proxy.headers() if self._proxy else None,
                )
        except Withheld:
            return NOT_SENT
        except TimeoutError as error:
            return self._unanswered(OutOfTime(self._timeout) if limit.expired() else error, dial)
        except EXPECTED as error:
            return self._unanswered(error, dial)
        finally:
            current_dial.reset(token)
        answer = Answer(response.status)
        if self._excerpt_bytes and answer.outcome is Outcome.STATUS and not _is_resent(answer, dial):
            answer = await self._quote(answer, response, deadline)
        if response.connection is not None:
            await self._drain(response, deadline)
        return answer

    def _unanswered(self, error: Exception, dial: Dial) -> Failure:
        """Say what an attempt without an answer showed, and whether it is our own doing."""
        cause = translate(error, dial.phase)
        if dial.handler is None:
            self._connector.renewals.failed()
        is_refused = dial.handler is not None and dial.handler.broke_in_handshake
        if is_refused and isinstance(cause, ConnectionError):
            cause = HandshakeFailed()
        if dial.refused is not None and not isinstance(cause, OutOfTime):
            cause = Forbidden(dial.refused)
        is_closed = self._session.closed
        if dial.phase in PROXY_PHASES and not isinstance(cause, Forbidden) and not is_closed:
            return classify_proxy(cause, dial.phase)
        result = classify(cause, dial.phase)
        return replace(result, is_ours=True) if is_closed or is_local(cause, dial.approved) else result

    async def _quote(self, answer: Answer, response: ClientResponse, deadline: float) -> Answer:
        """Add how the body begins, as far as it comes soon."""
        start, body = self._loop.time(), b""
        try:
            async with asyncio.timeout_at(min(deadline, start + EXCERPT_SECONDS)):
                while len(body) < self._excerpt_bytes and not response.content.at_eof():
                    body += (await response.content.readany())[: self._excerpt_bytes]
        except EXPECTED:
            pass  # What has come will do.
        except asyncio.CancelledError:
            response.close()
            raise
        excerpt = as_text(body, self._excerpt_bytes)
        return replace(answer, excerpt=excerpt, lingered=self._loop.time() - start)

    async def _drain(self, response: ClientResponse, deadline: float) -> None:
        """Read the rest of a small body, so that the connection can be kept; close it otherwise."""
        try:
            if _is_small(response):
                async with asyncio.timeout_at(min(deadline, self._loop.time() + _DRAIN_SECONDS)):
                    taken = 0
                    # At the end of the body aiohttp gives the connection back by itself.
                    while not response.content.at_eof() and taken <= _DRAIN_BYTES:
                        taken += len(await response.content.readany())
        except EXPECTED:
            pass  # The verdict has fallen; the connection is closed below.
        finally:
            if response.connection is not None:
                response.close()


def _is_resent(result: Answer | Failure, dial: Dial) -> bool:
    """Tell whether a kept connection was given up by the other side before it had our request.

    408: sent to an idle connection, it crosses the request (RFC 9110, 15.5.9).
    """
    if not dial.is_reused:
        return False
    is_silent = dial.handler is not None and not dial.handler.is_answering
    is_early = dial.handler is not None and dial.handler.is_early
    return (result == _REQUEST_TIMEOUT and is_early) or (result.outcome in _BROKEN and is_silent)


def _is_small(response: ClientResponse) -> bool:
    """Tell whether the body may end soon with the connection kept: a short one, or one in chunks."""
    length = response.headers.get("Content-Length")
    if length is not None:
        # Not aiohttp's content_length: Python refuses to read thousands of digits, zeros included.
        return len(length) <= _LENGTH_DIGITS and int(length) <= _DRAIN_BYTES
    return response.headers.get("Transfer-Encoding", "").lower() == "chunked"
