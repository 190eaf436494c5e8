"""The Partner API with the operations of api_program.py, as a process of its own."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from tests.acceptance.api_program import RELEASE
from tests.acceptance.processes import Daemon

ROOT = Path(__file__).parents[2]
PROGRAM = ("tests.acceptance.api_program",)
ANYWHERE = {"API_ADDRESS": "127.0.0.1:0", "API_OPS_ADDRESS": "127.0.0.1:0", "LOG_FORMAT": "json"}


@dataclass(frozen=True)
class Api:
    """Where it listens."""

    daemon: Daemon
    port: int
    ops_port: int


@dataclass(frozen=True)
class ApiProcess:
    """The process; once it listens, an Api. release: a file that lets slow operations end."""

    daemon: Daemon
    release: Path

    async def listening(self) -> Api:
        """Wait until it listens."""
        line = await self.daemon.logged("api.started")
        return Api(self.daemon, line["port"], line["ops_port"])

    def memory(self) -> int:
        """Return the bytes that it holds in memory."""
        return resident(self.daemon.process.pid)


def resident(pid: int) -> int:
    """Return the bytes that a process holds in memory."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def started_api(folder: Path, settings: Mapping[str, str]) -> Iterator[ApiProcess]:
    """Run it while entered."""
    release = folder / "release"
    with patch.dict(os.environ, {RELEASE: str(release)}):
        daemon = Daemon.spawn({**ANYWHERE, **settings}, folder / "log", ROOT, PROGRAM)
    try:
        yield ApiProcess(daemon, release)
    finally:
        daemon.end()
