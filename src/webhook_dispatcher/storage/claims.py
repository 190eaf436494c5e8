"""Claiming: statements of claiming, routing, retrying and unreadable.sql, and trials, bound and mapped."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter

import asyncpg

from webhook_dispatcher.domain.claim import (
    Arrival,
    Arrivals,
    ClaimedRetry,
    DueCursor,
    DueRow,
    HandedOn,
    Lease,
    Leased,
    Recalls,
    Released,
    RouteAsk,
    Routed,
    RouteFate,
    RunAsk,
    Stray,
    SweptLane,
)
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import LockTaken
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.signing import SealedSecret
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.events import to_event, to_retry, to_trial
from webhook_dispatcher.storage.statements import load

_RETRYING = load("retrying")
_CLAIMING = {**load("claiming"), **load("routing"), **load("unreadable")}
_SUSPENDING = load("suspending")
TRIALS_LOOKED_AT = 200
"""Suspended lanes whose rest is over that one look goes through: some wait for a lease."""


class PostgresClaims:
    """Implements domain.ports.Claims on a pool of connections. owner: who claims, a process."""

    def __init__(self, pool: asyncpg.Pool, owner: str) -> None:
        self._pool = pool
        self._owner = owner

    async def read_arrivals(self, cursor: int, limit: int) -> Arrivals:
        rows = await self._fetch("read_arrivals", cursor, limit)
        visible = tuple(Arrival(row["seq"], row["merchant_id"]) for row in rows if row["seq"] is not None)
        return Arrivals(
            last_seq=rows[0]["last_seq"],
            oldest_open=rows[0]["oldest_open"],
            next_transaction=rows[0]["next_transaction"],
            database_now=rows[0]["database_now"],
            server_started_at=rows[0]["server_started_at"],
            visible=visible,
            is_cut=len(visible) == limit,
        )

    async def read_gaps(self, gaps: Sequence[tuple[int, int]], limit: int) -> list[Arrival]:
        rows = await self._fetch("read_gaps", [low for low, _ in gaps], [high for _, high in gaps], limit)
        return [Arrival(row["seq"], row["merchant_id"]) for row in rows]

    async def sweep(self, after_lane: str, page_size: int) -> list[SweptLane]:
        rows = await self._fetch("sweep_lanes", after_lane, page_size)
        return [SweptLane(row["merchant_id"], row["head_seq"], row["is_free"]) for row in rows]

    async def lease(self, heads: Mapping[str, int], lease: timedelta) -> Leased:
        rows = await self._fetch("lease_lanes", list(heads), list(heads.values()), lease, self._owner)
        return Leased(
            leases=tuple(
                Lease(
                    row["merchant_id"],
                    row["epoch"],
                    row["from_seq"],
                    row["endpoint_removed_at"],
                    row["is_suspended"],
                    row["server_started_at"],
                    row["free_since"],
                    row["is_routed"],
                )
                for row in rows
                if row["epoch"] is not None
            ),
            missing=tuple(row["merchant_id"] for row in rows if row["is_missing"]),
            locked=tuple(row["merchant_id"] for row in rows if row["is_locked"]),
        )

    async def check_writable(self) -> None:
        await self._fetch("check_writable")

    async def create_lanes(self, lanes: Sequence[str]) -> tuple[str, ...]:
        # All together; where one of them is being made by a transaction still open, each alone.
        if await self._create_lanes(lanes):
            return ()
        return tuple([lane for lane in lanes if not await self._create_lanes([lane])])

    async def _create_lanes(self, lanes: Sequence[str]) -> bool:
        try:
            with translated():
                async with self._pool.acquire() as connection, connection.transaction():
                    await connection.execute("SET LOCAL lock_timeout = '50ms'")
                    await connection.execute(_CLAIMING["create_lanes"].text, list(lanes))
        except LockTaken:
            return False
        return True

    async def read_runs(self, asks: Sequence[RunAsk]) -> dict[str, list[Event]]:
        rows = await self._fetch(
            "read_runs",
            [ask.lane for ask in asks],
            [ask.after_seq for ask in asks],
            [ask.max_events for ask in asks],
            [ask.max_bytes for ask in asks],
            [ask.server_started_at for ask in asks],
        )
        runs: dict[str, list[Event]] = {}
        for row in rows:
            runs.setdefault(row["merchant_id"], []).append(to_event(row, attempts=0))
        for events in runs.values():
            events.sort(key=attrgetter("seq"))  # the statement reads them so; order must not hang on a plan
        return runs

    async def read_endpoints(self, lanes: Sequence[str]) -> dict[str, Endpoint]:
        return {
            row["merchant_id"]: _endpoint(row) for row in await self._fetch("read_endpoints", list(lanes))
        }

    async def route(self, ask: RouteAsk, lease: timedelta) -> Routed:
        [row] = await self._fetch(
            "route",
            ask.lease.lane,
            ask.lease.epoch,
            ask.lease.server_started_at,
            ask.after_seq,
            ask.stable,
            ask.max_rows,
            ask.max_bytes,
            lease,
            ask.at,
        )
        return Routed(
            RouteFate(row["fate"]),
            row["events"],
            row["unwanted"],
            row["failed"],
            row["reached"],
            row["is_cut"],
            dict(zip(row["lanes"], row["heads"], strict=True)),
        )

    async def find_alone(self) -> list[str]:
        return [row["merchant_id"] for row in await self._fetch("find_alone")]

    async def serve_unrouted(self) -> None:
        await self._fetch("serve_unrouted")

    async def become_direct(self, merchant_id: str) -> bool:
        [row] = await self._fetch("become_direct", merchant_id)
        return bool(row["is_direct"])

    async def find_strays(
        self, max_rows: int, max_bytes: int, except_seqs: Sequence[int] = ()
    ) -> list[Stray]:
        rows = await self._fetch("find_strays", max_rows, max_bytes, except_seqs)
        return [Stray(row["merchant_id"], row["seq"], row["id"]) for row in rows]

    async def hand_on(self, strays: Sequence[Stray], at: datetime) -> dict[int, HandedOn]:
        rows = await self._fetch(
            "hand_on",
            [stray.seq for stray in strays],
            [stray.claim for stray in strays],
            [stray.lane for stray in strays],
            at,
        )
        return {row["seq"]: HandedOn(row["fate"]) for row in rows}

    async def read_recalls(self) -> Recalls:
        rows = await self._fetch("read_recalls")
        return Recalls(
            everything_is_paused=any(row["everything_is_paused"] for row in rows),
            lanes=frozenset(row["merchant_id"] for row in rows if row["merchant_id"] is not None),
        )

    async def mend_retries(self, after_lane: str, page_size: int) -> list[tuple[str, bool]]:
        with translated():
            rows = await self._pool.fetch(_RETRYING["mend_retries"].text, after_lane, page_size)
        return [(row["merchant_id"], row["is_mended"]) for row in rows]

    async def find_due(self, after: DueCursor, limit: int) -> list[DueCursor]:
        with translated():
            rows = await self._pool.fetch(_RETRYING["find_due_lanes"].text, *after, limit)
        return [DueCursor(row["retry_at"], row["merchant_id"]) for row in rows]

    async def claim_longest_due(
        self, lanes: int, per_lane: int, limit: int, lease: timedelta, except_seqs: Sequence[int] = ()
    ) -> list[ClaimedRetry]:
        return await self._claim_due("lock_longest_due_lanes", lanes, per_lane, limit, lease, except_seqs)

    async def claim_due_of(
        self,
        lanes: Sequence[str],
        per_lane: int,
        limit: int,
        lease: timedelta,
        except_seqs: Sequence[int] = (),
    ) -> list[ClaimedRetry]:
        return await self._claim_due("lock_due_lanes_of", lanes, per_lane, limit, lease, except_seqs)

    async def _claim_due(
        self,
        lock: str,
        which: Sequence[str] | int,
        per_lane: int,
        limit: int,
        lease: timedelta,
        except_seqs: Sequence[int],
    ) -> list[ClaimedRetry]:
        """Lock lanes, claim their due rows, and plan when each is looked at next, in one transaction."""
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                lanes = [row["merchant_id"] for row in await connection.fetch(_RETRYING[lock].text, which)]
                if not lanes:
                    return []
                claimed = await connection.fetch(
                    _RETRYING["claim_retries"].text, lanes, per_lane, limit, lease, except_seqs, self._owner
                )
                await connection.execute(_RETRYING["plan_retries"].text, lanes, per_lane, except_seqs)
        return [to_retry(row) for row in await self._read_claimed(claimed)]

    async def _read_claimed(self, claimed: Sequence[asyncpg.Record]) -> list[asyncpg.Record]:
        if not claimed:
            return []
        seqs, claims = [row["seq"] for row in claimed], [row["claim"] for row in claimed]
        with translated():
            return await self._pool.fetch(_RETRYING["read_claimed"].text, seqs, claims)

    async def read_next(self, lane: str, after_seq: int) -> Event | None:
        rows = await self._fetch("read_next", lane, after_seq)
        return to_event(rows[0], attempts=0) if rows else None

    async def name_due(self, lanes: Sequence[str], per_lane: int, except_seqs: Sequence[int]) -> list[DueRow]:
        rows = await self._fetch("name_due", list(lanes), per_lane, list(except_seqs))
        return [DueRow(row["merchant_id"], row["seq"], row["id"]) for row in rows]

    async def try_rows(self, rows: Sequence[DueRow]) -> None:
        await self._fetch("try_rows", [row.seq for row in rows])

    async def close_row(self, row: DueRow) -> tuple[State, str] | None:
        closed = await self._fetch("close_row", row.seq, row.id)
        return (State(closed[0]["state"]), closed[0]["type"]) if closed else None

    async def pick_trials(self, limit: int, interval: timedelta) -> list[str]:
        with translated():
            rows = await self._pool.fetch(_SUSPENDING["pick_trials"].text, TRIALS_LOOKED_AT, limit, interval)
        return [row["merchant_id"] for row in rows]

    async def claim_trials(
        self, lanes: Sequence[str], lease: timedelta, except_seqs: Sequence[int]
    ) -> list[ClaimedRetry]:
        with translated():
            claimed = await self._pool.fetch(
                _RETRYING["claim_retries"].text, lanes, 1, len(lanes), lease, except_seqs, self._owner
            )
        return [to_trial(row) for row in await self._read_claimed(claimed)]

    async def release_all_of(self, owner: str) -> Released:
        """Release what a process held that is known to be dead; what is locked for the moment is left out.

        Source: claiming.sql `release_lanes_of`, retrying.sql `release_retries_of`.
        """
        released = await self._fetch("release_lanes_of", owner)
        with translated():
            retries = await self._pool.fetchval(_RETRYING["release_retries_of"].text, owner)
        return Released([SweptLane(row["merchant_id"], row["head_seq"], True) for row in released], retries)

    async def look_later(self, lanes: Sequence[str], wait: timedelta) -> None:
        await self._fetch("look_later", list(lanes), wait)

    async def _fetch(self, name: str, *arguments: object) -> list[asyncpg.Record]:
        with translated():
            rows: list[asyncpg.Record] = await self._pool.fetch(_CLAIMING[name].text, *arguments)
        return rows


def _endpoint(row: asyncpg.Record) -> Endpoint:
    secrets = [SealedSecret(row["key_id"], row["secret"])]
    if row["previous_secret"] is not None:
        secrets.append(SealedSecret(row["previous_key_id"], row["previous_secret"]))
    types = None if row["types"] is None else frozenset(row["types"])
    return Endpoint(row["merchant_id"], row["url"], tuple(secrets), types, row["at_once"] or 1)
