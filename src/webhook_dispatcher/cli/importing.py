"""`endpoint import`: all merchants of a file, or none, with secrets that they hold already."""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import typer

from webhook_dispatcher.cli.endpoints import filter_of, new_secret, split_types, types_fault
from webhook_dispatcher.cli.options import AsJson, RequestedBy, ShardName, parse_merchant
from webhook_dispatcher.cli.output import print_json, shown
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.errors import ConfigurationError, UserError
from webhook_dispatcher.domain.signing import Keyring, Secret
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.keys import refusal

FIELDS = ("merchant_id", "url", "secret", "types")
_SECRET = re.compile("[!-~]+")


class BadLine(ValueError):
    """A line cannot be taken. It says why, and never a secret."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A merchant as its line names it.

    secret: None where one is to be made, or the present one kept. types: none where they are kept.
    """

    line: int
    merchant_id: str
    url: str
    secret: Secret | None
    types: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Imported:
    """What was done, or would be. secrets: what was made, to be shown once."""

    dry_run: bool
    configured: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)


def import_(
    context: typer.Context,
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            metavar="FILE",
            help="CSV under the header merchant_id,url,secret,types, or lines of JSON with these names; - is "
            "standard input. Without a secret one is made; types may be left out.",
        ),
    ],
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Change those that are configured: the URL, and secret and types where they are given.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check all of it, and change nothing.")] = False,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Configure all merchants of a file, or none, with the secrets that they hold already."""
    from webhook_dispatcher.transport.guard import Guard

    session = session_of(context, shard)
    settings = session.settings()
    keyring = settings.keyring()
    guard = Guard(settings.egress_policy())
    entries, faults = read(file.read())
    faults += [
        (entry.line, f"url: {fault}")
        for entry in entries
        if (fault := guard.find_fault(entry.url)) is not None
    ]

    async def carry_out(database: Administration) -> Imported:
        endpoints = await database.list_endpoints()
        known = {endpoint.merchant_id for endpoint in endpoints}
        with_first = {endpoint.merchant_id for endpoint in endpoints if endpoint.number == 1}
        last = await database.list_with_several() - with_first
        taken = [] if replace else [entry for entry in entries if entry.merchant_id in known]
        own = await database.list_own_types()
        strange = [
            (entry.line, fault)
            for entry in entries
            if entry.types and (fault := types_fault(entry.merchant_id, entry.types, own)) is not None
        ]
        _refuse(
            [
                *faults,
                *strange,
                *((entry.line, f"{entry.merchant_id} is configured (--replace)") for entry in taken),
            ]
        )
        if wrong := await database.find_wrong_keys(keyring):
            raise refusal(wrong)
        imported = Imported(dry_run)
        if dry_run:
            for entry in entries:
                (imported.replaced if entry.merchant_id in known else imported.configured).append(
                    entry.merchant_id
                )
            return imported
        async with database.transaction():
            # By merchant, so that two of these lock endpoints in one order. Last what locks `state`, for
            # which others wait with an endpoint: a first one where there are, or were, several, and types.
            for entry in sorted(entries, key=lambda entry: (entry.merchant_id in last, entry.merchant_id)):
                await _store(database, keyring, entry, entry.merchant_id in with_first, imported)
            await database.set_types_of(
                {entry.merchant_id: filter_of(entry.types) for entry in entries if entry.types}
            )
        return imported

    imported = session.change(carry_out, requested_by)
    if as_json:
        print_json(imported)
        return
    would = "would be " if dry_run else ""
    typer.echo(f"{len(imported.configured)} {would}configured, {len(imported.replaced)} {would}replaced")
    if imported.secrets:
        typer.echo("these secrets were made and are shown this once:", err=True)
    for merchant_id, secret in imported.secrets.items():
        typer.echo(f"{shown(merchant_id)} {secret}")


