"""A merchant's receiver for laptops and tests: verifies signatures, misbehaves on request, logs everything.

As a process of its own: `python -m webhook_dispatcher.local.receiver --port 0 --log FILE` prints its URL.
"""

import argparse
import asyncio
import json
import signal
import ssl
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import quote, unquote

import uvloop

from webhook_dispatcher.domain.names import DEFAULT_NAMES, STANDARD_SIGNATURE, Names
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.arrivals import REFUSALS, Arrival, Signature, to_line, verify, verify_standard
from webhook_dispatcher.local.behaviour import Behaviour, Plan
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.local.exchange import Answer, Connection, Exchange

LOG_INTERVAL_SECONDS = 0.1
BACKLOG = 4096


__all__ = ["Arrival", "Behaviour", "Receiver"]


class Receiver:
    """A server on 127.0.0.1, and wherever it is told to listen besides; each merchant has a path of its own.

    secrets: what each merchant verifies with; may be added to while running. A merchant without one uses
        `any_secret`; without that its signatures are UNCHECKED.
    log: a file that gets each arrival as a line of JSON when it has ended.
    behaviour: of merchants for which `behave` was not called.
    keep: False forgets ended arrivals (for long runs with a log).
    refuses_forgeries: answers 401 to a wrong signature and 400 to a stale one, whatever the behaviour.
    forward: says what to answer instead of all that.
    names: by which the service's headers are looked for.
    on_arrival: told at the start and at the end of each.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
        secrets: Mapping[str, Secret] | None = None,
        any_secret: Secret | None = None,
        log: Path | None = None,
        behaviour: Behaviour | None = None,
        keep: bool = True,
        refuses_forgeries: bool = False,
        forward: Callable[[Exchange], Awaitable[Answer]] | None = None,
        on_arrival: Callable[[Arrival], None] | None = None,
        names: Names = DEFAULT_NAMES,
    ) -> None:
        self.names = names
        self.arrivals: list[Arrival] = []
        self.secrets: dict[str, Secret] = dict(secrets or {})
        self.port = port
        self._tls = tls
        self._any_secret = any_secret
        self._further_secrets: dict[str, list[Secret]] = {}
        self._log_file = log
        self._log: IO[str] | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._keep = keep
        self._default = behaviour or Behaviour()
        self._refuses_forgeries = refuses_forgeries
        self._on_arrival = on_arrival
        self._plans: dict[str, Plan] = {}
        self._merchant_turns: Counter[str] = Counter()
        self._event_turns: Counter[tuple[str, str]] = Counter()
        self._open: dict[Exchange, Arrival] = {}
        self._forward = forward
        self._forwarding: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._connection_count = 0
        self._waiters: set[asyncio.Event] = set()
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Self:
        if self._log_file is not None:
            self._log = self._log_file.open("a", encoding="utf-8")
        await self.listen_at("127.0.0.1")
        self.port = self._servers[0].sockets[0].getsockname()[1]
        return self

    async def listen_at(self, *addresses: str) -> None:
        """Accept connections at these addresses, too, on the same port."""
        server = await asyncio.get_running_loop().create_server(
            self._connect, addresses, self.port, ssl=self._tls, backlog=BACKLOG
        )
        self._servers.append(server)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for task in self._forwarding:
            task.cancel()
        for exchange in list(self._open):
            self._end(exchange, None)
        for connection in self._connections:
            connection.drop()
        with suppress(TimeoutError):
            # A client that stopped amid its TLS handshake would be waited for.
            async with asyncio.timeout(1):
                await asyncio.gather(*(server.wait_closed() for server in self._servers))
        if self._flush is not None:
            self._flush.cancel()
        if self._log is not None:
            self._log.close()

    def url(self, merchant_id: str, address: str = "127.0.0.1") -> str:
        """Return where a merchant's events go."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{address}:{self.port}/{quote(merchant_id, safe='')}"

    def accept(self, merchant_id: str, *secrets: Secret) -> None:
        """Set what a merchant verifies with: any of these, as around a rotation."""
        self.secrets[merchant_id], *self._further_secrets[merchant_id] = secrets

    def behave(
        self, merchant_id: str, *behaviours: Behaviour, per_event: bool = False, repeat: bool = False
    ) -> None:
        """Set what a merchant does with its next requests, one behaviour for each; the last one stays.

        per_event: counts the arrivals of each event instead of all of the merchant's.
        repeat: begins again after the last.
        """
        self._merchant_turns[merchant_id] = 0
        self._plans[merchant_id] = Plan(behaviours or (self._default,), per_event, repeat)

    def answer_hanging(self, merchant_id: str, status: int = 200) -> None:
        """Answer a merchant's requests that hang."""
        for exchange in [of for of, arrival in self._open.items() if arrival.merchant_id == merchant_id]:
            self._finish(exchange, Behaviour(status))

    def of(self, merchant_id: str) -> list[Arrival]:
        """Return one merchant's arrivals."""
        return [arrival for arrival in self.arrivals if arrival.merchant_id == merchant_id]

    @contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each start and end of an arrival; the caller clears it."""
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        try:
            yield waiter
        finally:
            self._waiters.discard(waiter)

    async def wait_for(self, predicate: Callable[[Sequence[Arrival]], bool], deadline: timedelta) -> None:
        """Wait until the arrivals are as wished; TimeoutError with a tally when they are not in time."""
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                with self.watch() as changed:
                    while not predicate(self.arrivals):
                        await changed.wait()
                        changed.clear()
        except TimeoutError:
            tally = Counter((arrival.merchant_id, arrival.status) for arrival in self.arrivals)
            raise TimeoutError(
                f"not within {deadline}; arrivals by merchant and status: {dict(tally)}"
            ) from None

    def received(self, exchange: Exchange) -> None:
        """Log a request and behave as planned (called by the connection)."""
        merchant_id = unquote(exchange.target.partition("?")[0][1:])
        event_id = exchange.headers.get(self.names.event_id.lower(), "")
        turn = self._event_turns[merchant_id, event_id]
        self._event_turns[merchant_id, event_id] += 1
        secret = self.secrets.get(merchant_id, self._any_secret)
        further = self._further_secrets.get(merchant_id, ())
        arrival = Arrival(
            merchant_id=merchant_id,
            event_id=event_id,
            type=exchange.headers.get(self.names.event_type.lower(), ""),
            attempt=turn + 1,
            started_at=exchange.started_at,
            connection=exchange.connection,
            signature=Signature.UNCHECKED if secret is None else self._verify(exchange, (secret, *further)),
            headers=exchange.headers,
            body=exchange.body,
        )
        self._open[exchange] = arrival
        if self._keep:
            self.arrivals.append(arrival)
        self._tell(arrival)
        if self._forward is not None:
            task = asyncio.create_task(self._pass_on(exchange, arrival, self._forward(exchange)))
            self._forwarding.add(task)
            task.add_done_callback(self._forwarding.discard)
            return
        behaviour = self._next_behaviour(merchant_id, turn)
        refusal = REFUSALS.get(arrival.signature) if self._refuses_forgeries else None
        self._behave(exchange, Behaviour(refusal) if refusal else behaviour)

    def _verify(self, exchange: Exchange, secrets: Sequence[Secret]) -> Signature:
        """Check the service's signature, and the standard one where it is right and there is one."""
        headers, body, unix = exchange.headers, exchange.body, time.time()
        found = verify(headers.get(self.names.signature.lower()), body, secrets, unix)
        if found is not Signature.RIGHT or STANDARD_SIGNATURE not in headers:
            return found
        return verify_standard(headers, body, secrets, unix)

    def abandoned(self, exchange: Exchange) -> None:
        """Log that the sender gave up (called by the connection)."""
        self._end(exchange, None)

    def closed(self, connection: Connection) -> None:
        """Forget a connection (called by it)."""
        self._connections.discard(connection)

    def _connect(self) -> Connection:
        self._connection_count += 1
        connection = Connection(self, self._connection_count, time.monotonic)
        self._connections.add(connection)
        return connection

    def _next_behaviour(self, merchant_id: str, event_turn: int) -> Behaviour:
        plan = self._plans.get(merchant_id)
        if plan is None:
            return self._default
        turn = event_turn if plan.per_event else self._merchant_turns[merchant_id]
        self._merchant_turns[merchant_id] += 1
        return plan.behaviour(turn)

    def _behave(self, exchange: Exchange, behaviour: Behaviour) -> None:
        if behaviour.hangs:
            return
        if behaviour.delay:
            asyncio.get_running_loop().call_later(
                behaviour.delay.total_seconds(), self._finish, exchange, behaviour
            )
        else:
            self._finish(exchange, behaviour)

    async def _pass_on(self, exchange: Exchange, arrival: Arrival, forwarded: Awaitable[Answer]) -> None:
        answer = await forwarded
        arrival.answer = answer.text
        self._finish(exchange, Behaviour(answer.status))

    def _finish(self, exchange: Exchange, behaviour: Behaviour) -> None:
        if exchange not in self._open:
            return
        self._open[exchange].was_cut = behaviour.disconnects
        # Before the answer: what the sender does next starts after this end, by our clock.
        self._end(exchange, None if behaviour.disconnects or behaviour.raw is not None else behaviour.status)
        if behaviour.disconnects:
            exchange.disconnect()
        elif behaviour.raw is not None:
            exchange.send(behaviour.raw)
        else:
            exchange.answer(behaviour.status)

    def _end(self, exchange: Exchange, status: int | None) -> None:
        arrival = self._open.pop(exchange, None)
        if arrival is None:
            return
        arrival.ended_at = time.monotonic()
        arrival.status = status
        if self._log is not None:
            self._log.write(to_line(arrival) + "\n")
            if self._flush is None:
                self._flush = asyncio.get_running_loop().call_later(LOG_INTERVAL_SECONDS, self._flush_log)
        self._tell(arrival)

    def _flush_log(self) -> None:
        self._flush = None
        if self._log is not None:
            self._log.flush()

    def _tell(self, arrival: Arrival) -> None:
        if self._on_arrival is not None:
            self._on_arrival(arrival)
        for waiter in self._waiters:
            waiter.set()


async def serve(options: argparse.Namespace) -> None:
    """Receive until told to stop."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    tls = None if options.ca_file is None else server_context(options.ca_file)
    async with Receiver(tls=tls, port=options.port, log=options.log, keep=False) as receiver:
        for merchant_id, known in json.loads(
            options.secrets.read_text() if options.secrets else "{}"
        ).items():
            receiver.accept(merchant_id, *map(Secret, [known] if isinstance(known, str) else known))
        for merchant_id, behaviours in json.loads(options.behaviours).items():
            receiver.behave(merchant_id, *(Behaviour.parse(values) for values in behaviours), repeat=True)
        sys.stdout.write(f"{receiver.url('')}\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    """Read the command line of a receiver in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, help="a file for the arrivals, lines of JSON")
    parser.add_argument("--ca-file", type=Path, help="serve https, and write the authority to trust here")
    parser.add_argument(
        "--secrets", type=Path, help='a JSON file: {"merchant": "whsec_..."}, or a list of them'
    )
    parser.add_argument(
        "--behaviours", default="{}", help='JSON: {"merchant": [{"status": 500, "delay": 1}]}'
    )
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
