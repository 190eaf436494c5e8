"""Commands that take longer than a transaction may: a mass retry, and a test event."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import structlog

from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.command import Code, CommandRow, CommandStatus, RetryFailed, malformed_progress
from webhook_dispatcher.domain.errors import LeaseLost, StatementRefused, StorageError, UnknownKey
from webhook_dispatcher.domain.event import TEST_EVENT_TYPE, Event, State, Trigger
from webhook_dispatcher.domain.ports import Claims, CommandTransaction, Controls, ReopenedChunk, TestLog
from webhook_dispatcher.domain.verdict import Outcome

RUNNING_LEASE = timedelta(seconds=30)
"""How long a running command is its worker's; must exceed the time of one attempt or chunk."""
CHUNK = 100
"""Deliveries made owed again in one transaction of a mass retry."""
CHUNK_PAUSE = 0.1
"""Seconds between two chunks, so that first attempts do not suffer."""
MOST_WAITING = CHUNK // 2
"""Deliveries of the last chunk that may still wait for their attempt when the next one is made owed."""
PATIENCE = 2.0
"""Seconds after which the next chunk follows all the same: the merchants may be slow, or paused."""

SAMPLE_CHARGE = (
    b'{"id":"ch_test","object":"charge","amount":1990,"currency":"EUR","status":"succeeded",'
    b'"createdAt":"2026-01-01T00:00:00.000Z","recipients":[{"id":"rcp_test","amount":1990}]}'
)

_log = structlog.get_logger()


_NO_INSTANT = (TypeError, ValueError, OverflowError)


class _ChunkRefused(Exception):
    """Some delivery of a chunk cannot be made owed again."""


