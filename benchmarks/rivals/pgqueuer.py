"""pgqueuer: one entrypoint that posts, one queue manager or several in one process.

Sources: https://janbjorge.github.io/pgqueuer/ (guides/performance-tuning, reference/drivers, guides/retry,
comparisons/benchmarks) and the source of 1.6.0.
"""

import argparse
import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import asyncpg
import psycopg
from aiohttp import ClientError
from pgqueuer import (
    AsyncpgDriver,
    AsyncpgPoolDriver,
    Job,
    PsycopgDriver,
    Queries,
    QueueManager,
    RetryRequested,
)
from pgqueuer.models import TracebackRecord
from pgqueuer.ports.driver import Driver
from pgqueuer.types import JOB_STATUS

from benchmarks.rivals.commands import Enqueue, main
from benchmarks.rivals.posting import RETRY_SECONDS, Event, Poster, Unanswered, merchant
from benchmarks.rivals.run import Run

ENTRYPOINT = "webhook"
POOL = 4
_SEPARATOR = b"\n"


class CountingQueries(Queries):
    """Says how many jobs have been logged as ended, once that is committed."""

    count: Callable[[int], None]

    async def log_jobs(self, job_status: list[tuple[Job, JOB_STATUS, TracebackRecord | None]]) -> None:
        """Write as pgqueuer does, then count."""
        await super().log_jobs(job_status)
        self.count(len(job_status))


class PgQueuerRival:
    """Everything the command line asks for."""

    def add_arguments(self, command: argparse.ArgumentParser, *, is_work: bool) -> None:
        """Add what it is tuned by; the defaults are what was found best."""
        if not is_work:
            command.add_argument("--ordered", action="store_true", help="an entrypoint for each merchant")
            return
        command.add_argument(
            "--ordered",
            type=int,
            default=0,
            metavar="MERCHANTS",
            help="so many, each with concurrency_limit 1",
        )
        command.add_argument("--driver", choices=("asyncpg", "pool", "psycopg"), default="asyncpg")
        command.add_argument("--workers", type=int, default=1, help="queue managers in this process")
        command.add_argument("--batch", type=int, default=100, help="of each: batch_size")
        command.add_argument(
            "--concurrency", type=int, default=400, help="of each: max_concurrent_tasks; 0: no limit"
        )
        command.add_argument("--in-flight", type=int, default=50, help="a semaphore in the handler; 0: none")

    async def prepare(self, dsn: str) -> None:
        """Install the schema (durable) and the recommended autovacuum settings (`pgq autovac`)."""
        connection = await asyncpg.connect(dsn)
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await queries.optimize_autovacuum()
        await connection.close()

    @asynccontextmanager
    async def enqueuing(self, dsn: str, options: argparse.Namespace) -> AsyncIterator[Enqueue]:
        """Enqueue by pgqueuer's own statement, a transaction by itself.

        It writes a row of the queue and one of the log, and a trigger notifies, so that commits of all
        producers wait for each other: the notification's lock is held until after the commit.
        """
        connection = await asyncpg.connect(dsn)
        queries = Queries(AsyncpgDriver(connection))

        async def enqueue(events: list[Event]) -> None:
            await queries.enqueue(
                [_entrypoint(event.merchant_id) if options.ordered else ENTRYPOINT for event in events],
                [_payload(event) for event in events],
                [0] * len(events),
            )

        yield enqueue
        await connection.close()

    async def work(self, dsn: str, events: Poster, run: Run, options: argparse.Namespace) -> None:
        """Let queue managers work until the run is over."""
        handle = _handler(events, options.in_flight)
        managers = []
        async with AsyncExitStack() as stack:
            for _ in range(options.workers):
                driver = await stack.enter_async_context(_connect(options.driver, dsn))
                queries = CountingQueries(driver)
                queries.count = run.finished
                manager = QueueManager(queries)
                manager.entrypoint(ENTRYPOINT)(handle)
                for number in range(options.ordered):
                    manager.entrypoint(_entrypoint(merchant(number)), concurrency_limit=1)(handle)
                managers.append(manager)
            await run.start()
            working = [
                asyncio.create_task(
                    manager.run(
                        batch_size=options.batch,
                        max_concurrent_tasks=options.concurrency or None,
                        log_aggregation_interval=timedelta(0),
                    )
                )
                for manager in managers
            ]
            await run.until_over(working, lambda: _shut_down(managers))


def _shut_down(managers: list[QueueManager]) -> None:
    for manager in managers:
        manager.shutdown.set()


def _entrypoint(merchant_id: str) -> str:
    return f"{ENTRYPOINT}/{merchant_id}"


def _payload(event: Event) -> bytes:
    return _SEPARATOR.join((event.merchant_id.encode(), event.event_id.encode(), event.body))


def _handler(events: Poster, in_flight: int) -> Callable[[Job], asyncio.Future[None]]:
    limit = asyncio.Semaphore(in_flight)

    async def post(job: Job) -> None:
        assert job.payload is not None
        merchant_id, event_id, body = job.payload.split(_SEPARATOR, 2)
        try:
            await events.post(Event(merchant_id.decode(), event_id.decode(), body))
        except (Unanswered, ClientError, TimeoutError) as error:
            if job.attempts >= len(RETRY_SECONDS):
                raise
            raise RetryRequested(timedelta(seconds=RETRY_SECONDS[job.attempts])) from error

    async def post_limited(job: Job) -> None:
        async with limit:
            await post(job)

    return post_limited if in_flight else post  # type: ignore[return-value]


@asynccontextmanager
async def _connect(name: str, dsn: str) -> AsyncIterator[Driver]:
    match name:
        case "asyncpg":
            single = await asyncpg.connect(dsn)
            yield AsyncpgDriver(single)
            await single.close()
        case "pool":
            async with asyncpg.create_pool(dsn, min_size=POOL, max_size=POOL) as pool:
                yield AsyncpgPoolDriver(pool)
        case _:
            async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
                yield PsycopgDriver(other)


if __name__ == "__main__":
    logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)
    main(PgQueuerRival(), __doc__)
