"""A clock of the server's own, an hour off now and then; and what was recorded by it, put right."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeVar

from lab.chaos.evidence import Attempted, Command, Delivery, Evidence
from tests.servers.scaled_time import LIBRARY

HOUR = 3600
"""Seconds; a run is shorter, so that an instant shows by which clock it was."""
Row = TypeVar("Row", Attempted, Delivery, Command)


def own_clock(file: Path) -> Mapping[str, str]:
    """Return the variables with which a program's clock is off as a file says; what it waits for is not."""
    return {
        # After what sets the clock of the whole run, where there is one (lab/flaky): it asks the next.
        "LD_PRELOAD": " ".join([*os.environ.get("LD_PRELOAD", "").split(), str(LIBRARY)]),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def put_right(evidence: Evidence) -> Evidence:
    """Move what the database recorded by a clock an hour off to when it was."""
    middle = (evidence.began + evidence.ended) / 2
    return replace(
        evidence,
        deliveries={
            event_id: _moved(replace(one, attempted=_all_moved(one.attempted, middle)), middle)
            for event_id, one in evidence.deliveries.items()
        },
        deleted={event_id: _all_moved(rows, middle) for event_id, rows in evidence.deleted.items()},
        commands=_all_moved(evidence.commands, middle),
    )


def _all_moved(rows: Sequence[Row], middle: float) -> tuple[Row, ...]:
    return tuple(_moved(row, middle) for row in rows)


def _moved(row: Row, middle: float) -> Row:
    """Move each instant of a row by whole hours, so that it lies in the run."""
    instants = {
        name: at - HOUR * round((at - middle) / HOUR)
        for name in (field.name for field in fields(row))
        if name in _INSTANTS and (at := getattr(row, name)) is not None and abs(at) < float("inf")
    }
    return replace(row, **instants)


_INSTANTS = frozenset(("started_at", "created_at", "finished_at", "given_at", "handled_at"))
