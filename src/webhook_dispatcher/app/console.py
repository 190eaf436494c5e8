"""`webhook-dispatcher console`: from settings to exit."""

from collections.abc import Sequence

from webhook_dispatcher.app import machine, serving
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.console.pages.health import Setting
from webhook_dispatcher.console.program import MAX_CONNECTIONS, Options, Program
from webhook_dispatcher.console.web import Front
from webhook_dispatcher.diagnosis.explanation import Rules
from webhook_dispatcher.settings import Settings
from webhook_dispatcher.settings.fields import variable
from webhook_dispatcher.settings.shown import holds_secret, is_given, shown


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
    found = [_setting(settings, name) for name in type(settings).model_fields]
    return sorted(found, key=lambda setting: not setting.is_chosen)


def _setting(settings: Settings, name: str) -> Setting:
    value = getattr(settings, name)
    is_secret = holds_secret(type(settings).model_fields[name].annotation)
    return Setting(
        name=variable(name),
        value="" if is_secret and is_given(value) else shown(value),
        is_chosen=name in settings.model_fields_set,
        is_secret=is_secret and is_given(value),
    )


def run(settings: Settings, parent_pid: int | None = None, started_fd: int | None = None) -> None:
    """Serve until told to stop, or until that parent has died; raises what it ended for otherwise."""
    machine.lower_priority()
    serving.run(
        settings,
        lambda: Program(options_of(settings), SystemClock()),
        "the console",
        parent_pid,
        started_fd,
    )
