"""Composition root: a daemon in this process, from settings to exit."""

import asyncio
import base64
import os
import resource
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import structlog
import uvloop
from pydantic import SecretStr

from webhook_dispatcher.app.daemon import Daemon
from webhook_dispatcher.domain.keyring import KEY_BYTES
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.settings import Settings, check_open_files
from webhook_dispatcher.storage import schema
from webhook_dispatcher.telemetry import logs

_log = structlog.get_logger()


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Daemon]:
    """Run a daemon while entered; leaving it drains. Raises what a part of it failed with."""
    daemon = Daemon(settings)
    async with AsyncExitStack() as stack:
        try:
            await daemon.start(stack)
            yield daemon
        finally:
            await daemon.drain()
        if (error := daemon.failure()) is not None:
            raise error


async def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; a second one cuts the grace short."""
    daemon = Daemon(settings)
    received = 0

    def receive() -> None:
        nonlocal received
        received += 1
        daemon.stop() if received == 1 else daemon.cut_short()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, receive)
    async with AsyncExitStack() as stack:
        try:
            await daemon.start(stack)
            await daemon.finished()
        finally:
            await daemon.drain()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)  # all is done: another one changes nothing
    if (error := daemon.failure()) is not None:
        raise error


def run(settings: Settings, embedded: bool = False) -> None:
    """Run the daemon in this process until it is told to stop."""
    logs.configure(settings.log_format, settings.log_level, sys.stderr)
    _raise_open_files(settings.max_lanes)
    with ExitStack() as stack:
        if embedded:
            postgres = stack.enter_context(EmbeddedPostgres(settings.data_dir))
            asyncio.run(schema.migrate(postgres.dsn()))
            settings = settings.model_copy(
                update={
                    "database_url": SecretStr(postgres.dsn("webhook_dispatcher")),
                    "secret_keys": settings.secret_keys or development_key(settings.data_dir),
                }
            )
            _log.info(
                "database.started",
                producer_url=postgres.dsn("webhook_producer"),
                admin_url=postgres.dsn("webhook_admin"),
            )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))


def development_key(data_dir: Path) -> SecretStr:
    """Read the key kept beside an embedded database; make it when it is not there."""
    file = data_dir / "secret_keys"
    if not file.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write("development:" + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode())
    return SecretStr(file.read_text())


def _raise_open_files(max_lanes: int) -> None:
    """Use as many open files as we may have, and refuse more lanes than they serve."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    check_open_files(max_lanes, sys.maxsize if most == resource.RLIM_INFINITY else most)
