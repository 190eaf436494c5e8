"""`endpoint`: where merchants are reached, and their secrets.

A secret is printed once, when it is made. It is never shown again: only rotated.
"""

import dataclasses
import secrets
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from webhook_dispatcher.cli.options import (
    AsJson,
    FirstEndpoint,
    Merchant,
    RequestedBy,
    ShardName,
    parse_merchant,
)
from webhook_dispatcher.cli.output import (
    WIDTH,
    as_arguments,
    endpoint_named,
    print_facts,
    print_json,
    print_table,
    said_of_pause,
    shown,
)
from webhook_dispatcher.cli.session import CliContext, session_of
from webhook_dispatcher.cli.words import at, many
from webhook_dispatcher.domain.endpoint import (
    DEFAULT_AT_ONCE,
    MAX_AT_ONCE,
    MAX_TYPES,
    EndpointChange,
    EndpointView,
    Order,
    choices,
)
from webhook_dispatcher.domain.errors import ConfigurationError, UnopenedSecret, UserError
from webhook_dispatcher.domain.names import SERVICE, STANDARD, Names
from webhook_dispatcher.domain.signing import (
    NO_STANDARD_KEY,
    SECRET_RANDOM_BYTES,
    Keyring,
    SealedSecret,
    Secret,
)
from webhook_dispatcher.storage.administration import Administration, PauseOfEverything
from webhook_dispatcher.storage.api.event_types import OwnType
from webhook_dispatcher.storage.previews import COUNT_LIMIT

COLUMNS = ("merchant_id", "url", "paused", "created_at", "updated_at", "secret_created_at")
WHILE_SUSPENDED = ("suspended_at", "next_try_at")
OF_SEVERAL = ("number", "name", "id")
ALL_TYPES = ["all"]
Types = Annotated[
    str | None,
    typer.Option("--types", metavar="TYPE,…", help="Send these types alone, besides tests; all: every type."),
]
ChosenOrder = Annotated[
    Order | None, typer.Option("--order", help="Whose events are sent one after the other.")
]


def at_once_option(default: str) -> Any:
    """Make the option of how many charges, with what it is unless given."""
    return typer.Option(
        "--at-once",
        min=2,
        max=MAX_AT_ONCE,
        help="With --order charge, of how many charges one may be under way.",
        show_default=default,
    )


AtOnce = Annotated[int | None, at_once_option(f"as before, at first {DEFAULT_AT_ONCE}")]


def set_(
    context: typer.Context,
    merchant: Merchant,
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="URL", help="https and public, unless settings allow more; left out: as it is."
        ),
    ] = None,
    types: Types = None,
    order: ChosenOrder = None,
    at_once: AtOnce = None,
    endpoint: FirstEndpoint = None,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Configure a merchant and print its secret, once; of a configured merchant change what is given."""
    from webhook_dispatcher.transport.guard import Guard

    _check_given(url, types, order, at_once)
    session = session_of(context, shard)
    settings = session.settings()
    keyring = settings.keyring()
    if url is not None and (fault := Guard(settings.egress_policy()).find_fault(url)) is not None:
        raise ConfigurationError(f"URL: {fault}")
    named = split_types(types)
    secret = new_secret()
    number = endpoint or 1

    async def configure(database: Administration) -> tuple[bool, int | None, bool]:
        created = False
        await check_filter(merchant, named, database)
        endpoints = await database.list_endpoints(merchant)
        known = next((each for each in endpoints if each.number == number), None)
        if known is None and (url is None or number > 1):
            raise not_configured(merchant, number if endpoints else None)
        wanted = order.at_once(at_once, known.at_once if known else None) if order else None
        async with database.transaction():
            if url is not None:
                created = await _put(database, merchant, number, url, secret, keyring)
            if named:
                await database.set_types(merchant, filter_of(named), number)
            if order is not None:
                await database.set_order(merchant, wanted, number)
        return created, wanted, created and await is_paused(database, merchant, number)

    created, wanted, paused = session.change(configure, requested_by)
    revealed = secret.revealed.decode() if created else None
    filtered = {"types": filter_of(named)} if named else {}
    ordered = {} if order is None else {"order": order, "at_once": wanted}
    if as_json:
        given = {"merchant_id": merchant, "url": url, **filtered, **ordered}
        print_json(
            {**given, **({"number": endpoint} if endpoint else {}), "created": created, "secret": revealed}
        )
    elif revealed is not None:
        typer.echo(f"{endpoint_named(merchant, endpoint)}: configured; the secret is shown this once:")
        typer.echo(revealed)
        if paused:
            tell_pause(merchant, number)
    else:
        changes = (("URL", url), ("types", types), ("order", order))
        changed = " and ".join(name for name, given in changes if given is not None)
        told = endpoint_named(merchant, endpoint)
        typer.echo(f"{told}: {changed} changed; the secret stays (see `endpoint rotate-secret`)")


async def is_paused(database: Administration, merchant: str, number: int) -> bool:
    """Tell whether an endpoint is paused: one that is added where all others are is, too."""
    return any(each.paused for each in await database.list_endpoints(merchant) if each.number == number)


def tell_pause(merchant: str, number: int) -> None:
    """Say that an endpoint that was just made is paused, and what ends that."""
    typer.echo(f"it is paused: `resume {as_arguments(merchant, number)}` lets it be sent to", err=True)


async def _put(
    database: Administration, merchant: str, number: int, url: str, secret: Secret, keyring: Keyring
) -> bool:
    """Change an endpoint's URL, which uses no key, or configure number 1: true."""
    while not await database.update_endpoint_url(merchant, url, number):
        if number > 1:
            raise not_configured(merchant, number)
        # It was never there, or was removed in between.
        await database.verify_keys(keyring)
        if await database.insert_endpoint(merchant, url, keyring.seal(merchant, secret), keyring):
            return True
    return False