class _Pace:
    """Lets a mass retry make deliveries owed only as fast as they are attempted.

    What it makes due has often been due for longer than anything else by the time it is claimed: a heap of
    it would stand before scheduled retries, and fill the places for them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seqs: tuple[int, ...] = ()
        self._since = 0.0

    def made(self, chunk: ReopenedChunk) -> None:
        """Learn what the last chunk was."""
        self._seqs, self._since = chunk.seqs, self._clock.elapsed()

    async def allows_more(self, transaction: CommandTransaction) -> bool:
        """Tell whether the next chunk may follow."""
        if not self._seqs or self._clock.elapsed() - self._since >= PATIENCE:
            return True
        return await transaction.count_waiting(self._seqs) <= MOST_WAITING


class LongRunning:
    """Carries long commands through; what it began, any dispatcher can resume from `result`."""

    def __init__(
        self,
        controls: Controls,
        claims: Claims,
        attempter: Attempter,
        recorder: Recorder,
        instruments: Instruments,
        stop: Stop,
    ) -> None:
        self._controls = controls
        self._claims = claims
        self._attempter = attempter
        self._recorder = recorder
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._metrics = instruments.metrics
        self._stop = stop

    async def begin_mass_retry(self, transaction: CommandTransaction, command: RetryFailed) -> dict[str, Any]:
        """Make the first `result` of a mass retry."""
        return {"matched": await transaction.count_failed(command), "retried": 0, "passed": 0}

    def begin_test(self) -> dict[str, Any]:
        """Make the first `result` of a test event."""
        return {"event_id": str(uuid4()), "created_at": self._database_clock.now().isoformat()}

    async def retry_failed(
        self, row: CommandRow, command: RetryFailed, progress: Mapping[str, Any], token: datetime
    ) -> None:
        """Make failed deliveries owed again, chunk by chunk, each in a transaction with its progress."""
        result: dict[str, Any] = dict(progress)
        after = _reached(result) or (command.since, -1)
        size, pace = CHUNK, _Pace(self._clock)
        while result["passed"] < command.limit:
            await self._stop.wait_at_most(CHUNK_PAUSE)
            if self._stop.is_set():
                await self._hand_over(row, result, token)
                return
            await self._recorder.caught_up()
            try:
                async with self._controls.transaction() as transaction:
                    # Chunks lock rows before lanes, other commands the reverse: one at a time.
                    if not (await transaction.lock_control() and await pace.allows_more(transaction)):
                        continue
                    most = min(size, command.limit - result["passed"])
                    chunk = await _next_chunk(transaction, command, after, most)
                    if chunk is None:
                        break
                    await transaction.wake_lanes(chunk.heads)
                    advanced = {
                        **result,
                        "passed": result["passed"] + chunk.matched,
                        "retried": result["retried"] + chunk.retried,
                        "reached": [chunk.reached[0].isoformat(), chunk.reached[1]],
                    }
                    token = await transaction.mark_running(row.id, RUNNING_LEASE, advanced, token)
            except _ChunkRefused:
                size = most // 2
                continue
            except (StorageError, LeaseLost) as error:
                # Whether the chunk was committed is unknown: its progress row knows, whoever resumes.
                _log.warning("control.interrupted", command_id=row.id, error=str(error))
                return
            result, after, size = advanced, chunk.reached, size or CHUNK
            pace.made(chunk)
        await self._finish(row, {"matched": result["matched"], "retried": result["retried"]}, token)

    async def send_test(
        self, row: CommandRow, merchant_id: str, progress: Mapping[str, Any], token: datetime
    ) -> None:
        """Make the one attempt of a test event, outside the order, and write down how it went."""
        event_id, created_at = read_test(progress)
        event = Event(
            seq=0,
            id=event_id,
            merchant_id=merchant_id,
            type=TEST_EVENT_TYPE,
            created_at=created_at,
            object=SAMPLE_CHARGE,
            trigger=Trigger.MANUAL,
            on_failure=State.FAILED,
        )
        try:
            endpoint = (await self._claims.read_endpoints([merchant_id])).get(merchant_id)
            if endpoint is None:
                await self._reject(row, Code.NOT_CONFIGURED, "the merchant has no endpoint", token)
                return
            secrets = self._attempter.open_secrets(endpoint)
            attempt, seen = await self._attempter.make(event, endpoint, secrets)
        except UnknownKey as error:
            await self._reject(row, Code.WRONG_STATE, f"the secret cannot be opened: {error}", token)
            return
        except StorageError as error:
            _log.warning("control.interrupted", command_id=row.id, error=str(error))
            return
        self._attempter.conclude(event, 0, True, attempt, seen)
        state = State.DELIVERED if attempt.outcome is Outcome.DELIVERED else State.FAILED
        result = {"event_id": str(event.id), "outcome": attempt.outcome, "status": attempt.status}
        await self._finish(row, result, token, TestLog(event, attempt, state))

    async def _finish(
        self, row: CommandRow, result: dict[str, Any], token: datetime, test: TestLog | None = None
    ) -> None:
        try:
            async with self._controls.transaction() as transaction:
                if test is not None:
                    await transaction.log_test_event(test)
                await transaction.finish(row.id, result, token)
        except (StorageError, LeaseLost) as error:
            _log.warning("control.interrupted", command_id=row.id, error=str(error))
            return
        if test is not None:
            self._metrics.deliveries.labels(test.state, test.event.type).inc()
        self._metrics.control_commands.labels(row.name, CommandStatus.DONE).inc()
        _log.info("control.handled", command_id=row.id, command=row.name, status=CommandStatus.DONE)

    async def _reject(self, row: CommandRow, code: Code, message: str, token: datetime) -> None:
        try:
            async with self._controls.transaction() as transaction:
                await transaction.reject(row.id, code, message, token)
        except (StorageError, LeaseLost) as error:
            _log.warning("control.interrupted", command_id=row.id, error=str(error))
            return
        self._metrics.control_commands.labels(row.name, CommandStatus.REJECTED).inc()

    async def _hand_over(self, row: CommandRow, result: Mapping[str, Any], token: datetime) -> None:
        try:
            async with self._controls.transaction() as transaction:
                await transaction.mark_running(row.id, timedelta(), result, token)
        except (StorageError, LeaseLost) as error:
            _log.warning("control.interrupted", command_id=row.id, error=str(error))


async def _next_chunk(
    transaction: CommandTransaction, command: RetryFailed, after: tuple[datetime, int], most: int
) -> ReopenedChunk | None:
    """Reopen so many; the one that is refused alone is passed over (`most` is 0 then)."""
    if most:
        try:
            return await transaction.reopen_failed(command, after, most)
        except StatementRefused as error:
            if not error.blames_the_row:
                raise
            raise _ChunkRefused from error
    chunk = await transaction.skip_failed(command, after)
    if chunk is not None:
        _log.error("delivery.passed_over", seq=chunk.reached[1], reason="it cannot be made owed again")
    return chunk


def check_mass_retry(progress: Mapping[str, Any]) -> None:
    """Reject a mass retry whose progress cannot be gone on from."""
    _reached(progress)
    if not all(isinstance(progress.get(name), int) for name in ("matched", "retried", "passed")):
        malformed_progress()


def read_test(progress: Mapping[str, Any]) -> tuple[UUID, datetime]:
    """Read a test event's id and time from its progress."""
    try:
        return UUID(progress["event_id"]), _instant(progress["created_at"])
    except (AttributeError, KeyError, *_NO_INSTANT):
        malformed_progress()


def _reached(progress: Mapping[str, Any]) -> tuple[datetime, int] | None:
    if (reached := progress.get("reached")) is None:
        return None
    try:
        at, seq = reached
        return _instant(at), int(seq)
    except _NO_INSTANT:
        malformed_progress()


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("an instant without an offset")
    return instant.astimezone(UTC)
