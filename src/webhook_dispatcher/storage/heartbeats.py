"""What daemons note of themselves, and what is forgotten of it: heartbeat.sql, bound."""

import json
from collections.abc import Mapping
from datetime import timedelta

import asyncpg

from webhook_dispatcher.domain.ports import Heartbeat
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

_STATEMENTS = load("heartbeat")


class PostgresHeartbeats:
    """Implements domain.ports.Heartbeats on a pool, for one daemon.

    owner: as its lanes name it. schema_version: it is written for. settings: that others may read, by name.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        owner: str,
        host: str,
        version: str,
        schema_version: int,
        settings: Mapping[str, str],
    ) -> None:
        self._schema_version = schema_version
        self._pool = pool
        self._owner = owner
        self._host = host
        self._version = version
        # Paths may be no text at all, or none of this database's encoding: jsonb would refuse the whole beat.
        self._settings = json.dumps(
            {name: text.encode("ascii", "backslashreplace").decode() for name, text in settings.items()}
        )

    async def note(self, beat: Heartbeat) -> None:
        with translated():
            await self._pool.execute(
                _STATEMENTS["note_dispatcher"].text,
                self._owner,
                self._host,
                self._version,
                beat.lanes,
                beat.attempts_in_flight,
                list(beat.reasons),
                list(beat.faults),
                list(beat.attempts),
                list(beat.attempts.values()),
                self._settings,
                self._schema_version,
            )

    async def remove(self, attempts: Mapping[str, int]) -> None:
        with translated():
            await self._pool.execute(
                _STATEMENTS["remove_dispatcher"].text, self._owner, list(attempts), list(attempts.values())
            )


async def forget_noted(pool: asyncpg.Pool, keep: timedelta) -> None:
    """Forget daemons that are gone, and what is older than the log; source: heartbeat.sql `forget_noted`."""
    with translated():
        await pool.execute(_STATEMENTS["forget_noted"].text, keep)