def _check_given(url: str | None, types: str | None, order: Order | None, at_once: int | None) -> None:
    if url is None and types is None and order is None:
        raise typer.BadParameter("give a URL, --types or --order")
    check_at_once(order, at_once)


def check_at_once(order: Order | None, at_once: int | None) -> None:
    """Refuse a number of charges where order is not theirs."""
    if at_once is not None and order is not Order.CHARGE:
        raise typer.BadParameter("--at-once goes with --order charge")


def split_types(text: str | None) -> list[str]:
    """Read the names between commas, each once; none where nothing is given."""
    return [] if text is None else list(dict.fromkeys(name.strip() for name in text.split(",")))


async def check_filter(merchant: str, named: list[str], database: Administration) -> None:
    """Refuse names that cannot be a merchant's filter."""
    if named and (fault := types_fault(merchant, named, await database.list_own_types())) is not None:
        raise ConfigurationError(fault)


def types_fault(merchant: str, named: Sequence[str], own: Sequence[OwnType]) -> str | None:
    """Say what keeps these names from being a merchant's filter; None: nothing."""
    known = choices(merchant, [each.name for each in own])
    if named == ALL_TYPES:
        return None
    if unknown := [name for name in named if name not in known]:
        return f"types: {shown(unknown[0])!r} is none of {', '.join(known)}; or all"
    return f"types: more than {MAX_TYPES}" if len(named) > MAX_TYPES else None


def filter_of(named: list[str]) -> list[str] | None:
    """Return the filter that names make; None: all types."""
    return None if named in ([], ALL_TYPES) else named


