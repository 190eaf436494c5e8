"""`webhook-dispatcher console`: from settings to exit."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import get_args, get_type_hints

from pydantic import SecretStr

from webhook_dispatcher.app import machine, serving
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.console.pages.health import Setting
from webhook_dispatcher.console.program import MAX_CONNECTIONS, Options, Program
from webhook_dispatcher.console.web import Front
from webhook_dispatcher.diagnosis.explanation import Rules
from webhook_dispatcher.domain.duration import render_duration
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.settings.fields import PREFIX


def options_of(settings: Settings) -> Options:
    """Return what the settings say; ConfigurationError where the console may not be run with them."""
    serving.refuse_keys(settings, "the console, which browsers reach")
    return Options(
        address=settings.console_address,
        front=Front(
            origin=settings.console_origin,
            proxy_header=settings.console_proxy_header if settings.console_auth == "proxy" else None,
        ),
        trusted_proxies=settings.console_trusted_proxies,
        max_connections=MAX_CONNECTIONS,
        databases={settings.shard_name: settings.database_dsn()},
        grace=settings.shutdown_grace.total_seconds(),
        egress=settings.egress_policy(),
        rules=Rules(settings.unconfigured_hold, settings.retry_schedule),
        settings=shown_settings(settings),
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
    machine.lower_priority()
    serving.run(settings, _program, "the console", parent_pid)


def _program(settings: Settings) -> Program:
    return Program(options_of(settings), SystemClock())
