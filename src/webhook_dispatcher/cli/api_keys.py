"""`api-key`: who may use the Partner API.

A secret is printed once, when its key is made. It is kept as a hash.
"""

import secrets
from typing import Annotated

import typer

from webhook_dispatcher.cli.options import AsJson, Merchant, RequestedBy, ShardName, parse_merchant
from webhook_dispatcher.cli.output import print_json, print_table, shown
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.credentials import CLIENT_ID_BYTES, SECRET_BYTES, ClientId, ClientSecret
from webhook_dispatcher.domain.errors import UserError

MAX_NAME_CHARACTERS = 100
COLUMNS = ("client_id", "merchant_id", "name", "created_at", "created_by", "last_used_at", "revoked_at")


def _parse_name(text: str) -> str:
    if not 1 <= len(text.strip()) <= MAX_NAME_CHARACTERS or not text.isprintable():
        raise typer.BadParameter(f"a name has 1 to {MAX_NAME_CHARACTERS} printable characters")
    return text.strip()


def _parse_client_id(text: str) -> ClientId:
    if (client_id := ClientId.parse(text)) is None:
        raise typer.BadParameter("a client id has 22 characters, behind the database's name where it has one")
    return client_id


def create(
    context: typer.Context,
    merchant: Merchant,
    name: Annotated[
        str,
        typer.Option(
            "--name", parser=_parse_name, metavar="NAME", help="What the key is for, to be told apart."
        ),
    ],
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key for a merchant and print its secret, once. A merchant may have several."""
    session = session_of(context, shard)
    client_id = ClientId.from_random(secrets.token_bytes(CLIENT_ID_BYTES), session.settings().shard_name)
    secret = ClientSecret.from_random(secrets.token_bytes(SECRET_BYTES))
    session.change(
        lambda database: database.create_api_key(merchant, str(client_id), secret.hash, name), requested_by
    )
    if as_json:
        made = {"merchant_id": merchant, "name": name}
        print_json({**made, "client_id": str(client_id), "client_secret": secret.revealed})
        return
    typer.echo(f"{shown(merchant)}: API key {shown(name)!r} made; the secret is shown this once:")
    typer.echo(f"clientId      {client_id}")
    typer.echo(f"clientSecret  {secret.revealed}")


def list_(
    context: typer.Context,
    merchant: Annotated[
        str | None, typer.Argument(metavar="[MERCHANT]", parser=parse_merchant, help="Of this merchant only.")
    ] = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show API keys, revoked ones too, without their secrets."""
    keys = session_of(context, shard).work(lambda database: database.list_api_keys(merchant))
    if as_json:
        print_json(keys)
    else:
        print_table(COLUMNS, ([getattr(key, column) for column in COLUMNS] for key in keys))


def revoke(
    context: typer.Context,
    client_id: Annotated[
        ClientId, typer.Argument(metavar="CLIENT_ID", parser=_parse_client_id, help="The key's client id.")
    ],
    requested_by: RequestedBy = None,
    shard: ShardName = None,
) -> None:
    """Revoke an API key for good, with all its access tokens, within a second."""
    # A client id names its database, where databases have names.
    session = session_of(context, shard or client_id.shard)
    is_revoked = session.change(lambda database: database.revoke_api_key(str(client_id)), requested_by)
    if is_revoked is None:
        raise UserError(f"there is no API key {str(client_id)!r}")
    typer.echo(f"{client_id}: {'revoked' if is_revoked else 'was revoked before'}")