def show(
    context: typer.Context,
    merchant: Merchant,
    endpoint: FirstEndpoint = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show a merchant's endpoint, without its secret."""
    session = session_of(context, shard)
    number = endpoint or 1

    async def find(database: Administration) -> tuple[EndpointView, Names, SealedSecret | None]:
        names = await database.read_names()
        sealed = await database.read_secret(merchant, number) if names.has_standard else None
        return find_in(await database.list_endpoints(merchant), merchant, number), names, sealed

    found, names, sealed = session.work(find)
    signatures: Sequence[str] | None = names.signatures
    said = ", ".join(names.signatures)
    if sealed is not None:
        signatures, said = _signatures(session, merchant, sealed)
    if as_json:
        print_json({**_facts(found), "signatures": signatures})
    else:
        print_facts(
            [*((column, getattr(found, column)) for column in _columns([found])), ("signatures", said)]
        )


def _signatures(session: CliContext, merchant: str, sealed: SealedSecret) -> tuple[Sequence[str] | None, str]:
    """Return which of both signatures a merchant is sent, for programs (None: unknown) and for people."""
    try:
        secret = session.settings().keyring().open(merchant, sealed)
    except (ConfigurationError, UnopenedSecret) as error:
        return None, f"{SERVICE}; whether {STANDARD} too is not known: {error}"
    if secret.standard_key is not None:
        return (SERVICE, STANDARD), f"{SERVICE}, {STANDARD}"
    return (SERVICE,), f"{SERVICE}; not {STANDARD}: {NO_STANDARD_KEY}, which `endpoint rotate-secret` makes"


def list_(
    context: typer.Context,
    merchant: Annotated[
        str | None, typer.Argument(metavar="MERCHANT", parser=parse_merchant, help="Of this merchant only.")
    ] = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show all endpoints, or a merchant's, without their secrets."""

    async def find(database: Administration) -> tuple[list[EndpointView], PauseOfEverything | None]:
        return await database.list_endpoints(merchant), await database.read_pause_of_everything()

    endpoints, pause = session_of(context, shard).work(find)
    if merchant is not None and not endpoints:
        raise not_configured(merchant)
    if as_json:
        print_json([_facts(endpoint) for endpoint in endpoints])
    else:
        if pause is not None:
            typer.echo(f"{said_of_pause(pause)}: nobody is sent anything until `resume --all`")
        columns = _columns(endpoints)
        print_table(columns, ([getattr(endpoint, column) for column in columns] for endpoint in endpoints))


def history(
    context: typer.Context,
    merchant: Merchant,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100_000, help="At most so many, the latest.")
    ] = 50,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show who changed a merchant's endpoint, secret or pause, and how; the newest last.

    Of the audit: changes of the endpoint, and the commands set_url, pause and resume as they were given.
    """
    changes = session_of(context, shard).work(lambda database: database.endpoint_history(merchant, limit))
    if as_json:
        print_json(changes)
        return
    if not changes:
        raise UserError(f"nothing of {shown(merchant)!r} was changed since there is an audit")
    has_several = any(change.endpoint not in (None, "1") for change in changes)
    for change in changes:
        for line in history_lines(change, has_several):
            typer.echo(line)


def history_lines(change: EndpointChange, has_several: bool = False) -> list[str]:
    """Write when, what and who, and beneath it the URL before and after, in 80 columns if it fits."""
    number = f" {change.command_id}" if change.command_id is not None else ""
    which = f" of endpoint {shown(change.endpoint)}" if has_several and change.endpoint else ""
    who = f"{shown(change.person)} ({shown(change.role)})" if change.person else shown(change.role)
    lines = [f"{at(change.at)} {shown(change.action)}{number}{which} by {who}"]
    if change.url_before == change.url_after:
        return lines
    urls = [shown(change.url_before), f"-> {shown(change.url_after)}"]
    together = "  " + " ".join(urls)
    return lines + ([together] if len(together) <= WIDTH else [f"  {url}" for url in urls])


def remove(
    context: typer.Context,
    merchant: Merchant,
    endpoint: FirstEndpoint = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
) -> None:
    """Remove a merchant's endpoint and secret; what is still owed to it fails as not_configured."""
    session = session_of(context, shard)
    chosen, owed = session.change(lambda database: find_owed(database, merchant, endpoint))
    told = endpoint_named(merchant, chosen)
    if not yes:
        if owed:
            typer.echo(f"{told}: {many(owed, COUNT_LIMIT)} owed, which fail as not_configured", err=True)
        if not sys.stdin.isatty():
            raise ConfigurationError("endpoint remove: there is no terminal to ask on; give --yes")
        which = "the endpoint" if chosen is None else f"endpoint {chosen}"
        typer.confirm(f"Remove {which} of {shown(merchant)}?", abort=True, err=True)
    if not session.change(lambda database: database.delete_endpoint(merchant, chosen or 1), requested_by):
        raise not_configured(merchant, chosen)
    typer.echo(f"{told}: removed")


def _facts(endpoint: EndpointView) -> dict[str, object]:
    return {**dataclasses.asdict(endpoint), "order": endpoint.order}


def _columns(endpoints: Sequence[EndpointView]) -> tuple[str, ...]:
    """Return what there is to show: numbers, suspension, filters and order, where somebody has any."""
    is_anybody = any(endpoint.suspended_at is not None for endpoint in endpoints)
    is_filtered = any(endpoint.types is not None for endpoint in endpoints)
    is_by_charge = any(endpoint.at_once is not None for endpoint in endpoints)
    has_several = any(endpoint.number > 1 or endpoint.name is not None for endpoint in endpoints)
    return (
        COLUMNS[0],
        *(OF_SEVERAL if has_several else ()),
        *COLUMNS[1:],
        *(WHILE_SUSPENDED if is_anybody else ()),
        *(("types",) if is_filtered else ()),
        *(("order", "at_once") if is_by_charge else ()),
    )


def new_secret() -> Secret:
    """Make a secret, to be sealed and shown once."""
    return Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES))


def not_configured(merchant: str, number: int | None = None) -> UserError:
    """Say that a merchant has no endpoint, or none of a number."""
    name = shown(merchant)
    if number is not None:
        return UserError(f"merchant {name!r} has no endpoint {number}; see `endpoint list {name}`")
    return UserError(f"merchant {name!r} has no endpoint; configure it with `endpoint set`")


def find_in(endpoints: Sequence[EndpointView], merchant: str, number: int) -> EndpointView:
    """Find one of a merchant's endpoints by its number."""
    for endpoint in endpoints:
        if endpoint.number == number:
            return endpoint
    raise not_configured(merchant, number if endpoints else None)


async def find_owed(database: Administration, merchant: str, endpoint: int | None) -> tuple[int | None, int]:
    """Say which of several endpoints is meant (None: the only one), and what is owed to it.

    Of that, up to COUNT_LIMIT and one are counted.
    """
    endpoints = await database.list_endpoints(merchant)
    number = find_in(endpoints, merchant, endpoint or 1).number
    owed = await database.count_owed(merchant, number, COUNT_LIMIT + 1)
    return number if len(endpoints) > 1 else endpoint, owed
