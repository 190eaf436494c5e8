"""The console's own table of routes, so that no test forgets one; and paths for them."""

from typing import cast
from uuid import UUID

from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.console.calls import AnyRoute
from webhook_dispatcher.console.static_files import StaticFiles
from webhook_dispatcher.console.table import Parts, table
from webhook_dispatcher.diagnosis.explanation import Rules
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.transport.guard import EgressPolicy, Guard

EVENT = UUID("0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11")


def routes() -> list[AnyRoute]:
    """Return every route that the program has; nothing of it is asked."""
    nothing = cast(Database, None)
    hold = load_settings({}).unconfigured_hold
    return list(
        table(
            Parts(
                database=nothing,
                clock=SystemClock(),
                guard=Guard(EgressPolicy()),
                rules=Rules(hold, Schedule()),
                static=StaticFiles(),
                settings=(),
                shard=None,
                installation=None,
                is_by_proxy=False,
                readiness=list,
                names=Names,
            )
        )
    )


def path_of(route: AnyRoute, merchant: str = "m1", event: UUID = EVENT, command: int = 1) -> str:
    """Return a path that a route answers."""
    [static, *_] = StaticFiles().paths()
    path = route.template
    for name, value in (("merchant", merchant), ("event", event), ("command", command)):
        path = path.replace("{" + name + "}", str(value))
    return path.replace("/static/{file}", static)
