"""Finds merchants, an event, a charge, an API key or a command by one text, with what is read beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console.commands import CommandRow, Commands
from webhook_dispatcher.storage.console.deliveries import Deliveries, DeliveryFilter, DeliveryPage
from webhook_dispatcher.storage.console.filters import check_text
from webhook_dispatcher.storage.console.merchants import MerchantOrder, MerchantRow, Merchants

MAX_FOUND = 10


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a text may mean. merchants: whose ids begin with it. event: deliveries of the event of that id.

    charge: those of the charge, the newest first, MAX_FOUND at most; command: of that number.
    key_of: the merchant whose API key has that client id.
    """

    merchants: Sequence[MerchantRow]
    event: DeliveryPage
    charge: DeliveryPage
    command: CommandRow | None
    key_of: str | None = None

    @property
    def count(self) -> int:
        """Count what was found."""
        deliveries = len(self.event.deliveries) + len(self.charge.deliveries)
        return len(self.merchants) + deliveries + (self.command is not None) + (self.key_of is not None)


class Search:
    """Reads as `storage.console.deliveries` does; SessionOver where the session does not hold any more."""

    def __init__(self, database: Database) -> None:
        self._merchants = Merchants(database)
        self._deliveries = Deliveries(database)
        self._commands = Commands(database)

    async def find(self, session: bytes, text: str) -> SearchResult:
        """Look for what a text may be, without the spaces around it. Errors: FilterRefused."""
        wanted = text.strip()
        check_text("text", wanted)
        if not wanted:
            return SearchResult([], DeliveryPage([]), DeliveryPage([]), None)
        merchants = await self._merchants.list(session, MerchantOrder.ID, prefix=wanted, limit=MAX_FOUND)
        event_id = _event_id(wanted)
        of_event = DeliveryFilter(event_id=event_id)
        return SearchResult(
            merchants.merchants,
            await self._deliveries.list(session, of_event) if event_id else DeliveryPage([]),
            await self._deliveries.list(session, DeliveryFilter(charge_id=wanted), limit=MAX_FOUND),
            await self._command(session, wanted),
            await self._merchants.of_key(session, wanted),
        )

    async def _command(self, session: bytes, wanted: str) -> CommandRow | None:
        number = wanted.removeprefix("#")
        if not (number.isascii() and number.isdecimal() and len(number) < 20):
            return None
        return await self._commands.get(session, int(number))


def _event_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
