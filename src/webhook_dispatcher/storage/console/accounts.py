"""Accounts of the console as administrators make and change them: console_accounts.sql, bound.

Passwords get here as verifiers, codes as hashes. person: whom the audit names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import asyncpg

from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.password import Verifier
from webhook_dispatcher.storage.console.database import ask
from webhook_dispatcher.storage.statements import load

_ACCOUNTS = load("console_accounts")


class PasswordSet(StrEnum):
    """What became of a new password. BY_PROXY: the account may have none."""

    CHANGED = "changed"
    BY_PROXY = "by_proxy"
    UNKNOWN = "unknown"


class CodeState(StrEnum):
    """Whether a code was made."""

    MADE = "made"
    DISABLED = "disabled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AccountView:
    """An account as shown to people: a row of webhook.accounts. sessions: how many go on."""

    name: str
    role: str
    has_password: bool
    is_by_proxy: bool
    is_disabled: bool
    created_at: datetime
    created_by: str
    last_sign_in_at: datetime | None
    sessions: int


@dataclass(frozen=True, slots=True)
class MadeCode:
    """Whether a code was made, and until when it is good."""

    state: CodeState
    expires_at: datetime | None


async def add(
    connection: asyncpg.Connection,
    name: str,
    role: Role,
    verifier: Verifier | None,
    person: str,
    *,
    is_by_proxy: bool = False,
) -> bool:
    """Make an account; False where there is one of that name. verifier: None for one without a password."""
    row = await _row(connection, "add_account", name, role, is_by_proxy, *_columns(verifier), person)
    return bool(row["is_added"])


async def list_(connection: asyncpg.Connection) -> list[AccountView]:
    """Return all accounts by name, disabled ones too."""
    return [AccountView(**row) for row in await ask(connection, _ACCOUNTS["list_accounts"])]


async def set_password(
    connection: asyncpg.Connection, name: str, verifier: Verifier, person: str
) -> PasswordSet:
    """Replace a password, end the account's sessions, and lift what wrong passwords have locked."""
    row = await _row(connection, "set_account_password", name, *_columns(verifier), person)
    return PasswordSet(row["result"] or PasswordSet.UNKNOWN)


async def set_role(connection: asyncpg.Connection, name: str, role: Role, person: str) -> bool | None:
    """Change what an account may do, at once; False when that was so, None when there is none."""
    is_changed: bool | None = (await _row(connection, "set_account_role", name, role, person))["is_changed"]
    return is_changed


async def set_disabled(
    connection: asyncpg.Connection, name: str, is_disabled: bool, person: str
) -> bool | None:
    """Disable an account, whose sessions end, or enable it; False, None as for set_role."""
    row = await _row(connection, "set_account_disabled", name, is_disabled, person)
    is_changed: bool | None = row["is_changed"]
    return is_changed


async def create_code(connection: asyncpg.Connection, name: str, code_hash: bytes, person: str) -> MadeCode:
    """Keep a code that signs an account in once, within sixty seconds."""
    row = await _row(connection, "create_sign_in_code", name, code_hash, person)
    return MadeCode(CodeState(row["state"]), row["expires_at"])


async def _row(connection: asyncpg.Connection, name: str, *arguments: object) -> Any:
    rows: Sequence[Any] = await ask(connection, _ACCOUNTS[name], *arguments)
    return rows[0]


def _columns(verifier: Verifier | None) -> tuple[object, ...]:
    if verifier is None:
        return (None,) * 5
    parameters = verifier.parameters
    return (
        parameters.salt,
        parameters.memory_kib,
        parameters.passes,
        parameters.parallelism,
        verifier.hash,
    )
