"""Time that passes faster, for a test's server and for its programs alike.

libfaketime multiplies what their clocks show and divides what they wait for; they share one start, so that
their clocks agree. The product has no switch for it, which is why nobody can set one in production. The
test itself, and its receiver, live in real time. Under libfaketime 0.9.10 Postgres's lock_timeout does not
expire, and Python's time.sleep fails: what needs these is tested in real time.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

LIBRARY = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
FACTOR = 10
_KEEP = 'echo "$FAKETIME_SHARED"; read -r _'


@contextmanager
def scaled_time(factor: int = FACTOR) -> Iterator[Mapping[str, str]]:
    """Give the variables of an environment whose programs live so many times as fast, while entered."""
    # After what sets the clock of the whole run, where there is one (lab/flaky): it asks the next.
    preloaded = " ".join([*os.environ.get("LD_PRELOAD", "").split(), str(LIBRARY)])
    variables = {"LD_PRELOAD": preloaded, "FAKETIME": f"+0 x{factor}"}
    # The first process keeps the start for all others, in a memory that goes when it ends. It keeps none if
    # one of the same number was killed and left its own: another process has another number.
    while True:
        with subprocess.Popen(
            ["sh", "-c", _KEEP],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as keeper:
            assert keeper.stdout is not None
            shared = keeper.stdout.readline().strip()
            try:
                if shared:
                    yield {**variables, "FAKETIME_SHARED": shared}
                    return
            finally:
                keeper.communicate("\n")


@contextmanager
def living_in(variables: Mapping[str, str]) -> Iterator[None]:
    """Let what is started while entered have these variables."""
    with patch.dict(os.environ, variables):
        yield
