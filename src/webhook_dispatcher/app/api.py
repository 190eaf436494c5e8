"""`webhook-dispatcher api`: from settings to exit."""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack

import uvloop

from webhook_dispatcher.api.program import MAX_REQUEST_TIME, Options, Program
from webhook_dispatcher.app import machine, signals
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.local.confinement import death_signal
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.telemetry import logs

OWN_OPEN_FILES = 64
"""Files that a process needs besides its connections to clients: databases, logs, operators."""


def options_of(settings: Settings) -> Options:
    """Return what the settings say; ConfigurationError where the API may not be run with them."""
    if settings.secret_keys is not None:
        raise ConfigurationError(
            "WEBHOOK_SECRET_KEYS: must not be set here: the Partner API, which the internet reaches, "
            "must not hold the keys that open secrets"
        )
    return Options(
        address=settings.api_address,
        ops_address=settings.api_ops_address,
        trusted_proxies=settings.api_trusted_proxies,
        max_connections=settings.api_max_connections,
        grace=max(settings.shutdown_grace, MAX_REQUEST_TIME).total_seconds(),
        databases={
            shard.name: settings.of_shard(shard.name).database_dsn() for shard in settings.databases()
        },
        limits=settings.api_limits,
        egress=settings.egress_policy(),
        is_pooled=settings.is_pooled,
        installation=settings.installation,
        upstream=settings.api_upstream,
    )


def run(settings: Settings, parent_pid: int | None = None) -> None:
    """Serve until told to stop, or until that parent has died; raises what it ended for otherwise."""
    if parent_pid is not None and (ask := death_signal(parent_pid, signal.SIGTERM)) is not None:
        ask()
    options = options_of(settings)
    logs.configure(settings.log_format, settings.log_level, sys.stderr)
    limit, needed = machine.allow_open_files(), options.max_connections + OWN_OPEN_FILES
    if limit < needed:
        raise ConfigurationError(
            f"WEBHOOK_API_MAX_CONNECTIONS: {options.max_connections} connections need {needed} open files, "
            f"but the limit is {limit}",
            remedy="raise it (ulimit -n, LimitNOFILE)",
        )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Program(options, SystemClock())))


async def serve(program: Program) -> None:
    """Run the program until a signal stops it."""
    async with AsyncExitStack() as stack:
        with signals.obeyed(program.stop, program.cut_short):
            try:
                await program.start(stack)
                machine.tune_collector()
                await program.finished()
            finally:
                await program.drain()
    if (error := program.failure()) is not None:
        raise error
