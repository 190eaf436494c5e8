"""The line between a process and its supervisor: reports come whole, in time, and nobody waits for them."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from tests.waiting import MAX_WAIT, Yardstick
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.app.report import (
    MAX_REASON_LENGTH,
    MAX_REASONS,
    REPEAT_INTERVAL,
    Report,
    Reporter,
    listen,
    make_line,
    tell,
)

Line = tuple[socket.socket, socket.socket]
SLACK = 2.0
"""Seconds for a machine that is busy with other things."""


@pytest.fixture
def line() -> Iterator[Line]:
    ours, theirs = make_line()
    with ours, theirs:
        yield ours, theirs


async def heard(ours: socket.socket, count: int) -> list[Report]:
    """Wait for so many reports."""
    loop = asyncio.get_running_loop()
    reports: list[Report] = []
    async with asyncio.timeout(MAX_WAIT):
        while len(reports) < count:
            readable = asyncio.Event()
            loop.add_reader(ours, readable.set)
            await readable.wait()
            loop.remove_reader(ours)
            report, may_come = listen(ours)
            assert may_come
            assert report is not None
            reports.append(report)
    return reports


async def test_report_comes_at_once_when_reasons_change_and_else_every_second(line: Line) -> None:
    reasons, notes = ["the database was not reached yet"], ["all is paused"]
    ours, theirs = line
    async with Reporter(theirs, lambda: reasons, lambda: notes, SystemClock()):
        with Yardstick() as machine:
            first, second = await heard(ours, 2)
            reasons.clear()
            [third] = await heard(ours, 1)
            notes.clear()
            [fourth] = await heard(ours, 1)
        assert first.reasons == second.reasons == ("the database was not reached yet",)
        assert REPEAT_INTERVAL <= second.at - first.at < REPEAT_INTERVAL + machine.allows(SLACK)
        assert (third.reasons, third.notes, fourth.notes) == ((), ("all is paused",), ())
        assert third.at - second.at < machine.allows(REPEAT_INTERVAL)
        assert fourth.at - third.at < machine.allows(REPEAT_INTERVAL)


def test_newest_report_counts(line: Line) -> None:
    ours, theirs = line
    assert listen(ours) == (None, True)
    for number in range(3):
        assert tell(theirs, Report(float(number), (f"reason {number}",)))
    assert listen(ours) == (Report(2.0, ("reason 2",)), True)


def test_last_report_is_heard_after_the_end(line: Line) -> None:
    ours, theirs = line
    tell(theirs, Report(1.0, ("the schema is of version 0",)))
    theirs.close()
    assert listen(ours) == (Report(1.0, ("the schema is of version 0",)), False)
    assert listen(ours) == (None, False)


def test_supervisor_that_does_not_listen_or_is_gone_holds_nobody_up(line: Line) -> None:
    ours, theirs = line
    sent = 0
    while tell(theirs, Report(float(sent), ("x" * MAX_REASON_LENGTH,) * MAX_REASONS)):
        sent += 1
    assert sent > 0
    report, _ = listen(ours)
    assert report is not None
    assert report.at == sent - 1
    ours.close()
    assert not tell(theirs, Report(0.0, ()))


@pytest.mark.parametrize("character", ["x", "\N{SNAKE}", "\0", "\udce9"])
def test_long_lists_are_cut(line: Line, character: str) -> None:
    ours, theirs = line
    assert tell(theirs, Report(1.0, (character * 1_000_000,) * 1000, (character * 1_000_000,) * 1000))
    report, _ = listen(ours)
    assert report is not None
    assert report.reasons == (character.replace("\udce9", "?") * MAX_REASON_LENGTH,) * MAX_REASONS
