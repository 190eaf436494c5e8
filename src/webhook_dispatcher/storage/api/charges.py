"""What a merchant reads of its charges: api_charges.sql, bound. The token's hash says whose they are."""

from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.storage.api.database import Database, ask, ask_own
from webhook_dispatcher.storage.statements import load

MAX_CHARGE_ID = 255
"""Characters; a longer id is no charge key."""
_STATEMENTS = load("api_charges")


class ChargesNotIndexed(DispatcherError):
    """Charges cannot be looked up here. Reaction: say so; nothing else is wrong."""

    def __init__(self) -> None:
        super().__init__(
            "deliveries are not indexed by their charge: run `webhook-dispatcher migrate --charge-index`"
        )


class Charges:
    """Reads on a pool, as `storage.api.deliveries` does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_object(self, token_hash: bytes, charge_id: str) -> bytes | None:
        """Return the object of a charge's latest event, byte for byte.

        Errors: ChargesNotIndexed where nothing was found for want of the index.
        """
        if not is_possible(charge_id):
            return None
        rows = await ask_own(self._database, _STATEMENTS["read_own_charge"], token_hash, charge_id)
        if not rows:
            await self.refuse_unindexed()
            return None
        found: str = rows[0]["object"]
        return found.encode()

    async def refuse_unindexed(self) -> None:
        """Raise ChargesNotIndexed unless charges can be asked for."""
        [row] = await ask(self._database, _STATEMENTS["are_charges_indexed"])
        if not row["has_charge_index"]:
            raise ChargesNotIndexed


def is_possible(charge_id: str) -> bool:
    """Tell whether a text can be the key of a charge: no other is sent to the database."""
    return len(charge_id) <= MAX_CHARGE_ID and "\0" not in charge_id
