"""A daemon that can be hit at named points of a delivery's life, and shows where its attempts stand.

`python -m lab.chaos.victim NAME GAUGE DURATIONS` is `webhook-dispatcher run` with the parts that the
composition root puts together wrapped: nothing of the product knows of it. NAME goes into the User-Agent.
DURATIONS, as JSON, are settings in seconds, where the environment allows minutes at least. Orders come as
lines on standard input, and are carried out at the next passage of their point, once:

    kill POINT | freeze POINT | stall SECONDS | clock SECONDS | disarm
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

from lab.chaos.evidence import Phase
from lab.chaos.gauge import Gauge
from lab.chaos.moves import AGE, AGE_OF_REFUSED, RETRY
from webhook_dispatcher.app import daemon as composition
from webhook_dispatcher.app import outbound, run
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.dispatch import instruments
from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.lane_session import MemoryBudget
from webhook_dispatcher.domain.claim import ClaimedRetry, Leased, RouteAsk, Routed, RunAsk
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.record import Attempt, LaneTurn, Record, Written
from webhook_dispatcher.domain.verdict import Answer, Failure, may_always
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage.claims import PostgresClaims
from webhook_dispatcher.storage.records import PostgresRecords
from webhook_dispatcher.transport import dialling, renewal, resolver
from webhook_dispatcher.transport.connection import HttpConnection
from webhook_dispatcher.transport.sender import Sender
from webhook_dispatcher.version import USER_AGENT, __version__

SCALED = (
    (renewal, "_MAX_AGE_SECONDS", AGE),
    (renewal, "_MAX_AGE_OF_REFUSED_SECONDS", AGE_OF_REFUSED),
    (renewal, "_RETRY_SECONDS", RETRY),
    (resolver, "_REREAD_SECONDS", 0.25),
)
"""What is in proportion to the time-out of an attempt, and no setting: seconds in place of the product's."""


class Point(StrEnum):
    """Where a process may be hit."""

    BEFORE_CLAIM = "before-claim"
    CLAIMED = "claimed"
    CONNECTED = "connected"
    SENT = "sent"
    ANSWERED = "answered"
    RECORDED = "recorded"
    ANY = "any"


class Orders:
    """What is to happen at which point; taken from standard input by a thread, which no stall stops."""

    def __init__(self) -> None:
        self.clock_offset = 0.0
        self._armed: tuple[str, str] | None = None

    def listen(self) -> None:
        """Read orders until standard input ends: the runner is gone then, and so are we."""
        for line in sys.stdin:
            verb, _, operand = line.strip().partition(" ")
            if verb == "clock":
                self.clock_offset = float(operand)
            else:
                self._armed = None if verb == "disarm" else (verb, operand)
        os.kill(os.getpid(), signal.SIGKILL)

    def reach(self, point: Point) -> None:
        """Pass a point; what is ordered for it happens here and now."""
        if self._armed is None:
            return
        verb, operand = self._armed
        if verb == "stall":
            self._armed = None
            time.sleep(float(operand))
        elif operand in (point, Point.ANY):
            self._armed = None
            os.kill(os.getpid(), signal.SIGKILL if verb == "kill" else signal.SIGSTOP)


orders = Orders()
gauge: Gauge
_standing: dict[str, Phase] = {}
_current: ContextVar[str] = ContextVar("event_id")


def _move(event_id: str, phase: Phase | None) -> None:
    before = _standing.pop(event_id, None)
    if phase is not None:
        _standing[event_id] = phase
    gauge.move(before, phase)


class HitClaims(PostgresClaims):
    """Claims with a point before and one after."""

    async def lease(self, heads: Mapping[str, int], lease: timedelta) -> Leased:
        """Lease, passing the point before a claim."""
        gauge.move(None, Phase.CLAIMING, len(heads))
        try:
            orders.reach(Point.BEFORE_CLAIM)
            return await super().lease(heads, lease)
        finally:
            gauge.move(Phase.CLAIMING, None, len(heads))

    async def read_runs(self, asks: Sequence[RunAsk]) -> dict[str, list[Event]]:
        """Read, passing the point after a claim."""
        runs = await super().read_runs(asks)
        if runs:
            orders.reach(Point.CLAIMED)
        return runs

    async def route(self, ask: RouteAsk, lease: timedelta) -> Routed:
        """Route, passing the point after a claim."""
        routed = await super().route(ask, lease)
        if routed.events:
            orders.reach(Point.CLAIMED)
        return routed

    async def claim_longest_due(self, *limits: Any) -> list[ClaimedRetry]:
        """Claim due rows, passing the point after a claim."""
        claimed = await super().claim_longest_due(*limits)
        if claimed:
            orders.reach(Point.CLAIMED)
        return claimed

    async def claim_due_of(self, *limits: Any) -> list[ClaimedRetry]:
        """Claim due rows of these merchants, passing the point after a claim."""
        claimed = await super().claim_due_of(*limits)
        if claimed:
            orders.reach(Point.CLAIMED)
        return claimed


