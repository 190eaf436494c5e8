"""What keeps dispatchers from delivering, as far as the database knows: console_health.sql, bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from webhook_dispatcher.domain.thresholds import DAYS_AHEAD
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console.overview import DispatcherRow, Overviews
from webhook_dispatcher.storage.console.reading import MAX_COUNTED, ask_as
from webhook_dispatcher.storage.schema import SCHEMA_VERSION
from webhook_dispatcher.storage.statements import load

_STATEMENTS = load("console_health")


@dataclass(frozen=True, slots=True)
class Health:
    """What `check` asks the database, without what only a dispatcher's environment can tell.

    schema_version: of the database; needed_version: of this program. known_server, server: where they differ,
        the database was moved or copied (docs/operations.md).
    kept_since: the first day of the log; made_until: the last for which it has partitions.
    missing: (log, day) of the next DAYS_AHEAD days without a partition.
    sealing_key_confirmed_at: None where no dispatcher has published what the console seals secrets with.
    suspended: merchants, up to MAX_COUNTED + 1.
    """

    now: datetime
    server_version: str
    schema_version: int
    needed_version: int
    compatible_from: int
    installation: str | None
    known_server: int | None
    server: int | None
    has_charge_index: bool
    has_feed_index: bool
    everything_is_paused: bool
    kept_since: date | None
    made_until: date | None
    sealing_key_id: str | None
    sealing_key_confirmed_at: datetime | None
    suspended: int
    missing: Sequence[tuple[str, date]]
    dispatchers: Sequence[DispatcherRow]

    @property
    def has_moved(self) -> bool:
        """Tell whether the database is on another server than the one that it was adopted on."""
        return None not in (self.known_server, self.server) and self.known_server != self.server


class Healths:
    """Reads as `storage.console.deliveries` does; SessionOver where the session does not hold any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, session: bytes) -> Health:
        """Look at everything."""
        [facts] = await self._ask("show_health", session, MAX_COUNTED + 1)
        missing = await self._ask("show_missing_partitions", session, DAYS_AHEAD)
        return Health(
            **facts,
            needed_version=SCHEMA_VERSION,
            missing=[(row["log"], row["day"]) for row in missing],
            dispatchers=await Overviews(self._database).dispatchers(session),
        )

    async def _ask(self, name: str, session: bytes, *arguments: object) -> Sequence[dict[str, Any]]:
        return await ask_as(self._database, _STATEMENTS[name], session, *arguments)