async def _store(
    database: Administration, keyring: Keyring, entry: Entry, has_first: bool, imported: Imported
) -> None:
    """Configure a merchant or change it; UserError, and with it nothing at all, if others were faster."""
    secret = entry.secret or new_secret()
    sealed = keyring.seal(entry.merchant_id, secret)
    if has_first and await database.update_endpoint_url(entry.merchant_id, entry.url):
        if entry.secret is not None:
            await database.rotate_secret(entry.merchant_id, sealed, None, keyring)
        imported.replaced.append(entry.merchant_id)
    elif not has_first and await database.insert_endpoint(entry.merchant_id, entry.url, sealed, keyring):
        imported.configured.append(entry.merchant_id)
        if entry.secret is None:
            imported.secrets[entry.merchant_id] = secret.revealed.decode()
    else:
        raise UserError(
            f"line {entry.line}: {shown(entry.merchant_id)} was changed meanwhile; nothing was done"
        )


def read(content: bytes) -> tuple[list[Entry], list[tuple[int, str]]]:
    """Read a file: what its lines say, and which of them are wrong and why."""
    entries: list[Entry] = []
    faults: list[tuple[int, str]] = []
    lines: dict[str, int] = {}
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], [(content.count(b"\n", 0, error.start) + 1, "is not UTF-8")]
    rows = _json_rows(text) if text.lstrip().startswith("{") else _csv_rows(text)
    for line, row in rows:
        try:
            entry = _entry(line, row)
            if (before := lines.setdefault(entry.merchant_id, line)) != line:
                raise BadLine(f"{entry.merchant_id} is in line {before} too")
            entries.append(entry)
        except BadLine as error:
            faults.append((line, str(error)))
    return entries, faults or ([] if entries else [(1, "there is no merchant in the file")])


def _csv_rows(text: str) -> Iterator[tuple[int, object]]:
    # Spreadsheets of many countries write semicolons.
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        if not {*FIELDS[:2]} <= {*(reader.fieldnames or ())} <= {*FIELDS}:
            yield 1, BadLine(f"is to be the header {','.join(FIELDS)}")
            return
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        yield reader.line_num + 1, error


def _json_rows(text: str) -> Iterator[tuple[int, object]]:
    for line, document in enumerate(text.split("\n"), 1):
        if document.strip():
            try:
                yield line, json.loads(document)
            except ValueError:
                yield line, BadLine("is no JSON")


def _entry(line: int, row: object) -> Entry:
    """Check what a line says but for its URL."""
    if isinstance(row, Exception):
        raise BadLine(str(row))
    if not isinstance(row, dict) or not {*row} <= {*FIELDS}:
        raise BadLine(f"has more than {', '.join(FIELDS)}")
    merchant_id, url, secret, types = [row.get(name) for name in FIELDS]
    if not (isinstance(merchant_id, str) and isinstance(url, str) and isinstance(secret, str | None)):
        raise BadLine("lacks merchant_id or url")
    try:
        parse_merchant(merchant_id)
    except typer.BadParameter as error:
        raise BadLine(f"merchant_id: {error}") from None
    if secret and not _SECRET.fullmatch(secret):
        raise BadLine("secret: it has spaces, or what is not ASCII")
    named = _types(types)
    try:
        return Entry(line, merchant_id, url, Secret(secret) if secret else None, named)
    except ValueError as error:
        raise BadLine(f"secret: {error}") from None


def _types(given: object) -> list[str]:
    """Read a filter: a list of names, or text with commas between them."""
    if isinstance(given, list) and given and all(isinstance(name, str) for name in given):
        given = ",".join(given)
    if not isinstance(given, str | None):
        raise BadLine("types: it is no list of names")
    return split_types(given or None)


def _refuse(faults: list[tuple[int, str]]) -> None:
    if faults:
        told = [f"line {line}: {shown(reason)}" for line, reason in sorted(faults)]
        raise ConfigurationError(*told, "nothing was done")
