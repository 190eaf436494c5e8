"""How a process tells its supervisor what stands in its way, over a socket that it inherits.

A message is a JSON array: the moment by the machine's elapsed clock, which both read, the reasons, and notes
of what is no fault. It is sent once a second, and at once when they change. Sequenced packets keep messages
whole. Nobody waits for anybody: what the socket does not take is said again a second later.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry

from webhook_dispatcher.dispatch.pace import sleep
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.telemetry.health import OpsServer

CHECK_INTERVAL = 0.1
"""Seconds between two checks whether the reasons have changed."""
REPEAT_INTERVAL = 1.0
"""Seconds after which they are told again all the same."""
MAX_REASONS = 20
MAX_NOTES = 1
MAX_REASON_LENGTH = 500
"""Characters of a reason, or of a note, that are told."""
MAX_MESSAGE_SIZE = 65_536
"""Bytes."""

Readiness = Callable[[], Sequence[str]]
ShowsOperators = Callable[[str, CollectorRegistry, Readiness, Readiness], "OpsServer | Reporter"]
"""Makes what shows a daemon to operators, from an address, its metrics, its readiness and its notes."""


@dataclass(frozen=True, slots=True)
class Report:
    """What stood in the way of delivering at a moment of the elapsed clock, and what was worth a note."""

    at: float
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()


def make_line() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a line: the supervisor's and the process's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def tell(line: socket.socket, report: Report) -> bool:
    """Send a report; False when it did not go out, be it that nobody listens any more."""
    reasons = [reason[:MAX_REASON_LENGTH] for reason in report.reasons[:MAX_REASONS]]
    notes = [note[:MAX_REASON_LENGTH] for note in report.notes[:MAX_NOTES]]
    try:
        # Not escaped: so cut, even the longest message is shorter than what `listen` takes.
        message = json.dumps([report.at, reasons, notes], ensure_ascii=False).encode(errors="replace")
        line.send(message, socket.MSG_DONTWAIT)
    except OSError:
        return False
    return True


def listen(line: socket.socket) -> tuple[Report | None, bool]:
    """Return the newest report that has come, and whether more may come."""
    newest = None
    while True:
        try:
            message = line.recv(MAX_MESSAGE_SIZE)
        except BlockingIOError:
            return newest, True
        except ConnectionError:
            return newest, False
        if not message:
            return newest, False
        at, reasons, notes = json.loads(message)
        newest = Report(at, tuple(reasons), tuple(notes))


class Reporter:
    """Reports a daemon's readiness while it is entered. port: none, the supervisor listens."""

    port = None

    def __init__(self, line: socket.socket, readiness: Readiness, notes: Readiness, clock: Clock) -> None:
        self._line = line
        self._readiness = readiness
        self._notes = notes
        self._clock = clock

    async def __aenter__(self) -> Self:
        self._reporting = asyncio.create_task(self._report())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reporting.cancel()
        await asyncio.wait([self._reporting])

    async def _report(self) -> None:
        told: Report | None = None
        while True:
            now = Report(self._clock.elapsed(), tuple(self._readiness()), tuple(self._notes()))
            if _is_due(told, now) and tell(self._line, now):
                told = now
            await sleep(CHECK_INTERVAL)


def _is_due(told: Report | None, now: Report) -> bool:
    if told is None or now.at - told.at >= REPEAT_INTERVAL:
        return True
    return (told.reasons, told.notes) != (now.reasons, now.notes)