class HitRecords(PostgresRecords):
    """Records with a point after the commit."""

    async def write(self, records: Sequence[Record], turns: Sequence[LaneTurn], lease: timedelta) -> Written:
        """Write; what is not written goes back to where it stood."""
        sent = {r.event.seq: str(r.event.id) for r in records if r.attempt is not None}
        for event_id in sent.values():
            _move(event_id, Phase.WRITING)
        written: frozenset[int] = frozenset()
        try:
            result = await super().write(records, turns, lease)
            written = result.seqs
        finally:
            for seq, event_id in sent.items():
                _move(event_id, None if seq in written else Phase.ANSWERED)
        if written:
            orders.reach(Point.RECORDED)
        return result

    async def write_late(self, record: Record) -> bool:
        """Write what came too late for its fence."""
        settled = await super().write_late(record)
        if settled:
            _move(str(record.event.id), None)
        return settled


class HitSender(Sender):
    """A sender with a point after the answer."""

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, may_send: Callable[[], bool] = may_always
    ) -> Answer | Failure:
        """Post, noting how far the request is."""
        event_id = _current.get()
        _move(event_id, Phase.CONNECTING)
        try:
            seen = await super().post(url, headers, body, may_send)
        except BaseException:
            _move(event_id, None)
            raise
        _move(event_id, Phase.ANSWERED)
        orders.reach(Point.ANSWERED)
        return seen


class HitConnection(HttpConnection):
    """A connection with a point before the first byte of a request and one when it is written."""

    def send(
        self, head: bytes, body: bytes, deadline: float, may_send: Callable[[], bool] = may_always
    ) -> asyncio.Future[int]:
        """Send; the transport has its turn before the second point."""
        orders.reach(Point.CONNECTED)
        waiter = super().send(head, body, deadline, may_send)
        asyncio.get_running_loop().call_soon(_sent, waiter)
        return waiter


def _sent(waiter: "asyncio.Future[int]") -> None:
    if not waiter.done():
        _move(_current.get(), Phase.SENT)
        orders.reach(Point.SENT)


class CountingAttempter(Attempter):
    """Attempts; one that does not count is in no phase any more."""

    async def make(self, event: Event, *others: Any) -> tuple[Attempt, Answer | Failure]:
        """Say which delivery it is: what is sent names the event alone."""
        token = _current.set(str(event.id))
        try:
            return await super().make(event, *others)
        finally:
            _current.reset(token)

    async def attempt(self, event: Event, *others: Any) -> Record | None:
        """Attempt."""
        record = await super().attempt(event, *others)
        if record is None:
            _move(str(event.id), None)
        return record


class CountingMemory(MemoryBudget):
    """Bodies held; those that no attempt was begun for are claimed and waiting."""

    def reserve(self, event: Event) -> None:
        """Count an event that was read."""
        super().reserve(event)
        gauge.move(None, Phase.CLAIMED)

    def free(self, event: Event) -> None:
        """Stop counting."""
        super().free(event)
        gauge.move(Phase.CLAIMED, None)


class ShiftedClock(SystemClock):
    """This machine's clocks, of which somebody has set the wall clock."""

    def unix(self) -> float:
        """Return seconds since 1970."""
        return super().unix() + orders.clock_offset


def _replace(module: ModuleType, name: str, by: type) -> None:
    """Let a module of the product use a class of ours in place of the one it names."""
    assert issubclass(by, getattr(module, name)), f"{module.__name__}.{name} is not what {by.__name__} is"
    setattr(module, name, by)


def main() -> None:
    """Run the daemon."""
    global gauge
    name, file, durations = sys.argv[1:]
    gauge = Gauge(Path(file))
    _replace(composition, "PostgresClaims", HitClaims)
    _replace(composition, "PostgresRecords", HitRecords)
    _replace(composition, "Attempter", CountingAttempter)
    _replace(composition, "SystemClock", ShiftedClock)
    _replace(outbound, "Sender", HitSender)
    _replace(instruments, "MemoryBudget", CountingMemory)
    _replace(dialling, "HttpConnection", HitConnection)
    for module, constant, seconds in SCALED:
        assert hasattr(module, constant)
        setattr(module, constant, seconds)
    composition.__version__ = f"{__version__}+{name}"  # type: ignore[attr-defined]
    outbound.USER_AGENT = f"{USER_AGENT}+{name}"  # type: ignore[attr-defined]
    threading.Thread(target=orders.listen, daemon=True).start()
    scaled = {field: timedelta(seconds=seconds) for field, seconds in json.loads(durations).items()}
    run.run(load_settings(os.environ).model_copy(update=scaled))


if __name__ == "__main__":
    main()
