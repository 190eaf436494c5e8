"""Successes in the log: the share that was asked for, none left out without a count, and failures always."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.telemetry.logs import configure


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def logged(share: float, *outcomes: Outcome) -> list[dict[str, Any]]:
    """Log attempts that ended so, and a stop, and return the lines."""
    stream = io.StringIO()
    configure("json", "info", stream, share)
    log = structlog.get_logger()
    for seq, outcome in enumerate(outcomes):
        log.info("delivery.attempted", seq=seq, outcome=outcome)
    log.info("daemon.stopped")
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("share", "successes", "expected"),
    [
        (1, 3, [(0, 0), (1, 0), (2, 0), (None, 0)]),
        (0.1, 25, [(0, 0), (10, 9), (20, 9), (None, 4)]),
        (0, 25, [(None, 25)]),
    ],
)
def test_each_line_says_how_many_successes_were_left_out_before_it(
    share: float, successes: int, expected: list[tuple[int | None, int]]
) -> None:
    lines = logged(share, *[Outcome.DELIVERED] * successes)
    assert [(line.get("seq"), line.get("left_out", 0)) for line in lines] == expected


def test_failures_are_always_written() -> None:
    lines = logged(0, Outcome.DELIVERED, Outcome.TLS, Outcome.TIMEOUT, Outcome.DELIVERED)
    assert [(line.get("outcome"), line.get("left_out", 0)) for line in lines] == [
        ("tls", 1),
        ("timeout", 0),
        (None, 1),
    ]
