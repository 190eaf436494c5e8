"""What a command works with: the environment's settings and the database, replaceable in tests."""

import asyncio
import getpass
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TypeVar

import typer

from webhook_dispatcher.settings import Settings, load_settings
from webhook_dispatcher.storage.administration import Administration, administration

T = TypeVar("T")
MOST_REQUESTED_BY = 128


@dataclass(frozen=True)
class Session:
    """Where settings, connections and time come from."""

    environ: Mapping[str, str] = field(repr=False)
    open_administration: Callable[[str, bool], AbstractAsyncContextManager[Administration]] = administration
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic: Callable[[], float] = time.monotonic
    unix_time: Callable[[], float] = time.time

    def settings(self) -> Settings:
        """Read the settings; ConfigurationError says what is wrong."""
        return load_settings(self.environ)

    def work(self, do: Callable[[Administration], Awaitable[T]]) -> T:
        """Run one piece of work over one connection."""
        settings = self.settings()
        dsn = settings.database_dsn()

        async def connected() -> T:
            async with self.open_administration(dsn, settings.is_pooled) as opened:
                return await do(opened)

        return asyncio.run(connected())


def session_of(context: typer.Context) -> Session:
    """Return the session that the program was started with."""
    return context.find_object(Session) or Session(os.environ)


def operator() -> str:
    """Name who is asking, for the audit trail."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # Containers run as numbers without a name.
        user = str(os.getuid())
    return f"cli:{user}"[:MOST_REQUESTED_BY]
