"""The console's database side, seen as webhook_console: accounts, their sessions, and time that has passed.

A proof is any 32 bytes here: that argon2id makes them is domain/password.py's matter, and its tests'.
"""

import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

import asyncpg

from tests.integration.storage_harness import StorageHarness, open_storage
from tests.servers.database import Database
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.password import PasswordParameters, Verifier
from webhook_dispatcher.storage.connection import connect, create_pool
from webhook_dispatcher.storage.console import accounts
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.sessions import Browser, Sessions, SignIn, SignInOutcome

PATIENCE = timedelta(seconds=20)
HERE = Browser(ip_address("192.0.2.1"), "Firefox")
PASS_TIME = """
UPDATE webhook.console_session
SET began_at = began_at - $2::interval, acted_at = acted_at - $2::interval,
    expires_at = expires_at - $2::interval
WHERE hash = $1
"""


def proof_of(word: str) -> bytes:
    return hashlib.sha256(f"argon2id of {word}".encode()).digest()


def verifier_of(word: str, memory_kib: int = 65536) -> Verifier:
    parameters = PasswordParameters(hashlib.md5(word.encode()).digest(), memory_kib)
    return Verifier(parameters, hashlib.sha256(proof_of(word)).digest())


def browser(address: str) -> Browser:
    return Browser(ip_address(address), "Firefox")


@dataclass
class Console:
    """Operators oleg and olga and a viewer vera, whose words are their names. db: the superuser's."""

    storage: StorageHarness
    db: asyncpg.Connection
    admin: asyncpg.Connection
    pool: asyncpg.Pool
    sessions: Sessions
    actions: Actions

    async def sign_in(self, name: str = "oleg", at: Browser = HERE) -> bytes:
        """Sign in by the right password, and return the session's hash."""
        token = secrets.token_bytes(32)
        assert (
            await self.sessions.sign_in(name, proof_of(name), token, at)
        ).outcome is SignInOutcome.SIGNED_IN
        return token

    async def fail(self, name: str = "oleg", at: Browser = HERE) -> SignIn:
        return await self.sessions.sign_in(name, proof_of("wrong"), secrets.token_bytes(32), at)

    async def try_(self, name: str = "oleg", at: Browser = HERE) -> SignIn:
        return await self.sessions.sign_in(name, proof_of(name), secrets.token_bytes(32), at)

    async def pass_time(self, token: bytes, span: timedelta) -> None:
        """Let a session be as if it had begun, and been used last, so much earlier."""
        await self.db.execute(PASS_TIME, token, span)

    async def set_role(self, name: str, role: Role) -> None:
        assert await accounts.set_role(self.admin, name, role, "cli:ana")

    async def disable(self, name: str) -> None:
        assert await accounts.set_disabled(self.admin, name, True, "cli:ana")

    async def audit(self) -> list[tuple[str, str | None, str, Any, Any]]:
        """Return role, person, action, before and after of each row, in order."""
        rows = await self.db.fetch("SELECT * FROM webhook.audit ORDER BY id")
        return [
            (
                row["role"],
                row["person"],
                row["action"],
                *(json.loads(row[name]) if row[name] else None for name in ("before", "after")),
            )
            for row in rows
        ]


@asynccontextmanager
async def open_console(database: Database) -> AsyncIterator[Console]:
    async with (
        open_storage(database) as storage,
        create_pool(
            database.dsn("webhook_console"), application_name="console", command_timeout=PATIENCE, size=2
        ) as pool,
    ):
        admin = await connect(
            database.dsn("webhook_admin"), application_name="admin", command_timeout=PATIENCE
        )
        for name, role in (("oleg", Role.OPERATOR), ("olga", Role.OPERATOR), ("vera", Role.VIEWER)):
            assert await accounts.add(admin, name, role, verifier_of(name), "cli:ana")
        await storage.db.execute("ALTER TABLE webhook.audit DISABLE TRIGGER audit_is_only_added_to")
        await storage.db.execute("DELETE FROM webhook.audit")
        await storage.db.execute("ALTER TABLE webhook.audit ENABLE TRIGGER audit_is_only_added_to")
        yield Console(storage, storage.db, admin, pool, Sessions(pool), Actions(pool))
        await admin.close()
