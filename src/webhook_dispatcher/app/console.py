"""`webhook-dispatcher console`: from settings to exit."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import get_args, get_type_hints

import uvloop
from pydantic import SecretStr

from webhook_dispatcher.app import machine, signals
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.console.pages.health import Setting
from webhook_dispatcher.console.program import MAX_CONNECTIONS, Options, Program
from webhook_dispatcher.console.web import Front
from webhook_dispatcher.diagnosis.explanation import Rules
from webhook_dispatcher.domain.duration import render_duration
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.local.confinement import death_signal
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.settings.fields import PREFIX
from webhook_dispatcher.telemetry import logs

OWN_OPEN_FILES = 64


def options_of(settings: Settings) -> Options:
    """Return what the settings say; ConfigurationError where the console may not be run with them."""
    if settings.secret_keys is not None:
        raise ConfigurationError(
            "WEBHOOK_SECRET_KEYS: must not be set here: the console, which browsers reach, must not hold the "
            "keys that open secrets"
        )
    return Options(
        address=settings.console_address,
        front=Front(
            origin=settings.console_origin,
            trusted_proxies=settings.console_trusted_proxies,
            proxy_header=settings.console_proxy_header if settings.console_auth == "proxy" else None,
        ),
        database_url=settings.database_dsn(),
        grace=settings.shutdown_grace.total_seconds(),
        egress=settings.egress_policy(),
        rules=Rules(settings.unconfigured_hold, settings.retry_schedule),
        settings=shown_settings(settings),
        shard=settings.shard_name,
        is_pooled=settings.is_pooled,
        installation=settings.installation,
    )


def shown_settings(settings: Settings) -> Sequence[Setting]:
    """Return the settings as people read them: those that were chosen first, and none that holds a secret."""
    shown = [_setting(settings, name) for name in type(settings).model_fields]
    return sorted(shown, key=lambda setting: not setting.is_chosen)


def _setting(settings: Settings, name: str) -> Setting:
    value = getattr(settings, name)
    is_secret = _holds_secret(type(settings).model_fields[name].annotation)
    return Setting(
        name=PREFIX + name.upper(),
        value=_shown(value, is_secret),
        is_chosen=name in settings.model_fields_set,
        is_secret=is_secret and _is_given(value),
    )


def _holds_secret(kind: object) -> bool:
    """Tell whether values of a type are secrets, or have some inside."""
    if is_dataclass(kind):
        return any(map(_holds_secret, get_type_hints(kind).values()))
    return kind is SecretStr or any(map(_holds_secret, get_args(kind)))


def _is_given(value: object) -> bool:
    return value is not None and value not in ((), frozenset())


def _shown(value: object, is_secret: bool) -> str | None:
    if not _is_given(value):
        return None
    if is_secret:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, frozenset):
        return ",".join(sorted(map(str, value)))
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, Schedule):
        return ",".join(map(render_duration, value.delays))
    if isinstance(value, RateLimits):
        limits = {field.name: getattr(value, field.name) for field in fields(value)}
        return " ".join(f"{name}={one.most}/{render_duration(one.window)}" for name, one in limits.items())
    return render_duration(value) if isinstance(value, timedelta) else str(value)


def run(settings: Settings, parent_pid: int | None = None) -> None:
    """Serve until told to stop, or until that parent has died; raises what it ended for otherwise."""
    if parent_pid is not None and (ask := death_signal(parent_pid, signal.SIGTERM)) is not None:
        ask()
    options = options_of(settings)
    logs.configure(settings.log_format, settings.log_level, sys.stderr)
    limit, needed = machine.allow_open_files(), MAX_CONNECTIONS + OWN_OPEN_FILES
    if limit < needed:
        raise ConfigurationError(
            f"the console needs {needed} open files, but the limit is {limit}",
            remedy="raise it (ulimit -n, LimitNOFILE)",
        )
    machine.lower_priority()
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
