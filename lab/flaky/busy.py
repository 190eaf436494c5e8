"""Busy loops: processes that take processor time from the suite."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

# A loop ends by itself when we are gone: SIGKILL leaves us no time to end it.
_LOOP = """
import os
while os.getppid() == {parent}:
    for _ in range(100_000):
        pass
"""


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Run so many processes that spin while entered, out of reach of the terminal's Ctrl-C."""
    with ExitStack() as ending:
        for _ in range(count):
            command = [sys.executable, "-c", _LOOP.format(parent=os.getpid())]
            loop = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
            ending.callback(loop.wait)
            ending.callback(loop.kill)
        yield
