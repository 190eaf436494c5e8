"""A server, and programs beside it, whose clock can be set while they run.

Libfaketime asks a file at each reading; what is waited for takes as long as ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.chaos.clock import HOUR, own_clock
from tests.servers.scaled_time import living_in

__all__ = ["HOUR", "OwnClock", "with_own_clock"]


class OwnClock:
    """The clock of all that is started while `with_own_clock` is entered."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, seconds: int) -> None:
        """Put it off by so many seconds."""
        # Exchanged, not written: a reader between truncation and the new text would read no offset.
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+}")
        fresh.chmod(0o644)
        fresh.replace(self._file)


@contextmanager
def with_own_clock() -> Iterator[OwnClock]:
    """Let what is started while entered go by a clock that can be set."""
    with TemporaryDirectory(prefix="webhook-clock-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # a server started as root runs as nobody
        clock = OwnClock(folder / "clock")
        with living_in(own_clock(folder / "clock")):
            yield clock
