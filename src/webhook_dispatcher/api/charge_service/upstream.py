"""The charge service behind this API: one request, made anew from the parts of the client's, and its answer.

Nothing of the client's request is copied but the bytes of its body. The path is the operation's template with
identifiers that are encoded here, the query is encoded here, and every header is made here; so a client can
neither name another merchant, nor add a header (hop-by-hop or not), nor make two requests of one. Of the
answer, its status, its body and Retry-After are read; none of its headers is passed on.

A request is sent once. On a kept connection that the charge service closed meanwhile, aiohttp sends anew what
is idempotent by its method; a POST ends as away, and the client repeats it with its key.
Source: docs/producers/charge-service.md.
"""

import asyncio
import hashlib
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import SimpleNamespace, TracebackType
from typing import Any, Self
from urllib.parse import quote

from aiohttp import (
    ClientError,
    ClientPayloadError,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    ThreadedResolver,
    TraceConfig,
)
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_parser import RawResponseMessage
from yarl import URL

from webhook_dispatcher.api.charge_service.upstream_answers import (
    KnownCodes,
    Reply,
    UpstreamAway,
    UpstreamBroken,
    UpstreamTooSlow,
    judge,
)
from webhook_dispatcher.domain.event import CONTENT_TYPE
from webhook_dispatcher.transport.authorities import Authorities
from webhook_dispatcher.transport.renewal import Renewals
from webhook_dispatcher.web.router import PARAMETER

ANSWER_TIMEOUT = timedelta(seconds=30)
CONNECT_SECONDS = 5.0
IDLE_SECONDS = 15.0
"""How long an idle connection is kept: less than what the charge service is asked to keep it for."""
NAME_SECONDS = 10.0
"""How long an address that was found is used for new connections."""
MAX_CONNECTIONS = 100
MAX_ANSWER_BYTES = 4 << 20
MAX_ID_BYTES = 255

TakeMemory = Callable[[int], None]
"""Reserves so many bytes, or raises."""

# Encoded or not, servers disagree about these: %2F may become a slash before routing, %25 a percent sign.
_NEVER_IN_AN_ID = re.compile(r"[\x00-\x1f\x7f-\x9f/\\%]")
# What aiohttp, asyncio and uvloop raise for one request (see transport/aiohttp_errors.py).
_EXPECTED = (ClientError, OSError, EOFError, ValueError, RuntimeError)


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What is asked of the charge service.

    template: the operation's, such as /v1/cards/{id}/confirm; parameters and query are decoded.
    body: JSON as it was hashed, or none.
    idempotency_key: what `derived_key` gave, or none.
    """

    method: str
    template: str
    merchant_id: str
    request_id: str
    language: str
    parameters: Mapping[str, str]
    query: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    idempotency_key: str | None = None


class Unaddressable(Exception):
    """This id or query cannot be sent so that every server reads the same; the client is told: not found."""


def derived_key(client_id: str, method: str, target: str, key: str) -> str:
    """Make the key that the charge service gets: one for each API key, method, path with query, and key.

    Each part has its length before it, so that no two requests give the same bytes.
    """
    digest = hashlib.sha256()
    for part in (client_id, method, target, key):
        # Text of a request may hold lone surrogates, which stand for bytes that are no UTF-8.
        octets = part.encode("utf-8", "surrogatepass")
        digest.update(len(octets).to_bytes(8, "big") + octets)
    return digest.hexdigest()


def target_of(template: str, parameters: Mapping[str, str], query: Sequence[tuple[str, str]] = ()) -> str:
    """Write path and query. Unaddressable where a parameter could mean another path to some server."""
    try:
        path = PARAMETER.sub(lambda match: _segment(parameters[match[1]]), template)
        pairs = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in query)
    except UnicodeEncodeError:  # bytes that are no UTF-8
        raise Unaddressable from None
    return f"{path}?{pairs}" if pairs else path


def _segment(value: str) -> str:
    if not value or value.startswith(".") or _NEVER_IN_AN_ID.search(value):
        raise Unaddressable
    if len(value.encode()) > MAX_ID_BYTES:
        raise Unaddressable
    return _quoted(value)


def _quoted(value: str) -> str:
    """Leave letters, digits and -._~ as they are, and nothing else."""
    return quote(value, safe="")


@dataclass(slots=True)
class _Progress:
    """How far one request has come. is_connected: it had a connection, so it may have been sent."""

    is_connected: bool = False


class _Connection(ResponseHandler):
    """A connection that is given up by its age after an answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, renewals: Renewals) -> None:
        super().__init__(loop)
        self._renewals = renewals
        self._age = renewals.newborn()

    def feed_data(self, data: tuple[RawResponseMessage, Any], size: int = 0) -> None:
        """Take in the head of an answer."""
        status = data[0].code
        if status >= 200 and self._renewals.is_due(self._age, status <= 299):
            self.force_close()
        super().feed_data(data, size)


class _Connector(TCPConnector):
    """Makes connections, and leads them to where the charge service is now."""

    def __init__(self, max_connections: int) -> None:
        super().__init__(
            limit=max_connections,
            keepalive_timeout=IDLE_SECONDS,
            # Not c-ares, which keeps "no address" for an hour (see transport/resolver.py).
            resolver=ThreadedResolver(),
            ttl_dns_cache=NAME_SECONDS,  # type: ignore[arg-type]
        )
        self.renewals = Renewals(self._loop)
        # Private to aiohttp; test_a_charge_service_that_moves_is_followed fails if this stops working.
        self._factory = partial(_Connection, self._loop, self.renewals)  # type: ignore[assignment]


