"""The yardstick of tests whose subject is a deadline."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.waiting import Yardstick

WATCHED = 1.0
"""Seconds: twenty bursts on a machine that is idle."""


def watched() -> Yardstick:
    with Yardstick() as machine:
        threading.Event().wait(WATCHED)
    return machine


def test_a_limit_is_never_shortened_and_grows_where_the_machine_is_slow() -> None:
    machine = Yardstick()
    assert machine.allows(1.0) == 1.0
    machine.slowdown, machine.worst = 0.9, 0.0
    assert machine.allows(1.0) == 1.0
    machine.slowdown, machine.worst = 3.0, 0.5
    assert machine.allows(2.0) == 6.5


@pytest.fixture
def one_processor() -> Iterator[None]:
    """Keep us, and what we start, on one processor."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(ours)})
    yield
    os.sched_setaffinity(0, ours)


@pytest.mark.usefixtures("one_processor")
def test_work_beside_ours_is_noticed() -> None:
    with ExitStack() as stack:
        for _ in range(4):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(busy.kill)
        machine = watched()
    assert machine.slowdown > 2
    assert machine.allows(1.0) > 2
