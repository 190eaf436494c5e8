"""What keeps dispatchers from delivering, as the database knows: console_health.sql and fares.sql, bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from webhook_dispatcher.domain.delivery import Pause
from webhook_dispatcher.domain.status import Stranded, SuspendedMerchant
from webhook_dispatcher.domain.thresholds import DAYS_AHEAD
from webhook_dispatcher.storage.administration import STRANDED_AFTER
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console.overview import DispatcherRow, Overviews
from webhook_dispatcher.storage.console.reading import MAX_COUNTED, ask_all_as
from webhook_dispatcher.storage.schema import SCHEMA_VERSION
from webhook_dispatcher.storage.statements import CONSOLE, load

MAX_NAMED = 10
MAX_MERCHANTS_LOOKED_AT = 1_000
"""Of those that are owed something, where no dispatcher holds a lane; `check` looks at ten times as many."""
MAX_URLS = 1_000
"""Endpoints that one page judges; `check` judges all."""
_STATEMENTS = {**load("console_health"), **load("fares", CONSOLE)}


@dataclass(frozen=True, slots=True)
class Health:
    """What `check` asks the database, without what only a dispatcher's environment can tell.

    schema_version: of the database; needed_version: of this program. known_server, server: where they differ,
        the database was moved or copied (docs/operate/backups.md).
    kept_since: the first day of the log; made_until: the last for which it has partitions.
    missing: (log, day) of the next DAYS_AHEAD days without a partition.
    sealing_key_confirmed_at: None where no dispatcher has published what the console seals secrets with.
    suspended: merchants, up to MAX_COUNTED + 1; suspended_next: those that are tried next, MAX_NAMED at most.
    pause: the command that paused everything, where it is and one did.
    stranded: what would be delivered if a dispatcher worked, if there is such.
    urls: (merchant, URL), up to MAX_URLS + 1.
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
    pause: Pause | None
    suspended_next: Sequence[SuspendedMerchant]
    stranded: Stranded | None
    urls: Sequence[tuple[str, str]]

    @property
    def kept(self) -> tuple[date, date] | None:
        """Return the first and the last day of the log."""
        if self.kept_since is None or self.made_until is None:
            return None
        return self.kept_since, self.made_until


class Healths:
    """Reads as `storage.console.deliveries` does; SessionOver where the session does not hold any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, session: bytes) -> Health:
        """Look at everything."""
        [facts], missing, suspended, stranded, [endpoints] = await ask_all_as(
            self._database,
            session,
            (_STATEMENTS["show_health"], MAX_COUNTED + 1),
            (_STATEMENTS["show_missing_partitions"], DAYS_AHEAD),
            (_STATEMENTS["show_suspended"], MAX_NAMED),
            (_STATEMENTS["find_stranded"], STRANDED_AFTER, MAX_MERCHANTS_LOOKED_AT),
            (_STATEMENTS["show_urls"], MAX_URLS + 1),
        )
        overviews = Overviews(self._database)
        return Health(
            **facts,
            needed_version=SCHEMA_VERSION,
            missing=[(row["log"], row["day"]) for row in missing],
            dispatchers=await overviews.dispatchers(session),
            pause=await overviews.pause(session) if facts["everything_is_paused"] else None,
            suspended_next=[SuspendedMerchant(**row) for row in suspended],
            stranded=Stranded(**stranded[0]) if stranded else None,
            urls=list(zip(endpoints["merchants"], endpoints["urls"], strict=True)),
        )
