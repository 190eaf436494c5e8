"""Programs of ours as processes, from a fork server where that makes no difference.

What an interpreter heeds before its first import (variables of Python's, of the dynamic linker's, of
OpenSSL's) needs a fresh one, as do measurements of its memory: `Popen` starts that.
"""

import atexit
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.waiting import MAX_WAIT

ROOT = Path(__file__).parents[2]
_SPECIAL = ("PYTHON", "LD_", "MALLOC_", "FAKETIME", "OPENSSL_")
_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class ForkedProcess:
    """A child of ours, with what tests use of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return the exit code, or the signal that ended it as a negative number; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._ended)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, for so many seconds at most, and return the exit code."""
        if self.poll() is None:
            select.select([self._ended], [], [], timeout)
        if (code := self.poll()) is None:
            raise TimeoutError(f"process {self.pid} has not ended within {timeout} s")
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen[bytes] | ForkedProcess


class _ForkServer:
    """The process that forks for this one, started when it is first asked.

    special: variables that a fresh interpreter heeds, as its own are.
    """

    def __init__(self, special: Mapping[str, str]) -> None:
        self._special = special
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def fork(self, request: Mapping[str, Any], files: Sequence[int]) -> ForkedProcess:
        """Have it start a program with these as standard input, output and error."""
        with self._lock:
            line = self._line = self._line or self._start()
            # An orphan becomes the child of its nearest ancestor that says so, as we do for a moment.
            _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(line, [json.dumps(request).encode()], files)
                return ForkedProcess(int(line.recv(20)))
            finally:
                _libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.acceptance.fork_server", str(theirs.fileno())],
                env={**os.environ, **self._special},
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self._end)
        return ours

    def _end(self) -> None:
        if self._line and self._process:
            self._line.close()
            self._process.wait()


_servers: dict[frozenset[tuple[str, str]], _ForkServer] = {}


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    stdin: int | None,
    stdout: IO[Any] | None,
    stderr: IO[Any],
) -> Process:
    """Start `python -m` with these words; without a file it reads, or writes, nothing.

    Whoever starts it sees to its end.
    """
    with open(os.devnull, "r+b") as nothing:
        files = [nothing.fileno() if stdin is None else stdin, (stdout or nothing).fileno(), stderr.fileno()]
        if (server := _fork_server(environment)) is None:
            found = os.pathsep.join([*filter(None, [environment.get("PYTHONPATH")]), str(ROOT)])
            return subprocess.Popen(
                [sys.executable, "-m", *command],
                env={**environment, "PYTHONPATH": found},
                cwd=folder,
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
            )
        request = {"command": list(command), "environment": dict(environment), "folder": str(folder)}
        return server.fork(request, files)


def _fork_server(environment: Mapping[str, str]) -> _ForkServer | None:
    """Return the server whose interpreter is as this environment would make a fresh one, if any is."""
    special = {name: text for name, text in environment.items() if name.startswith(_SPECIAL)}
    is_known = special == _OURS or "FAKETIME_SHARED" in special
    if not is_known or any(name.startswith("COVERAGE_") for name in environment):
        return None
    return _servers.setdefault(frozenset(special.items()), _ForkServer(special))


_OURS = {name: text for name, text in os.environ.items() if name.startswith(_SPECIAL)}


def run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, stdin: int | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run `python -m` with these words to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(command, environment, folder, stdin, out, err)
        try:
            code = process.wait(MAX_WAIT)
        except (TimeoutError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
            raise
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
        return subprocess.CompletedProcess(command, code, *said)
