"""Starts our programs from an interpreter that has imported them: for 20 ms of processor time, not 700.

Each becomes what `python -m` would make of it, and a child of whoever asked (tests/acceptance/forked.py).
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from webhook_dispatcher.transport.openssl import start_openssl

IMPORTED = (
    "encodings.idna",
    *(f"webhook_dispatcher.app.{name}" for name in ("api", "console", "daemon", "supervisor")),
    *(f"webhook_dispatcher.cli.{name}" for name in ("api", "check", "console", "daemon", "endpoints")),
    *(f"webhook_dispatcher.cli.{name}" for name in ("explain", "program", "recover")),
    "webhook_dispatcher.domain.sealing",
)
MAX_REQUEST = 1 << 17
"""Bytes: a little more than all variables of an environment that anybody has."""


def main() -> None:
    """Import, and fork for each request until whoever asks is gone."""
    line = socket.socket(fileno=int(sys.argv[1]))
    start_openssl()  # as each of them does before it imports anything
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that a collection in a child leaves the pages alone that all share
    while True:
        request, files, _, _ = socket.recv_fds(line, MAX_REQUEST, 3)
        if not request:
            return None
        if (pid := _fork_for_asker()) == 0:
            line.close()
            return _become(json.loads(request), files)
        for file in files:
            os.close(file)
        line.send(str(pid).encode())


def _fork_for_asker() -> int:
    """Fork a child whose parent has ended, so that it is the asker's; return its pid, or 0 in the child."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        os.close(reading)
        if pid:
            os.write(writing, str(pid).encode())
            os._exit(0)
        os.close(writing)
        return 0
    os.close(writing)
    os.waitpid(between, 0)
    with open(reading) as told:
        return int(told.read())


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Be what the request names: with its files, its environment, its folder, its arguments."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    sys.path.insert(0, request["folder"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    module, *arguments = request["command"]
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        _end(0)
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            _end(ended.code or 0)
        raise


def _end(code: int) -> None:
    """End as an interpreter does, but free nothing: that would write to every page that is shared."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # What cannot be written, the interpreter is left to complain of.
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
