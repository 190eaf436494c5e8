"""Carrying out commands: the statements of control.sql, bound and mapped."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter, itemgetter
from typing import Any
from uuid import UUID

import asyncpg

from webhook_dispatcher.domain.command import (
    Code,
    CommandRejected,
    CommandRow,
    CommandStatus,
    HandledCommand,
    Queue,
    RetryFailed,
    TakenCancel,
    WaitingCommand,
)
from webhook_dispatcher.domain.errors import LeaseLost, StorageError
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.ports import (
    CommandTransaction,
    FoundDelivery,
    Reopened,
    ReopenedChunk,
    TestLog,
)
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.mass_commands import PostgresMassTransaction
from webhook_dispatcher.storage.statements import load

OVERTAKEN = "an operator has decided otherwise since"
"""Why a merchant's command is rejected that would undo an operator's later one."""

_CONTROL = {**load("control"), **load("reopening"), **load("suspending")}


@dataclass(frozen=True, slots=True)
class PostgresCommandTransaction(PostgresMassTransaction):
    """Implements domain.ports.CommandTransaction inside one transaction."""

    async def lock_control(self) -> bool:
        return await self._row("lock_control") is not None

    async def await_control(self) -> None:
        await self._row("await_control")

    async def next_commands(
        self, queue: Queue, except_ids: Sequence[int], limit: int
    ) -> list[WaitingCommand]:
        # No lock: that would take a transaction id, whose commit is flushed to disk, and most looks, four a
        # second, find nothing.
        which = queue is not Queue.MERCHANTS, queue is Queue.BRAKES
        return [
            WaitingCommand(row["id"], row["subject"], row["is_plain_cancel"])
            for row in await self._rows("next_commands", list(except_ids), limit, *which)
        ]

    async def take(self, command_id: int) -> bool:
        return await self._row("take_command", command_id) is not None

    async def take_cancels(
        self, subjects: Sequence[str], per_subject: int, except_ids: Sequence[int]
    ) -> list[TakenCancel]:
        rows = await self._rows("take_cancels", list(subjects), per_subject, list(except_ids))
        return [TakenCancel(**row) for row in rows]

    async def reject_overtaken(self, command_ids: Sequence[int]) -> None:
        await self._do("reject_overtaken", list(command_ids), int(Code.WRONG_STATE), OVERTAKEN)

    async def read_command(self, command_id: int) -> CommandRow:
        with translated():
            async with self.connection.transaction():
                row = await self.connection.fetchrow(_CONTROL["read_command"].text, command_id)
        assert row is not None  # commands are removed only long after they were handled
        return CommandRow(
            id=row["id"],
            name=row["command"],
            merchant_id=row["merchant_id"],
            event_id=row["event_id"],
            args=_object(row["args"]),
            result=_object(row["result"] or "{}"),
            created_at=row["created_at"],
            requested_by=row["requested_by"],
        )

    async def finish(self, command_id: int, result: Mapping[str, Any], token: datetime | None = None) -> None:
        text = json.dumps(result)
        if await self._row("finish_command", command_id, CommandStatus.DONE, text, None, None, token) is None:
            raise LeaseLost(f"command {command_id}")

    async def reject(self, command_id: int, code: Code, message: str, token: datetime | None = None) -> None:
        arguments = command_id, CommandStatus.REJECTED, None, int(code), message, token
        if await self._row("finish_command", *arguments) is None:
            raise LeaseLost(f"command {command_id}")

    async def mark_running(
        self, command_id: int, lease: timedelta, result: Mapping[str, Any], token: datetime | None = None
    ) -> datetime:
        row = await self._row("mark_running", command_id, lease, json.dumps(result), token)
        if row is None:
            raise LeaseLost(f"command {command_id}")
        running_until: datetime = row["running_until"]
        return running_until

    async def find_deliveries(self, event_ids: Sequence[UUID]) -> dict[UUID, tuple[FoundDelivery, ...]]:
        locked: set[str] = set()
        routed: set[UUID] = set()
        ids = {event_id: {event_id} for event_id in event_ids}
        while True:
            wanted = list(set().union(*ids.values()))
            locked |= {row["lane"] for row in await self._rows("lock_lanes_of", wanted)}
            rows = {row["delivery_id"]: row for row in await self._rows("find_deliveries", wanted)}
            # Of what was routed the first delivery has the event's id.
            others = {id_ for id_ in ids.keys() & rows.keys() if rows[id_]["copy_of"] == id_} - routed
            if others:
                for row in await self._rows("name_deliveries", list(others)):
                    ids[row["event_id"]].update(row["delivery_ids"])
                routed |= others
            # An event may have come in since lanes were locked.
            elif all(row["lane"] in locked for row in rows.values() if row["is_owed"]):
                break
        found = {
            event_id: sorted((_found(rows[id_]) for id_ in known & rows.keys()), key=attrgetter("seq"))
            for event_id, known in ids.items()
        }
        return {event_id: tuple(deliveries) for event_id, deliveries in found.items() if deliveries}

    async def run_now(self, delivery: FoundDelivery) -> bool:
        return await self._row("run_retry_now", delivery.seq) is not None

    async def reopen(self, delivery: FoundDelivery) -> Reopened:
        place = delivery.seq, delivery.finished_at, delivery.merchant_id
        reopened = await self._row("reopen_delivery", *place, delivery.lane)
        if reopened is not None:
            return Reopened.IN_ORDER if reopened["is_in_order"] else Reopened.DUE_NOW
        logged = await self._row("is_object_lost", *place)
        if logged is not None and logged["is_lost"]:
            raise CommandRejected(
                Code.WRONG_STATE, "its object could not be read when it was due, and is lost"
            )
        return Reopened.ID_IS_OWED

    async def wake_lanes(self, heads: Mapping[str, int | None]) -> None:
        await self._do("wake_lanes", list(heads), list(heads.values()))

    async def cancel(self, deliveries: Sequence[FoundDelivery]) -> frozenset[int]:
        rows = await self._rows("cancel_deliveries", [delivery.seq for delivery in deliveries])
        lanes = sorted({delivery.lane for delivery in deliveries})
        await self._do("recall_lanes", lanes)
        # Of what was in flight, a lane's slot for retries is free now.
        await self.wake_lanes(dict.fromkeys(lanes))
        return frozenset(row["seq"] for row in rows)

    async def finish_all(self, handled: Sequence[HandledCommand]) -> None:
        rejections = [command.rejection for command in handled]
        await self._do(
            "finish_commands",
            [command.id for command in handled],
            [command.status for command in handled],
            [None if command.result is None else json.dumps(command.result) for command in handled],
            [rejection and int(rejection.code) for rejection in rejections],
            [rejection and rejection.message for rejection in rejections],
        )

    async def require_endpoint(self, merchant_id: str, number: int | None = None) -> str:
        row = await self._row("find_configured", merchant_id, number)
        if row is None and number in (None, 1):
            raise CommandRejected(Code.NOT_CONFIGURED, "the merchant has no endpoint")
        if row is None:
            raise CommandRejected(Code.NOT_CONFIGURED, f"the merchant has no endpoint {number}")
        lane: str = row["lane"]
        return lane

    async def is_everything_paused(self) -> bool:
        row = await self._row("is_everything_paused")
        return row is not None and bool(row["paused"])

    async def read_sample(self, event_type: str) -> bytes | None:
        row = await self._row("read_sample", event_type)
        return None if row is None else row["sample"].encode()

    async def read_suspension(self, merchant_id: str, number: int) -> datetime | None:
        row = await self._row("read_suspension", merchant_id, number)
        return None if row is None else row["suspended_at"]

    async def pause(self, merchant_id: str | None, is_paused: bool, number: int | None = None) -> None:
        if merchant_id is None:
            await self._do("pause_everything", is_paused)
        else:
            await self._do("pause_lane", merchant_id, is_paused, number)

    async def set_url(self, lane: str, url: str, command_id: int) -> None:
        await self._do("set_url", lane, url, command_id)

    async def count_failed(self, command: RetryFailed) -> int:
        row = await self._row(
            "count_failed", command.merchant_id, command.since, command.until, command.limit, command.endpoint
        )
        assert row is not None
        return int(row["matched"])

    async def reopen_failed(
        self, command: RetryFailed, after: tuple[datetime, int], limit: int
    ) -> ReopenedChunk | None:
        behind = command.until, limit, command.endpoint
        rows = await self._rows("reopen_failed", command.merchant_id, *after, *behind)
        if not rows:
            return None
        reopened = [row for row in rows if row["is_reopened"]]
        heads: dict[str, int | None] = {row["lane"]: None for row in reopened}
        for row in sorted(reopened, key=itemgetter("seq"), reverse=True):
            if row["is_in_order"]:
                heads[row["lane"]] = row["seq"]
        reached = (rows[-1]["finished_at"], rows[-1]["seq"])
        seqs = tuple(row["seq"] for row in reopened)
        return ReopenedChunk(len(rows), len(reopened), heads, reached, seqs)

    async def count_waiting(self, seqs: Sequence[int]) -> int:
        row = await self._row("count_waiting", list(seqs))
        assert row is not None
        return int(row["waiting"])

    async def skip_failed(self, command: RetryFailed, after: tuple[datetime, int]) -> ReopenedChunk | None:
        behind = command.until, command.endpoint
        row = await self._row("find_next_failed", command.merchant_id, *after, *behind)
        return None if row is None else ReopenedChunk(1, 0, {}, (row["finished_at"], row["seq"]))

    async def log_test_event(self, test: TestLog) -> None:
        is_delivered = test.state is State.DELIVERED
        await self._do(
            "log_test_event",
            test.event.id,
            test.event.lane,
            test.event.created_at,
            test.event.object.decode(),
            test.state,
            None if is_delivered else "exhausted",
            test.attempt.started_at,
            test.attempt.duration_ms,
            test.attempt.status,
            test.attempt.outcome,
            test.attempt.finished_at,
            test.attempt.reason,
            test.attempt.response_excerpt,
        )

    async def _row(self, name: str, *arguments: object) -> asyncpg.Record | None:
        with translated():
            return await self.connection.fetchrow(_CONTROL[name].text, *arguments)

    async def _rows(self, name: str, *arguments: object) -> list[asyncpg.Record]:
        with translated():
            return list(await self.connection.fetch(_CONTROL[name].text, *arguments))

    async def _do(self, name: str, *arguments: object) -> None:
        with translated():
            await self.connection.execute(_CONTROL[name].text, *arguments)


def _object(text: str) -> Mapping[str, Any] | None:
    """Read a JSON object; None when it is something else, or JSON that only Postgres can hold."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _found(row: asyncpg.Record) -> FoundDelivery:
    return FoundDelivery(
        seq=row["seq"],
        merchant_id=row["merchant_id"],
        endpoint=row["endpoint"],
        lane=row["lane"],
        type=row["type"],
        state=_state(row["state"]),
        is_owed=row["is_owed"],
        is_in_flight=row["is_in_flight"],
        finished_at=row["finished_at"],
    )


def _state(text: str) -> State:
    try:
        return State(text)
    except ValueError:
        raise CommandRejected(Code.WRONG_STATE, "the delivery's state is none that we know") from None


class PostgresControls:
    """Implements domain.ports.Controls on a pool of connections."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[CommandTransaction]:
        """Open a transaction in which commands are carried out; it commits when left without error."""
        with translated():
            connection = await self._pool.acquire()
        try:
            opened = connection.transaction()
            with translated():
                await opened.start()
                # A lane or row that somebody keeps locked delays only the commands that need it.
                await connection.execute("SET LOCAL lock_timeout = '200ms'")
            try:
                yield PostgresCommandTransaction(connection)
            except BaseException:
                with translated():
                    await opened.rollback()
                raise
            with translated():
                await opened.commit()
        finally:
            # It may have broken after the commit. The commit stands, and the pool has dropped the connection.
            with suppress(StorageError), translated():
                await self._pool.release(connection)
