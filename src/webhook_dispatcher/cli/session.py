"""What a command works with: the environment's settings and the database, replaceable in tests."""

import asyncio
import getpass
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import typer

from webhook_dispatcher.storage.administration import Administration, administration

if TYPE_CHECKING:
    from webhook_dispatcher.domain.ports import Sender
    from webhook_dispatcher.settings import Settings
    from webhook_dispatcher.transport.guard import Guard

T = TypeVar("T")
MAX_REQUESTED_BY = 128


@dataclass(frozen=True)
class CliContext:
    """Where settings, connections and time come from.

    shard: the database that was chosen by its name. make_sender: None: as the daemon does.
    """

    environ: Mapping[str, str] = field(repr=False)
    open_administration: Callable[[str, bool], AbstractAsyncContextManager[Administration]] = administration
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic: Callable[[], float] = time.monotonic
    unix_time: Callable[[], float] = time.time
    shard: str | None = None
    make_sender: "Callable[[Settings, Guard], AbstractAsyncContextManager[Sender]] | None" = None

    def settings(self) -> "Settings":
        """Read the settings, of the chosen database if one is; ConfigurationError says what is wrong."""
        # Late: help, and what works without settings, does not wait for them.
        from webhook_dispatcher.settings import load_settings

        settings = load_settings(self.environ)
        return settings if self.shard is None else settings.of_shard(self.shard)

    def work(self, do: Callable[[Administration], Awaitable[T]]) -> T:
        """Run one piece of work over one connection."""
        settings = self.settings()
        dsn = settings.database_dsn()

        async def connected() -> T:
            async with self.open_administration(dsn, settings.is_pooled) as opened:
                return await do(opened)

        return asyncio.run(connected())

    def change(self, do: Callable[[Administration], Awaitable[T]], requested_by: str | None = None) -> T:
        """Run what changes something, unless the database belongs to another installation.

        requested_by: whom the audit names; by default who is asking.
        """
        name = self.settings().installation

        async def verified(database: Administration) -> T:
            await database.verify_installation(name)
            database.person = requested_by or operator()
            return await do(database)

        return self.work(verified)


def session_of(context: typer.Context, shard: str | None = None) -> CliContext:
    """Return the session that the program was started with, for one database if it is named."""
    session = context.find_object(CliContext) or CliContext(os.environ)
    return session if shard is None else replace(session, shard=shard)


def operator() -> str:
    """Name who is asking, for the audit trail."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # Containers run as numbers without a name.
        user = str(os.getuid())
    return f"cli:{user}"[:MAX_REQUESTED_BY]
