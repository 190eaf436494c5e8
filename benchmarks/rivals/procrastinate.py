"""procrastinate: one task that posts, one worker or several in one process.

Sources: https://procrastinate.readthedocs.io (howto/advanced/locks, howto/advanced/retry,
howto/basics/worker, howto/production/external_connection, discussions: pool size) and the source of 3.10.0.
"""

import argparse
import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import procrastinate
import psycopg
from aiohttp import ClientError
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from psycopg_pool import AsyncConnectionPool

from benchmarks.rivals.commands import Enqueue, main
from benchmarks.rivals.posting import RETRY_SECONDS, Event, Poster, Unanswered
from benchmarks.rivals.run import Run

QUEUE = "webhook"


class CountingManager(JobManager):
    """Says how many jobs have ended, once that is committed."""

    count: Callable[[int], None]

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Write as procrastinate does, then count."""
        await super().finish_job(job, status, delete_job)
        self.count(1)


class Schedule(procrastinate.BaseRetryStrategy):
    """The delays of webhook-dispatcher; a retry leaves its merchant's lock, so that it holds nothing back."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> procrastinate.RetryDecision | None:
        """Return when to try again, or None after the last attempt."""
        is_expected = isinstance(exception, (Unanswered, ClientError, TimeoutError))
        if not is_expected or job.attempts >= len(RETRY_SECONDS):
            return None
        lock = f"{job.lock}/{job.id}" if job.lock else None
        return procrastinate.RetryDecision(retry_in={"seconds": RETRY_SECONDS[job.attempts]}, lock=lock)


class ProcrastinateRival:
    """Everything the command line asks for."""

    def add_arguments(self, command: argparse.ArgumentParser, *, is_work: bool) -> None:
        """Add what it is tuned by; the defaults are what was found best."""
        if not is_work:
            command.add_argument(
                "--ordered", action="store_true", help="a lock for each merchant: one job at a time, in order"
            )
            return
        command.add_argument("--workers", type=int, default=8, help="workers in this process")
        command.add_argument("--concurrency", type=int, default=4, help="of each")
        command.add_argument("--pool", type=int, default=16, help="connections, all workers together")
        command.add_argument("--delete", action="store_true", help="delete_jobs=successful instead of never")
        # Its own default, 5 s, is what a job waits whose notification came while another was fetched, or
        # whose merchant's lock was taken: nothing notifies when a lock is free again.
        command.add_argument(
            "--poll", type=float, default=0.05, help="fetch_job_polling_interval, in seconds"
        )

    async def prepare(self, dsn: str) -> None:
        """Install the schema."""
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def enqueuing(self, dsn: str, options: argparse.Namespace) -> AsyncIterator[Enqueue]:
        """Defer by procrastinate's own function on a connection of ours, a transaction by itself.

        It writes a row of jobs and one of events, and a trigger notifies twice (the queue's channel and
        that of all queues), so that commits of all producers wait for each other: the notification's lock
        is held until after the commit.
        """
        connector = procrastinate.PsycopgConnector(conninfo=dsn)
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:

            async def enqueue(events: list[Event]) -> None:
                jobs = [_job(event, is_ordered=options.ordered) for event in events]
                await JobManager(connector).batch_defer_jobs_async(jobs, connection)

            yield enqueue

    async def work(self, dsn: str, events: Poster, run: Run, options: argparse.Namespace) -> None:
        """Let workers work until the run is over."""
        connector = procrastinate.PsycopgConnector()
        app = procrastinate.App(connector=connector)
        manager = CountingManager(connector)
        manager.count = run.finished
        app.job_manager = manager
        _add_task(app, events)
        # A pool of our own, as is allowed: procrastinate's checks each connection by a round trip every
        # time it is taken, and each of its statements would be wrapped in BEGIN and COMMIT, two more.
        async with (
            AsyncConnectionPool(
                dsn, min_size=options.pool, max_size=options.pool, configure=_autocommit, open=False
            ) as pool,
            app.open_async(pool=pool),
        ):
            await pool.wait()
            await run.start()
            working = [
                asyncio.create_task(
                    app.run_worker_async(
                        queues=[QUEUE],
                        concurrency=options.concurrency,
                        delete_jobs="successful" if options.delete else "never",
                        fetch_job_polling_interval=options.poll,
                        install_signal_handlers=False,
                    )
                )
                for _ in range(options.workers)
            ]
            await run.until_over(working)


def _job(event: Event, *, is_ordered: bool) -> Job:
    return Job(
        id=None,
        queue=QUEUE,
        lock=event.merchant_id if is_ordered else None,
        queueing_lock=None,
        task_name=QUEUE,
        task_kwargs={
            "merchant_id": event.merchant_id,
            "event_id": event.event_id,
            # As a string: jsonb keeps neither the order of keys nor how numbers are written.
            "body": event.body.decode(),
        },
    )


def _add_task(app: procrastinate.App, events: Poster) -> None:
    @app.task(name=QUEUE, queue=QUEUE, retry=Schedule())
    async def post(merchant_id: str, event_id: str, body: str) -> None:
        await events.post(Event(merchant_id, event_id, body.encode()))


async def _autocommit(connection: psycopg.AsyncConnection[Any]) -> None:
    await connection.set_autocommit(True)


if __name__ == "__main__":
    logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
    main(ProcrastinateRival(), __doc__)
