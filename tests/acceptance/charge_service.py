"""The sample charge service as a process of its own."""

import subprocess
import sys
from types import TracebackType
from typing import Self

from tests.spent import spending
from tests.waiting import MAX_WAIT


class ChargeServiceProcess:
    """`python -m examples.charge_service` while entered; `url` is where it is.

    database_url: of the role that produces; port: 0 for a free one. It misbehaves on request.
    """

    url: str

    def __init__(self, database_url: str, port: int = 0) -> None:
        self._database_url = database_url
        self._port = port

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "examples.charge_service", "--port", str(self._port), "--misbehaves"]
            + ["--database-url", self._database_url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        with spending("starting programs"):
            self.url = self.process.stdout.readline().strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.terminate()
        return self.process.wait(MAX_WAIT)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(MAX_WAIT)
