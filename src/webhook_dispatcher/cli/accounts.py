"""`account`: who may use the console.

A password is typed in, or read from standard input; no argument, setting or output ever holds one.
"""

import secrets
import sys
from typing import Annotated

import typer

from webhook_dispatcher.cli.options import AsJson, RequestedBy, ShardName
from webhook_dispatcher.cli.output import print_json, print_table
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain import account, password
from webhook_dispatcher.domain.account import Role, SignInCode
from webhook_dispatcher.domain.errors import ConfigurationError, UserError
from webhook_dispatcher.domain.password import Verifier
from webhook_dispatcher.storage.console import accounts
from webhook_dispatcher.storage.console.accounts import CodeState, PasswordSet

COLUMNS = (
    *("name", "role", "has_password", "is_by_proxy", "is_disabled"),
    *("created_at", "created_by", "last_sign_in_at", "sessions"),
)


def _parse_name(text: str) -> str:
    if (name := account.parse_name(text)) is None:
        raise typer.BadParameter(f"an account's name has {account.NAME_RULE}")
    return name


Name = Annotated[str, typer.Argument(metavar="NAME", parser=_parse_name, help="The account's name.")]


def add(
    context: typer.Context,
    name: Name,
    role: Annotated[
        Role, typer.Option("--role", help="Operators change things; viewers look, and see no payload.")
    ],
    is_by_proxy: Annotated[
        bool,
        typer.Option("--by-proxy", help="A proxy signs this person in (WEBHOOK_CONSOLE_AUTH=proxy)."),
    ] = False,
    has_no_password: Annotated[
        bool, typer.Option("--no-password", help="Signs in by `account code` alone, for now.")
    ] = False,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
) -> None:
    """Make an account of the console. Asks for its password, or reads a line of standard input."""
    session = session_of(context, shard)
    verifier = None if is_by_proxy or has_no_password else _read_verifier()
    is_added = session.change(
        lambda database: accounts.add(
            database.connection, name, role, verifier, database.person or "", is_by_proxy=is_by_proxy
        ),
        requested_by,
    )
    if not is_added:
        raise UserError(
            f"there is an account {name!r} already: see `account list`, `account role`, `account password`"
        )
    typer.echo(f"{name}: {role} added{_way_in(name, is_by_proxy, has_no_password)}")


def _way_in(name: str, is_by_proxy: bool, has_no_password: bool) -> str:
    if is_by_proxy:
        return "; the proxy signs this person in"
    return f"; `account code {name}` signs this person in" if has_no_password else ""


def list_(context: typer.Context, shard: ShardName = None, as_json: AsJson = False) -> None:
    """Show the console's accounts, disabled ones too; sessions: how many go on."""
    found = session_of(context, shard).work(lambda database: accounts.list_(database.connection))
    if as_json:
        print_json(found)
    else:
        print_table(COLUMNS, ([getattr(one, column) for column in COLUMNS] for one in found))


def set_password(
    context: typer.Context, name: Name, requested_by: RequestedBy = None, shard: ShardName = None
) -> None:
    """Replace an account's password, which ends its sessions, and let it sign in if it was locked.

    Asks for the password, or reads a line of standard input.
    """
    session = session_of(context, shard)
    verifier = _read_verifier()
    result = session.change(
        lambda database: accounts.set_password(database.connection, name, verifier, database.person or ""),
        requested_by,
    )
    if result is PasswordSet.UNKNOWN:
        raise _unknown(name)
    if result is PasswordSet.BY_PROXY:
        raise UserError(f"a proxy signs {name!r} in: the account may have no password")
    typer.echo(f"{name}: password set; the sessions from before have ended")


def set_role(
    context: typer.Context,
    name: Name,
    role: Annotated[Role, typer.Argument(metavar="operator|viewer", help="What the account may do.")],
    requested_by: RequestedBy = None,
    shard: ShardName = None,
) -> None:
    """Change what an account may do, for sessions that go on too, at once."""
    is_changed = session_of(context, shard).change(
        lambda database: accounts.set_role(database.connection, name, role, database.person or ""),
        requested_by,
    )
    if is_changed is None:
        raise _unknown(name)
    typer.echo(f"{name}: {role}{'' if is_changed else ', as before'}")


def disable(
    context: typer.Context, name: Name, requested_by: RequestedBy = None, shard: ShardName = None
) -> None:
    """End an account's sessions at once, and let it sign in no more."""
    _set_disabled(context, name, True, requested_by, shard)
    typer.echo(f"{name}: disabled; its sessions have ended")


def enable(
    context: typer.Context, name: Name, requested_by: RequestedBy = None, shard: ShardName = None
) -> None:
    """Let a disabled account sign in again."""
    _set_disabled(context, name, False, requested_by, shard)
    typer.echo(f"{name}: may sign in")


def _set_disabled(
    context: typer.Context, name: str, is_disabled: bool, requested_by: str | None, shard: str | None
) -> None:
    is_changed = session_of(context, shard).change(
        lambda database: accounts.set_disabled(database.connection, name, is_disabled, database.person or ""),
        requested_by,
    )
    if is_changed is None:
        raise _unknown(name)


def code(
    context: typer.Context,
    name: Name,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Print a code that signs an account in at the console: once, within sixty seconds."""
    made = SignInCode.from_random(secrets.token_bytes(account.CODE_CHARACTERS))
    result = session_of(context, shard).change(
        lambda database: accounts.create_code(database.connection, name, made.hash, database.person or ""),
        requested_by,
    )
    if result.state is CodeState.UNKNOWN:
        raise _unknown(name)
    if result.state is CodeState.DISABLED:
        raise UserError(f"account {name!r} is disabled; `account enable {name}` lets it sign in again")
    if as_json:
        print_json({"name": name, "code": made.shown, "expires_at": result.expires_at})
    else:
        typer.echo(made.shown)
        typer.echo(f"signs {name} in at the console, once, within sixty seconds", err=True)


def _unknown(name: str) -> UserError:
    return UserError(f"there is no account {name!r}; `account list` shows them all")


def _read_verifier() -> Verifier:
    given = _read_password()
    if (fault := password.find_fault(given)) is not None:
        raise ConfigurationError(fault)
    return password.make_verifier(given, secrets.token_bytes(password.SALT_BYTES))


def _read_password() -> str:
    if sys.stdin.isatty():
        typed: str = typer.prompt("Password", hide_input=True, confirmation_prompt="The same again")
        return typed
    try:
        return sys.stdin.buffer.readline().decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigurationError(
            "the password on standard input is no UTF-8: give one line of text"
        ) from None
