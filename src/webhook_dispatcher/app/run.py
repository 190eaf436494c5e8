"""`webhook-dispatcher run`: from settings to exit, in this process or as a supervisor of several."""

import asyncio
import base64
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from shlex import quote

import structlog
import uvloop
from pydantic import SecretStr

from webhook_dispatcher.app import machine, sign_in, signals, supervisor
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.app.daemon import Daemon
from webhook_dispatcher.app.report import Report, Reporter, ShowsOperators, tell
from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.domain.signing import KEY_BYTES
from webhook_dispatcher.local.confinement import death_signal
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.local.program_process import ProgramProcess, environment_of
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.settings.shards import Shard
from webhook_dispatcher.settings.sources import without_files
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes
from webhook_dispatcher.telemetry import logs, merging

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


async def serve(
    settings: Settings,
    show_operators: ShowsOperators | None = None,
    obeyed: Callable[..., AbstractContextManager[None]] = signals.obeyed,
) -> None:
    """Run a daemon in this process until it is told to stop.

    obeyed: from when it is entered, signals call its two arguments: stop, and cut the grace short.
    """
    daemon = Daemon(settings, show_operators)
    async with AsyncExitStack() as stack:
        with obeyed(daemon.stop, daemon.cut_short):
            try:
                await daemon.start(stack)
                await daemon.finished()
            finally:
                await daemon.drain()
    if (error := daemon.failure()) is not None:
        raise error


def run(
    settings: Settings,
    embedded: bool = False,
    environ: Mapping[str, str] = os.environ,
    tell: Callable[[str], None] = print,
    parent_pid: int | None = None,
) -> int:
    """Run until told to stop, and return the exit code: in this process, or as a supervisor of several.

    environ: what the supervisor's processes get. tell: says what is for people and no log. parent_pid: whose
    death stops it.
    """
    if parent_pid is not None and (ask := death_signal(parent_pid, signal.SIGTERM)) is not None:
        ask()
    logs.configure(settings.log_format, settings.log_level, sys.stderr, settings.log_successes)
    machine.raise_open_files(settings.max_lanes)
    with ExitStack() as stack:
        if embedded:
            postgres = stack.enter_context(EmbeddedPostgres(settings.data_dir))
            settings = _with_database(settings, postgres)
            api, console = _programs_beside(settings, postgres, without_files(environ, settings))
            stack.enter_context(api)
            url = stack.enter_context(console).wait_for_url()
            asyncio.run(_tell_how_to_sign_in(url, postgres.dsn("webhook_admin"), tell))
        count = settings.process_count(machine.usable_cpus())
        if count > 1 or len(settings.databases()) > 1:
            return supervisor.supervise(settings, environ, count)
        _bind(settings)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    return 0


def run_child(settings: Settings, number: int, line: socket.socket, supervisor_pid: int) -> None:
    """Run a daemon as one process of a supervisor, which listens at the other end of the line.

    It ends when the supervisor has died, even before this was called.
    """
    # Asked for here and not between fork and exec: the supervisor may have threads, which fork does not copy.
    if (ask := death_signal(supervisor_pid, signal.SIGTERM)) is not None:
        ask()
    logs.configure(settings.log_format, settings.log_level, sys.stderr, settings.log_successes)
    _bind(settings, process=number)
    merging.share(number)
    clock = SystemClock()
    try:
        machine.raise_open_files(settings.max_lanes)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(
                serve(
                    settings,
                    lambda _address, _registry, readiness, notes: Reporter(line, readiness, notes, clock),
                    signals.obeyed_from_supervisor,
                )
            )
    except DispatcherError as error:
        tell(line, Report(clock.elapsed(), (str(error),)))
        raise


def _bind(settings: Settings, **fields: object) -> None:
    """Let every log line say which database it is about, where databases have names, and more."""
    named = {"shard": settings.shard_name} if settings.shard_name else {}
    structlog.contextvars.bind_contextvars(**fields, **named)


def _with_database(settings: Settings, postgres: EmbeddedPostgres) -> Settings:
    """Migrate an embedded database, and return the settings to use it with."""
    # The Partner API runs beside it: merchants read their events by this index.
    asyncio.run(schema.migrate(postgres.dsn(), ChosenIndexes(feed=True), name=settings.installation))
    _log.info(
        "database.started",
        producer_url=postgres.dsn("webhook_producer"),
        admin_url=postgres.dsn("webhook_admin"),
    )
    return settings.model_copy(
        update={
            "database_url": (Shard(None, SecretStr(postgres.dsn("webhook_dispatcher"))),),
            "instance_dir": settings.instance_dir or settings.data_dir / "instances",
            "secret_keys": settings.secret_keys or development_key(settings.data_dir),
        }
    )


def _programs_beside(
    settings: Settings, postgres: EmbeddedPostgres, environ: Mapping[str, str]
) -> tuple[ProgramProcess, ProgramProcess]:
    """Return the Partner API and the console; their logs are among ours."""
    api = environment_of(
        environ,
        postgres.dsn("webhook_api"),
        WEBHOOK_API_ADDRESS=settings.api_address,
        WEBHOOK_API_OPS_ADDRESS=settings.api_ops_address,
    )
    console = environment_of(
        environ, postgres.dsn("webhook_console"), WEBHOOK_CONSOLE_ADDRESS=settings.console_address
    )
    return ProgramProcess("api", api, Path.cwd()), ProgramProcess("console", console, Path.cwd())


async def _tell_how_to_sign_in(url: str | None, admin_url: str, tell: Callable[[str], None]) -> None:
    """Print where the console is, a code that signs in, and how to have another; never into the log."""
    if url is None:
        tell("the console has not started: see the log")
        return
    async with administration(admin_url) as admin:
        code = await sign_in.make_code(admin.connection, "run --embedded")
    if code is not None:
        tell(
            f"the console is at {url}: sign in with the code {code}, once, within sixty seconds; for another:"
        )
        tell(f"WEBHOOK_DATABASE_URL={quote(admin_url)} webhook-dispatcher account code {sign_in.ACCOUNT}")


def development_key(data_dir: Path) -> SecretStr:
    """Read the key kept beside an embedded database; make it when it is not there."""
    file = data_dir / "secret_keys"
    if not file.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write("development:" + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode())
    return SecretStr(file.read_text())
