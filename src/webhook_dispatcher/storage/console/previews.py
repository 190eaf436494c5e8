"""What a mass command would be about, counted for a page before it is given: console_previews.sql, bound."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from webhook_dispatcher.domain.command import Recover, Skip
from webhook_dispatcher.domain.event import TEST_EVENT_TYPE
from webhook_dispatcher.domain.mass_command import Preview
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console.deliveries import NEWEST
from webhook_dispatcher.storage.console.reading import MAX_COUNTED, ask_as
from webhook_dispatcher.storage.mass_commands import days
from webhook_dispatcher.storage.previews import read_preview
from webhook_dispatcher.storage.statements import load

LOOK = MAX_COUNTED + 1
"""Deliveries that a preview looks at, at most, in each place where they are."""
MERCHANTS_SHOWN = 10
_STATEMENTS = {**load("console_previews"), "show_numbers": load("console_deliveries")["show_numbers"]}


class Previews:
    """Reads as `storage.console.deliveries` does; SessionOver where the session does not hold any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def recovery(self, session: bytes, wanted: Recover, with_platform: bool = False) -> Preview:
        """Count what a recovery would send. with_platform: also the platform's, where nobody is named."""
        [numbers] = await self._ask("show_numbers", session, None, wanted.until, wanted.merchant_id)
        place = numbers["end_seq"], *days(wanted.since, wanted.until), wanted.since, wanted.until
        kinds = list(wanted.states), wanted.types, wanted.charge, with_platform
        left_out = wanted.retries, list(wanted.leave_out)
        before = NEWEST if numbers["has_copies"] else numbers["end_seq"]
        asked = wanted.merchant_id, *place, *kinds, *left_out, wanted.endpoint, before
        return await self._count("show_recovery", session, *asked)

    async def skip(self, session: bytes, wanted: Skip) -> Preview:
        """Count what a skip would give up."""
        which = wanted.types, wanted.charge, wanted.endpoint
        asked = wanted.merchant_id, wanted.since, wanted.before, *which
        return await self._count("show_skip", session, *asked)

    async def _count(self, name: str, session: bytes, merchant_id: str | None, *asked: object) -> Preview:
        """Count; of one merchant's it is not said whose they are."""
        found = read_preview(await self._ask(name, session, merchant_id, *asked, LOOK, MERCHANTS_SHOWN))
        return found if merchant_id is None else replace(found, merchants={})

    async def states(self, session: bytes, ids: Sequence[UUID]) -> Mapping[UUID, tuple[str, int | None]]:
        """Return how deliveries stand, by id, and which of several endpoints they are for.

        One that is gone, or a test that ended, is left out.
        """
        rows = await self._ask("show_states", session, list(ids), TEST_EVENT_TYPE)
        return {row["event_id"]: (row["state"], row["endpoint"]) for row in rows}

    async def _ask(self, name: str, session: bytes, *arguments: object) -> Sequence[dict[str, Any]]:
        return await ask_as(self._database, _STATEMENTS[name], session, *arguments)
