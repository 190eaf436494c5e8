"""Warnings that repeat themselves: one of each kind a second, and never one that names somebody less."""

import contextlib
from typing import Any

import pytest
import structlog

from webhook_dispatcher.telemetry.throttle import MAX_EVENTS, NAMES, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Log:
    """A throttle and what it let through."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.throttle = Throttle(self.clock)
        self.written: list[dict[str, Any]] = []

    def tell(self, method: str, event: str, **facts: object) -> None:
        with contextlib.suppress(structlog.DropEvent):
            self.written.append(dict(self.throttle(None, method, {"event": event, **facts})))


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_kind_of_warning_is_written_once_a_second_with_how_many_were_left_out(log: Log) -> None:
    for _ in range(9):
        log.tell("warning", "claim.failed", error="away")
        log.clock.now += 0.25
    assert log.written == [
        {"event": "claim.failed", "error": "away"},
        {"event": "claim.failed", "error": "away", "suppressed": 3},
        {"event": "claim.failed", "error": "away", "suppressed": 3},
    ]


def test_each_kind_has_a_second_of_its_own(log: Log) -> None:
    for event in ("claim.failed", "sweep.failed", "claim.failed", "record.failed"):
        log.tell("warning", event, error="away")
    assert [line["event"] for line in log.written] == ["claim.failed", "sweep.failed", "record.failed"]


def test_what_lasts_is_written_less_often_where_it_asks_for_that(log: Log) -> None:
    for _ in range(241):
        log.tell("error", "charges.not_indexed", error="run migrate", once_in=60.0)
        log.clock.now += 0.5
    lasting = {"event": "charges.not_indexed", "error": "run migrate"}
    assert log.written == [lasting, lasting | {"suppressed": 119}, lasting | {"suppressed": 119}]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_line_that_names_somebody_is_always_written(log: Log, name: str) -> None:
    for number in range(5):
        log.tell("error", "row.refused", error="damaged", **{name: number})
    assert [line[name] for line in log.written] == [0, 1, 2, 3, 4]


def test_faults_and_what_is_no_warning_are_always_written(log: Log) -> None:
    for _ in range(3):
        log.tell("error", "fault.began", kind="local")
        log.tell("info", "delivery.attempted", error="refused")
    assert len(log.written) == 6


def test_it_remembers_a_bounded_number_of_kinds(log: Log) -> None:
    for number in range(10 * MAX_EVENTS):
        log.tell("warning", f"loop_{number}.failed", error="away")
    assert (len(log.throttle._written), len(log.written)) == (MAX_EVENTS, 10 * MAX_EVENTS)