class Upstream:
    """Forward requests over kept connections; an async context manager around one session.

    url: before the path of each operation. timeout: for all of a request, from waiting for a connection on.
    max_connections: at once; a request beyond them waits.
    """

    def __init__(
        self,
        url: str,
        codes: KnownCodes,
        user_agent: str,
        *,
        timeout: timedelta = ANSWER_TIMEOUT,
        max_connections: int = MAX_CONNECTIONS,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._base = str(URL(url)).rstrip("/")
        self._codes = codes
        self._user_agent = user_agent
        self._timeout = timeout.total_seconds()
        self._max_connections = max_connections
        self._max_answer_bytes = max_answer_bytes
        self._authorities = Authorities(_tls_context)

    async def __aenter__(self) -> Self:
        connector = _Connector(self._max_connections)
        self._renewals = connector.renewals
        self._session = ClientSession(
            connector=connector,
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            # Neither a proxy nor a password from the environment.
            trust_env=False,
            # aiohttp rounds deadlines up to whole seconds; asyncio.timeout does not.
            timeout=ClientTimeout(total=None, sock_connect=min(CONNECT_SECONDS, self._timeout)),
            trace_configs=[_tracing(self._renewals)],
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._session.close()

    async def forward(self, request: UpstreamRequest, take_memory: TakeMemory = lambda _: None) -> Reply:
        """Ask the charge service; return what it answers, or how it failed to.

        take_memory: is told of the answer's bytes as they come.
        Errors: Unaddressable; nothing was sent. What take_memory raises; the rest of the answer is not read.
        """
        target = target_of(request.template, request.parameters, request.query)
        url = URL(self._base + target, encoded=True)
        # Outside the try: an id that cannot be encoded is our mistake; it must not look like a failed answer.
        headers = headers_of(request, self._user_agent)
        progress = _Progress()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(request, url, headers, progress, take_memory)
        except _EXPECTED as error:
            if not progress.is_connected:
                self._renewals.failed()
            return _failure(error, progress)

    async def _exchange(
        self,
        request: UpstreamRequest,
        url: URL,
        headers: Mapping[str, str],
        progress: _Progress,
        take_memory: TakeMemory,
    ) -> Reply:
        async with self._session.request(
            request.method,
            url,
            data=request.body,
            headers=headers,
            allow_redirects=False,
            ssl=self._authorities.context(),
            trace_request_ctx=progress,
        ) as response:
            # Where we return before the end of an answer, aiohttp closes its connection.
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                return UpstreamBroken("its answer is compressed, which was not asked for")
            body = await _read(response, self._max_answer_bytes, take_memory)
            if body is None:
                return UpstreamBroken(f"its answer is larger than {self._max_answer_bytes} bytes")
            return judge(response.status, body, self._codes, response.headers.get("Retry-After"))


def _tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # not every build's default
    context.set_alpn_protocols(["http/1.1"])
    return context


def headers_of(request: UpstreamRequest, user_agent: str) -> dict[str, str]:
    """Make all headers but Host and Content-Length.

    What comes from outside is percent-encoded: a merchant's id may end in a blank or hold any letter.
    """
    headers = {
        "Service-Merchant-Id": _quoted(request.merchant_id),
        "X-Request-Id": _quoted(request.request_id),
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Accept-Language": request.language,
        "User-Agent": user_agent,
    }
    if request.body is not None:
        # A charge service in Java may read it as text: its servlets take Latin-1 where no charset is named.
        headers["Content-Type"] = CONTENT_TYPE
    if request.idempotency_key is not None:
        headers["Idempotency-Key"] = request.idempotency_key
    return headers


async def _read(response: ClientResponse, max_bytes: int, take_memory: TakeMemory) -> bytes | None:
    """Read the body, or stop as soon as it is known to be too large."""
    if (response.content_length or 0) > max_bytes:
        return None
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > max_bytes:
            return None
        take_memory(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def _failure(error: Exception, progress: _Progress) -> Reply:
    """Say what an exchange without a complete answer showed; the classes overlap, so the order matters."""
    what = type(error).__name__
    match error:
        case ClientSSLError():  # that of a certificate is a ValueError, too
            return UpstreamAway(what, may_have_acted=False)
        case TimeoutError() if progress.is_connected:
            return UpstreamTooSlow("it gave no complete answer in time")
        # aiohttp's own reason for a head that is no HTTP; the status in it is not the charge service's.
        case ClientResponseError() | ValueError():
            return UpstreamBroken(f"its answer is no HTTP ({what})")
        case ClientPayloadError():
            return UpstreamAway("it broke off its answer", may_have_acted=True)
        case _:
            return UpstreamAway(what, may_have_acted=progress.is_connected)


def _tracing(renewals: Renewals) -> TraceConfig:
    """Note for each request that it has a connection, be it new or kept."""

    async def made(_session: ClientSession, _context: SimpleNamespace, _params: Any) -> None:
        renewals.connected()

    async def connected(_session: ClientSession, context: SimpleNamespace, _params: Any) -> None:
        context.trace_request_ctx.is_connected = True

    tracing = TraceConfig()
    tracing.on_connection_create_end.extend((made, connected))
    tracing.on_connection_reuseconn.append(connected)
    return tracing
