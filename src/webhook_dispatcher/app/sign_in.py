"""Who may sign in at the console of a laptop or the demo: one account without a password, by codes."""

import secrets

import asyncpg

from webhook_dispatcher.domain.account import CODE_CHARACTERS, Role, SignInCode
from webhook_dispatcher.storage.console import accounts
from webhook_dispatcher.storage.console.accounts import CodeState

ACCOUNT = "operator"


async def make_code(connection: asyncpg.Connection, person: str) -> str | None:
    """Make a code for that account, and the account where there is none; None while it is disabled.

    connection: as webhook_admin. person: whom the audit names.
    """
    await accounts.add(connection, ACCOUNT, Role.OPERATOR, None, person)
    code = SignInCode.from_random(secrets.token_bytes(CODE_CHARACTERS))
    made = await accounts.create_code(connection, ACCOUNT, code.hash, person)
    return code.shown if made.state is CodeState.MADE else None
