"""What `api` and `console` have in common: from their settings to exit."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

import uvloop

from webhook_dispatcher.app import machine, signals
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.local.confinement import death_signal
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.telemetry import logs
from webhook_dispatcher.web.running import Running

OWN_OPEN_FILES = 64
"""Files that a process needs besides its connections to clients: databases, logs, operators."""


def refuse_keys(settings: Settings, whose: str) -> None:
    """Raise ConfigurationError where the settings hold the keys that open secrets. whose: which program."""
    if settings.secret_keys is not None:
        raise ConfigurationError(
            f"WEBHOOK_SECRET_KEYS: must not be set here: {whose}, must not hold the keys that open secrets"
        )


def run(
    settings: Settings,
    program: Callable[[], Running],
    whose: str,
    parent_pid: int | None = None,
    started_fd: int | None = None,
) -> None:
    """Serve until told to stop, or until that parent has died; raises what it ended for otherwise.

    whose: connections these are, for an error. started_fd: gets the URL when it answers.
    """
    if parent_pid is not None and (ask := death_signal(parent_pid, signal.SIGTERM)) is not None:
        ask()
    running = program()
    logs.configure(settings.log_format, settings.log_level, sys.stderr)
    most, limit = running.max_connections, machine.allow_open_files()
    if limit < (needed := most + OWN_OPEN_FILES):
        raise ConfigurationError(
            f"{whose}: {most} connections need {needed} open files, but the limit is {limit}",
            remedy="raise it (ulimit -n, LimitNOFILE)",
        )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(running, started_fd))


async def serve(program: Running, started_fd: int | None = None) -> None:
    """Run the program until a signal stops it."""
    async with AsyncExitStack() as stack:
        with signals.obeyed(program.stop, program.cut_short):
            try:
                await program.start(stack)
                if started_fd is not None:
                    with suppress(BrokenPipeError):
                        os.write(started_fd, program.url.encode())
                    os.close(started_fd)
                machine.tune_collector()
                await program.finished()
            finally:
                await program.drain()
    if (error := program.failure()) is not None:
        raise error
