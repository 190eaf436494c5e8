"""The code by which whoever watches the demo signs in at its console."""

import time

import asyncpg

from webhook_dispatcher.app.sign_in import make_code
from webhook_dispatcher.storage.console import accounts

CODE_LIFE_SECONDS = 60.0
"""Seconds for which a code is good."""


class SignIn:
    """A code while nobody is signed in, and the next one when that has expired."""

    def __init__(self, admin: asyncpg.Connection) -> None:
        self._admin = admin
        self._code: str | None = None
        self._made_at = 0.0

    async def instruction(self) -> str | None:
        """Say how to sign in now; None while somebody is."""
        if any(account.sessions for account in await accounts.list_(self._admin)):
            self._code = None
            return None
        if self._code is None or time.monotonic() - self._made_at > CODE_LIFE_SECONDS:
            self._made_at = time.monotonic()
            self._code = await make_code(self._admin, "demo")
        return self._code and f"sign in at the console with the code {self._code} (once, within 60 s)"
