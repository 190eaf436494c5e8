"""One attempt on the connection: POST, wait for status line and headers, no longer than the deadline.

Never raises for what a receiver, its name server or its URL does: the result is an Answer or a Failure. The
deadline covers DNS, connect, TLS, sending and waiting. The verdict falls with the headers; a body is drained
only if it is small and at once there, so that the connection can be kept, else the connection is closed. A
failure on a kept connection before any byte of an answer is sent again at once, on a fresh one, inside the
same attempt and its deadline.
Nothing of what a receiver sent leaves this module but an integer, the names of a certificate that is refused,
and, where the operator asks for it, how the body of a failed attempt's answer begins.
Source: contract 1, 2.1 and 2.7.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from webhook_dispatcher.domain.verdict import NOT_SENT, Answer, Failure, Outcome, may_always
from webhook_dispatcher.transport.addresses import Address
from webhook_dispatcher.transport.connection import HttpConnection
from webhook_dispatcher.transport.dialling import Dialler
from webhook_dispatcher.transport.failures import (
    AttemptEnded,
    Expired,
    OutOfTime,
    Phase,
    Unsendable,
    Withheld,
    classify,
)
from webhook_dispatcher.transport.guard import Forbidden, Guard, Target
from webhook_dispatcher.transport.local_faults import is_local
from webhook_dispatcher.transport.parsing import REQUEST_TIMEOUT
from webhook_dispatcher.transport.pool import Pool
from webhook_dispatcher.transport.proxy import PROXY_PHASES, Proxy, classify_proxy
from webhook_dispatcher.transport.resolver import GuardedResolver
from webhook_dispatcher.transport.tls import authorities

_DEFAULT_KEPT_CONNECTIONS = 1000

# Everything our client, asyncio, uvloop (RuntimeError where asyncio raises OSError) and c-ares are known to
# raise for one request.
_EXPECTED = (AttemptEnded, OSError, EOFError, ValueError, RuntimeError, Forbidden)

_BROKEN = frozenset((Outcome.DISCONNECTED, Outcome.TLS))


class Sender:
    """Send POST requests over kept connections; an async context manager around all of them.

    user_agent: of requests whose headers have none, and of CONNECT.
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
        # The body is not used, so it need not be packed.
        self._unnamed = "Accept: */*\r\nAccept-Encoding: identity\r\n"
        self._own_headers = f"User-Agent: {user_agent}\r\n{self._unnamed}"
        self._authorities = authorities(ca_file)
        self._kept_connections = kept_connections
        self._nameservers = nameservers
        self._proxy = proxy
        self._excerpt_bytes = excerpt_bytes

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._resolver = GuardedResolver(
            self._guard,
            self._nameservers,
            self._proxy.host if self._proxy else None,
            attempt_seconds=self._timeout,
        )
        self._pool = Pool(self._loop, self._kept_connections)
        self._dialler = Dialler(
            self._guard,
            self._resolver,
            self._authorities,
            self._pool,
            self._proxy,
            self._user_agent,
            self._excerpt_bytes,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._pool.close()
        await self._resolver.close()

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, may_send: Callable[[], bool] = may_always
    ) -> Answer | Failure:
        """Make one attempt; the deadline starts now. NOT_SENT where it may not be sent when it could be."""
        deadline = self._loop.time() + self._timeout
        if self._pool.is_closed:
            return Failure(Outcome.CONNECT, "the sender is closed", is_ours=True)
        try:
            target = self._guard.target(url)
            head = self._render(target, headers, len(body))
        except Forbidden as error:
            return Failure(Outcome.BLOCKED, error.reason)
        except ValueError as error:
            return classify(error, Phase.RESOLVING)
        if self._proxy and target.url.scheme != "https":
            return Failure(Outcome.BLOCKED, "only https goes through the egress proxy")
        connection = self._pool.take(target.origin)
        if connection is not None:
            result = await self._exchange(connection, head, body, deadline, may_send)
            may_be_stale = result.status == REQUEST_TIMEOUT or result.outcome in _BROKEN
            if not (may_be_stale and connection.is_stale):
                return result
        dialled = await self._dial(target, deadline)
        if not isinstance(dialled, HttpConnection):
            # The receiver may have left the egress proxy too little time to be reached.
            had_less_time = connection is not None and dialled.outcome is Outcome.TIMEOUT
            return replace(dialled, is_ours=False) if had_less_time else dialled
        result = await self._exchange(dialled, head, body, deadline, may_send)
        return replace(result, is_costly=True) if dialled.was_costly and result is not NOT_SENT else result

    def _render(self, target: Target, headers: Mapping[str, str], length: int) -> bytes:
        """Write the head of a request. Raises ValueError for what is not one line each."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if not len(headers) == lines.count("\n") == lines.count("\r") or "\0" in lines:
            raise Unsendable
        own = self._unnamed if "User-Agent" in headers else self._own_headers
        return f"{target.opening}{own}{lines}Content-Length: {length}\r\n\r\n".encode()

    async def _dial(self, target: Target, deadline: float) -> HttpConnection | Failure:
        """Make a connection; every error becomes a failure."""
        dial = self._dialler.begin()
        try:
            async with asyncio.timeout_at(deadline) as limit:
                return await self._dialler.dial(target, dial)
        except TimeoutError as error:
            cause: Exception = OutOfTime(self._timeout) if limit.expired() else error
        except _EXPECTED as error:
            cause = error
        self._pool.renewals.failed()
        if dial.phase in PROXY_PHASES and not isinstance(cause, Forbidden) and not self._pool.is_closed:
            result = classify_proxy(cause, dial.phase)
        else:
            result = self._unanswered(cause, dial.phase, dial.approved)
        has_address = self._proxy is None and bool(dial.approved)
        return replace(
            result,
            origin=dial.origin(target, self._proxy),
            has_address=has_address,
            is_costly=dial.cost.is_high,
        )

    async def _exchange(
        self,
        connection: HttpConnection,
        head: bytes,
        body: bytes,
        deadline: float,
        may_send: Callable[[], bool],
    ) -> Answer | Failure:
        """Send one request; every error becomes a failure."""
        try:
            status = await connection.send(head, body, deadline, may_send)
        except Withheld:
            return NOT_SENT
        except Expired:
            return replace(
                self._unanswered(OutOfTime(self._timeout), connection.phase), origin=connection.network
            )
        except _EXPECTED as error:
            return replace(self._unanswered(error, connection.phase), origin=connection.network)
        except asyncio.CancelledError:
            connection.abort()
            raise
        is_fresh = connection.took_name and connection.requests == 1
        answer = Answer(status, connection.network, is_fresh)
        self._pool.put(connection, answer.outcome is Outcome.DELIVERED)
        if self._excerpt_bytes:
            excerpt, lingered = connection.take_excerpt()
            return replace(answer, excerpt=excerpt, lingered=lingered)
        return answer

    def _unanswered(self, cause: Exception, phase: Phase, tried: Collection[Address] = ()) -> Failure:
        """Classify the exception that ended an attempt, and mark the failure if it is our own."""
        result = classify(cause, phase)
        if self._pool.is_closed or is_local(cause, tried):
            return replace(result, is_ours=True)
        return result
