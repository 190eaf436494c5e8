"""`webhook-dispatcher api`: from settings to exit."""

from webhook_dispatcher.api.program import MAX_REQUEST_TIME, Options, Program
from webhook_dispatcher.app import serving
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.settings import Settings


def options_of(settings: Settings) -> Options:
    """Return what the settings say; ConfigurationError where the API may not be run with them."""
    serving.refuse_keys(settings, "the Partner API, which the internet reaches")
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


def run(settings: Settings, parent_pid: int | None = None, started_fd: int | None = None) -> None:
    """Serve until told to stop, or until that parent has died; raises what it ended for otherwise."""
    serving.run(
        settings,
        lambda: Program(options_of(settings), SystemClock()),
        "WEBHOOK_API_MAX_CONNECTIONS",
        parent_pid,
        started_fd,
    )
