"""A program of ours as a process of its own, beside us: for laptops, the demo and `bench`.

The Partner API and the console get none of the keys that open secrets, and work on the database in a role of
their own. It ends when we do, whatever ends us. A terminal's Ctrl-C reaches us alone. One that ends by itself
is not started again.
"""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from webhook_dispatcher.telemetry.address import split_address

NOT_PASSED_ON = ("WEBHOOK_SECRET_KEYS", "WEBHOOK_MIGRATION_DATABASE_URL")
START = 60.0
"""Seconds in which it answers, on whatever machine."""
GRACE = 40.0
"""Seconds that it has to end by itself: what its longest request may take, and some."""


def environment_of(environ: Mapping[str, str], database_url: str, **usual: str) -> dict[str, str]:
    """Return what it gets of our environment. usual: its addresses if none were chosen and they are free."""
    own = {name: text for name, text in environ.items() if name not in NOT_PASSED_ON}
    for name, address in usual.items():
        own.setdefault(name, _free(address))
    return own | {"WEBHOOK_DATABASE_URL": database_url}


def _free(address: str) -> str:
    """Return the address, or where its port is taken that of any free one."""
    host, port = split_address(address)
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError:
            return f"{host}:0"
    return address


class ProgramProcess:
    """The process, while this object is entered.

    program: `run`, `api` or `console`. log_file: where its log goes, if not to our stderr.
    """

    def __init__(
        self, program: str, environment: Mapping[str, str], folder: Path, log_file: Path | None = None
    ) -> None:
        self.program = program
        self._environment = environment
        self._folder = folder
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None
        self._started: IO[bytes] | None = None
        self._url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-P", "-m", "webhook_dispatcher", self.program]
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self._started = open(reading, "rb")
        command += ["--parent-pid", str(os.getpid())]
        if self.program != "run":  # which answers nowhere
            command += ["--started-fd", str(writing)]
        log = None if self._log_file is None else self._log_file.open("wb")
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(self._environment),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                process_group=0,
                pass_fds=(writing,),
            )
        finally:
            os.close(writing)
            if log is not None:
                log.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, and wait for that."""
        process, self._process = self._process, None
        if self._started is not None:
            self._started.close()
            self._started = None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def code(self) -> int | None:
        """The exit code, if it has ended by itself."""
        return None if self._process is None else self._process.poll()

    def log_tail(self) -> str:
        """Return the last line of its log."""
        assert self._log_file is not None
        return "".join(self._log_file.read_text(encoding="utf-8").splitlines()[-1:])

    def url(self) -> str | None:
        """Say where it answers; None while it does not yet."""
        if not self._url and self._started is not None:
            self._url = (self._started.read() or b"").decode()
        return self._url or None

    def wait_for_url(self) -> str | None:
        """Wait until it answers and say where; None when it has ended, or the time is over."""
        if self._started is not None:
            select.select([self._started], [], [], START)
        return self.url()
