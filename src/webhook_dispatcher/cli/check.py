"""`check`: what would keep a dispatcher from delivering, and how to mend it.

Each check is independent of the others as far as it can be, so that one run shows everything that is wrong.
"""

import asyncio
import resource
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from webhook_dispatcher.cli.event_types import HELD
from webhook_dispatcher.cli.options import AsJson, ShardName
from webhook_dispatcher.cli.output import as_arguments, endpoint_named, print_json, print_table, shown
from webhook_dispatcher.cli.session import CliContext, session_of
from webhook_dispatcher.diagnosis import findings as diagnosed
from webhook_dispatcher.diagnosis import vocabulary
from webhook_dispatcher.diagnosis.findings import Level
from webhook_dispatcher.diagnosis.said import Said
from webhook_dispatcher.domain.duration import render_duration
from webhook_dispatcher.domain.endpoint import EndpointView, Order
from webhook_dispatcher.domain.errors import (
    MAY_NOT,
    ConfigurationError,
    SchemaMismatch,
    StatementRefused,
    StorageUnavailable,
    UnknownKey,
    UnopenedSecret,
)
from webhook_dispatcher.domain.event import PLATFORM
from webhook_dispatcher.domain.lane import merchant_of, number_of
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names
from webhook_dispatcher.domain.signing import NO_STANDARD_KEY, Keyring, SealedSecret
from webhook_dispatcher.domain.thresholds import DAYS_AHEAD
from webhook_dispatcher.domain.verdict import Failure
from webhook_dispatcher.storage.administration import (
    Administration,
    LongTransaction,
    PauseOfEverything,
    Routed,
)
from webhook_dispatcher.storage.installation import Installation
from webhook_dispatcher.storage.keys import refusal
from webhook_dispatcher.storage.pooler import PoolerInBetween
from webhook_dispatcher.transport.addresses import parse_address
from webhook_dispatcher.transport.guard import Guard
from webhook_dispatcher.transport.tls import lacking_groups

if TYPE_CHECKING:
    from webhook_dispatcher.settings import Settings

NOBODYS_URL = "https://webhook-dispatcher-check.example.com/"
"""Source: RFC 2606, 3: nobody has it, and the guard lets it through."""
LOOKS_AT_ONCE = 10
"""Looks at all days of the log, by people, merchants and commands, that the server should have locks for."""
DAYS_BESIDE = 10
"""Days that have partitions beside those of the retention: eight to come, today, and the one dropped next."""
MAX_NAMED = 10
LONG_OPEN = timedelta(minutes=15)
"""From then on a transaction is named that holds xmin back."""
MAX_READ = 1_000
"""Rows of lanes that wait which are read to find those that cannot be."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found. `problem` is None when all is well; `code` is the exit code it calls for.

    note: what is good to know although nothing is wrong. shard: the database, where it has a name.
    """

    check: str
    problem: str | None = None
    mend: str | None = None
    code: int = 1
    note: str | None = None
    shard: str | None = None


def check(context: typer.Context, shard: ShardName = None, as_json: AsJson = False) -> None:
    """Check configuration, database, schema, clock, keys, endpoints: what is wrong and how to mend it.

    Where there are several databases it checks all of them, or the one that is named.
    """
    results = asyncio.run(examine(session_of(context, shard)))
    if as_json:
        print_json(results)
    else:
        _print(results)
    codes = [result.code for result in results if result.problem is not None]
    if codes:
        raise typer.Exit(max(codes))


def _print(results: list[CheckResult]) -> None:
    """Print a line for each; a column names the database where databases have names."""
    has_names = any(result.shard for result in results)
    print_table(
        (*(["shard"] if has_names else []), "check", "found", "how to mend it"),
        (
            [
                *([result.shard or ""] if has_names else []),
                result.check,
                result.problem or result.note or "ok",
                result.mend or "",
            ]
            for result in results
        ),
    )


def _said(check: str, found: diagnosed.Finding, code: int = 1) -> CheckResult:
    """Say what was found; of what is well there is nothing to say."""
    if found.level is Level.GOOD:
        return CheckResult(check)
    text, mend = _english(found.said), None if found.mend is None else _english(found.mend)
    if found.level is Level.NOTE:
        return CheckResult(check, note=text, mend=mend)
    return CheckResult(check, text, mend, code)


def _english(told: Said) -> str:
    return vocabulary.say(told, "en", UTC)


async def examine(session: CliContext) -> list[CheckResult]:
    """Run every check that can be run; databases are looked at side by side."""
    try:
        settings = session.settings()
        names = [shard.name for shard in settings.databases()]
    except ConfigurationError as error:
        mend = 'see "Settings" in the documentation'
        return [CheckResult("configuration", problem, mend, code=2) for problem in error.problems]
    results = [CheckResult("configuration"), *_open_files(settings), _crash(settings), _tls_groups()]
    keyring, missing_keys = _keyring(settings)
    results += missing_keys
    for found in await asyncio.gather(
        *(_examine_database(session, settings.of_shard(name), keyring) for name in names)
    ):
        results += found
    return results


async def _examine_database(
    session: CliContext, settings: "Settings", keyring: Keyring | None
) -> list[CheckResult]:
    """Run every check of one database that can be run."""
    results: list[CheckResult] = []
    try:
        async with session.open_administration(settings.database_dsn(), settings.is_pooled) as database:
            results += [await _reached(settings, database)]
            results += [result async for result in _database(session, settings, keyring, database)]
    except StorageUnavailable as error:
        results.append(
            CheckResult("database", str(error), "check WEBHOOK_DATABASE_URL and the server", code=4)
        )
    except PoolerInBetween as error:
        results += _unconfigured("database", error)
    except ConfigurationError as error:
        results.append(CheckResult("database", str(error), "check WEBHOOK_DATABASE_URL", code=2))
    return [replace(result, shard=settings.shard_name) for result in results]


async def _reached(settings: "Settings", database: Administration) -> CheckResult:
    """Say which way the database was reached; PoolerInBetween came before where that cannot work."""
    if not settings.is_pooled:
        return CheckResult("database", note="ok; straight to Postgres")
    if await database.is_behind_pooler():
        return CheckResult("database", note="ok; through a pooler, by transactions")
    idle = "ok; straight to Postgres: WEBHOOK_DATABASE_POOLER=transaction only costs time"
    return CheckResult("database", note=idle)


async def _database(
    session: CliContext, settings: "Settings", keyring: Keyring | None, database: Administration
) -> AsyncIterator[CheckResult]:
    yield await _clock(session, database)
    try:
        await database.check_schema()
        yield CheckResult("schema")
        if (pause := await database.read_pause_of_everything()) is not None:
            yield _said("pause", _paused(pause))
        merchants, count = await database.list_suspended(MAX_NAMED)
        if merchants:
            yield _said("suspended", diagnosed.of_suspended(merchants, count))
        yield _installation(await database.read_installation(), settings.installation)
        names = await database.read_names()
        yield _names(names)
        yield await _event_types(database)
        for result in await _stored_keys(keyring, database, names):
            yield result
        yield await _partitions(settings, database)
        yield _said("lost", diagnosed.of_lost(await database.read_lost()))
        yield await _dispatchers(database)
        for result in await _transactions(database):
            yield result
        yield await _temporary(database)
        for result in await _unreadable(database):
            yield result
        endpoints = await database.list_endpoints()
        yield _platform(endpoints)
        yield _filters(endpoints)
        yield _by_charge(endpoints)
        if settings.egress_proxy is not None or any(map(_has_name, endpoints)):
            yield await _outbound(session, settings)
        for result in (*_several(await database.list_routed()), *_urls(settings, endpoints)):
            yield result
    except SchemaMismatch as error:
        yield CheckResult("schema", error.problem, error.remedy, code=3)
    except StatementRefused as error:
        yield CheckResult(
            "permissions", error.detail, "connect as a member of webhook_admin, or of webhook_dispatcher"
        )


def _paused(pause: PauseOfEverything) -> diagnosed.Finding:
    """Say the instant as the other commands that name it do, with its milliseconds."""
    return diagnosed.of_pause(None if pause.since is None else shown(pause.since), pause.requested_by)


def _open_files(settings: "Settings") -> Iterator[CheckResult]:
    from webhook_dispatcher.settings import check_open_files

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        check_open_files(settings.max_lanes, sys.maxsize if hard == resource.RLIM_INFINITY else hard)
        yield CheckResult("open files")
    except ConfigurationError as error:
        yield from _unconfigured("open files", error)


def _crash(settings: "Settings") -> CheckResult:
    """Say how long merchants wait for what a crashed process held."""
    if settings.instance_dir is not None:
        return CheckResult("crash", note=f"ok; who comes next releases at once, by {settings.instance_dir}")
    return CheckResult(
        "crash",
        note=f"merchants of a process that crashes wait for its lease, {render_duration(settings.lease)}",
        mend='set WEBHOOK_INSTANCE_DIR to a folder that outlives it: "Deploying" in the documentation',
    )


def _tls_groups() -> CheckResult:
    """Say which receivers are not reached where OpenSSL was configured otherwise than by us."""
    if not (groups := lacking_groups()):
        return CheckResult("tls")
    return CheckResult(
        "tls",
        note=f"{', '.join(groups)} not offered: receivers with none but those fail as `tls`",
        mend="unset OPENSSL_CONF, or have its Groups include them",
    )


def _has_name(endpoint: EndpointView) -> bool:
    """Tell whether a name server must be asked for an endpoint's host."""
    return parse_address((urlsplit(endpoint.url).hostname or "").strip("[]")) is None


async def _outbound(session: CliContext, settings: "Settings") -> CheckResult:
    """Ask name server, or proxy, as an attempt does, for a name that is nobody's: any answer will do."""
    # Late: most commands send nothing.
    from webhook_dispatcher.app.outbound import make_sender

    guard = Guard(settings.egress_policy())
    try:
        async with (session.make_sender or make_sender)(settings, guard) as sender:
            result = await sender.post(NOBODYS_URL, {}, b"")
    except ConfigurationError as error:
        return CheckResult("outbound", str(error), 'see "Settings" in the documentation', code=2)
    if isinstance(result, Failure) and result.is_ours:
        mend = "look at WEBHOOK_EGRESS_PROXY, WEBHOOK_EGRESS_NAMESERVERS, and this machine's own"
        return CheckResult("outbound", result.detail, mend)
    asked = "a name server" if settings.egress_proxy is None else "the egress proxy"
    return CheckResult("outbound", note=f"ok; {asked} answers; no endpoint's host is looked up")


def _keyring(settings: "Settings") -> tuple[Keyring | None, list[CheckResult]]:
    try:
        return settings.keyring(), []
    except ConfigurationError as error:
        return None, _unconfigured("configuration", error)


def _unconfigured(check: str, error: ConfigurationError) -> list[CheckResult]:
    return [CheckResult(check, problem, error.remedy, code=2) for problem in error.problems]


async def _clock(session: CliContext, database: Administration) -> CheckResult:
    before = session.unix_time()
    theirs = (await database.database_time()).timestamp()
    ours = (before + session.unix_time()) / 2
    return _said("clock", diagnosed.of_clock(timedelta(seconds=ours - theirs)))


def _installation(found: Installation, wanted: str | None) -> CheckResult:
    """Say whether the database is the one that is meant, and which it is."""
    told = diagnosed.of_installation(found.name, wanted, found.known_server, found.server)
    if told.level is Level.BAD:
        return _said("installation", told, code=2)
    return CheckResult("installation", note=f"ok; {_english(told.said)}")


def _names(names: Names) -> CheckResult:
    """Say by which names requests are sent, where they are not the first."""
    if names == DEFAULT_NAMES:
        return CheckResult("names")
    agent = "" if names.user_agent is None else f", User-Agent {shown(names.user_agent)}"
    signatures = " and ".join(names.signatures)
    by = f"headers {names.header_prefix}…{agent}, signed as {signatures}"
    return CheckResult("names", note=f"ok; {by}; programs for schema 20 are refused")


async def _event_types(database: Administration) -> CheckResult:
    """Say what keeps older programs from being served, where there are types of one's own, or were."""
    hold = await database.read_type_hold()
    return CheckResult("event types", note=f"ok; {HELD[hold]}" if hold else None)


async def _stored_keys(keyring: Keyring | None, database: Administration, names: Names) -> list[CheckResult]:
    """Say whether our keys are the right ones and none is missing; name secrets that they do not open.

    Also who has no standard signature, where others have.
    """
    if keyring is not None and (wrong := await database.find_wrong_keys(keyring)):
        return _unconfigured("keys", refusal(wrong))
    used: set[str] = set()
    lacking: set[str] = set()
    unopened: dict[str, UnopenedSecret] = {}
    have_standard: dict[str, bool] = {}
    async for merchant, sealed in _sealed_secrets(database):
        used.add(sealed.opened_by)
        try:
            if keyring is None:
                raise UnknownKey(sealed.opened_by, "WEBHOOK_SECRET_KEYS is not set")
            secret = keyring.open(merchant, sealed)
            # The newest comes first: the one before ends with its overlap.
            have_standard.setdefault(merchant, secret.standard_key is not None)
        except UnknownKey as error:
            lacking.add(str(error))
        except UnopenedSecret as error:
            unopened.setdefault(merchant, error)
    mend = "add the key to WEBHOOK_SECRET_KEYS; until then lanes wait"
    keys = CheckResult("keys", "; ".join(sorted(lacking)), mend) if lacking else None
    lacking_standard = [merchant for merchant, has in have_standard.items() if names.has_standard and not has]
    return [
        keys or CheckResult("keys", note=_old_keys(keyring, used)),
        *_unopened(unopened),
        *_without_standard(lacking_standard),
    ]


async def _sealed_secrets(database: Administration) -> AsyncIterator[tuple[str, SealedSecret]]:
    """Go through all secrets that sign, and whose they are."""
    after = ""
    while batch := await database.read_sealed_secrets(after, MAX_READ):
        after = batch[-1].lane
        for stored in batch:
            for sealed in (stored.current, stored.previous):
                if sealed is not None:
                    yield stored.lane, sealed


def _unopened(unopened: Mapping[str, UnopenedSecret]) -> Iterator[CheckResult]:
    for lane, error in list(unopened.items())[:MAX_NAMED]:
        mend = f"{_rotated(lane)} --hold; until then its lane waits"
        yield CheckResult("secret", f"{_endpoint(lane)}: {error}", mend)
    if len(unopened) > MAX_NAMED:
        yield CheckResult("secret", f"and {len(unopened) - MAX_NAMED} more secrets", "as above")


def _without_standard(lanes: Sequence[str]) -> Iterator[CheckResult]:
    for lane in lanes[:MAX_NAMED]:
        note = f"{_endpoint(lane)}: no standard signature: {NO_STANDARD_KEY}"
        yield CheckResult("standard", note=note, mend=f"{_rotated(lane)} --overlap 24h, if it wants one")
    if len(lanes) > MAX_NAMED:
        yield CheckResult("standard", note=f"and {len(lanes) - MAX_NAMED} more merchants", mend="as above")


def _endpoint(lane: str) -> str:
    return endpoint_named(merchant_of(lane), number_of(lane))


def _rotated(lane: str) -> str:
    return f"webhook-dispatcher endpoint rotate-secret {as_arguments(merchant_of(lane), number_of(lane))}"


def _old_keys(keyring: Keyring | None, used: set[str]) -> str | None:
    """Say which keys can be removed, and which could be after `endpoint rekey`."""
    older = [key_id for key_id in keyring.key_ids if key_id != keyring.sealing_id] if keyring else []
    idle = ", ".join(key_id for key_id in older if key_id not in used)
    busy = ", ".join(key_id for key_id in older if key_id in used)
    notes = [f"no longer needed, remove from WEBHOOK_SECRET_KEYS: {idle}"] if idle else []
    notes += [f"needed until `webhook-dispatcher endpoint rekey`: {busy}"] if busy else []
    return "ok; " + "; ".join(notes) if notes else None


async def _partitions(settings: "Settings", database: Administration) -> CheckResult:
    if missing := await database.missing_partitions(DAYS_AHEAD):
        return _said("partitions", diagnosed.of_missing_partitions(missing))
    capacity = await database.read_lock_capacity()
    locks = (settings.retention.days + DAYS_BESIDE) * capacity.locks_a_day
    wanted = -(-LOOKS_AT_ONCE * locks // capacity.transactions)
    if wanted <= capacity.of_a_transaction:
        return CheckResult("partitions")
    note = (
        f"all there; a look at all days takes {locks} locks, so set max_locks_per_transaction to {wanted} "
        f"(it is {capacity.of_a_transaction}) or shorten WEBHOOK_RETENTION"
    )
    return CheckResult("partitions", note=note)


async def _dispatchers(database: Administration) -> CheckResult:
    """Say whether something waits that a dispatcher would have taken up, and which do not work.

    What dispatchers noted of themselves is up to ten seconds old: by itself it is only worth a note.
    """
    stranded = await database.find_stranded()
    noted = diagnosed.of_dispatchers(await database.database_time(), await database.list_dispatchers())
    ill = [finding for finding in noted if finding.level is diagnosed.Level.BAD]
    told = [*([diagnosed.of_stranded(stranded)] if stranded else []), *ill]
    text = "; ".join(_english(finding.said) for finding in told) or None
    mend = "; ".join(dict.fromkeys(_english(finding.mend) for finding in told if finding.mend)) or None
    if stranded:
        return CheckResult("dispatchers", text, mend)
    return CheckResult("dispatchers", note=text, mend=mend)


async def _transactions(database: Administration) -> list[CheckResult]:
    """Name who holds xmin back."""
    mend = 'end it (pg_terminate_backend, or ROLLBACK PREPARED); time-outs: "Installing" in the documentation'
    return [
        CheckResult("transactions", note=_held(found), mend=mend)
        for found in await database.list_long_transactions(LONG_OPEN, MAX_NAMED)
    ] or [CheckResult("transactions")]


def _held(found: LongTransaction) -> str:
    who = f"{shown(found.role)} ({shown(found.program)}) in {shown(found.database)}"
    which = who if found.pid is None else f"pid {found.pid}, {who}"
    state = "" if found.state is None else f", {found.state}"
    held = ", and new events are not read in order" if found.delays_feed else ""
    return f"{which}{state}, open since {shown(found.since)}: what was deleted is not cleared away{held}"


async def _temporary(database: Administration) -> CheckResult:
    """Say whether whoever connects may bring functions along."""
    name, may_all = await database.may_all_make_temporary()
    if not may_all:
        return CheckResult("temporary")
    return CheckResult(
        "temporary",
        note="all who connect may make temporary tables, functions and operators",
        mend=f'REVOKE TEMPORARY ON DATABASE "{shown(name)}" FROM PUBLIC; '
        'price: "Installing" in the documentation',
    )


async def _unreadable(database: Administration) -> list[CheckResult]:
    """Name the rows that the database cannot read, among those that lanes wait for."""
    mend = 'mend or quarantine it: "A row that the database cannot read" in the documentation'
    try:
        rows, looked_at = await database.find_unreadable(MAX_READ)
    except StatementRefused as error:
        if error.is_damage:
            return [CheckResult("rows", f"rows cannot even be named: {error.detail}", mend)]
        if error.sqlstate != MAY_NOT:
            raise
        return [CheckResult("rows", note="not looked at: that takes webhook_dispatcher's rights")]
    if not rows:
        is_cut = looked_at == MAX_READ
        return [
            CheckResult("rows", note=f"ok; of {MAX_READ:,} rows that wait, and more do" if is_cut else None)
        ]
    return [
        CheckResult(
            "rows",
            f"{endpoint_named(row.merchant_id, row.endpoint)}: event {row.event_id}, seq {row.seq}, "
            f"cannot be read ({row.error})",
            mend,
        )
        for row in rows
    ]


def _filters(endpoints: list[EndpointView]) -> CheckResult:
    """Name who has a filter, for whose sake older programs are refused."""
    merchants = _whose([endpoint for endpoint in endpoints if endpoint.types is not None])
    if not merchants:
        return CheckResult("filters")
    return CheckResult("filters", note=f"ok; of {_named(merchants)}; programs for schema 22 are refused")


def _by_charge(endpoints: list[EndpointView]) -> CheckResult:
    """Name whose order is kept by charge, for whose sake older programs are refused."""
    merchants = _whose([endpoint for endpoint in endpoints if endpoint.order is Order.CHARGE])
    if not merchants:
        return CheckResult("order")
    note = f"ok; by charge of {_named(merchants)}, for whose sake older programs are refused"
    return CheckResult("order", note=note)


def _several(merchants: Sequence[Routed]) -> Iterator[CheckResult]:
    """Name who has several endpoints, for whose sake older programs are refused, and who had."""
    several = [shown(each.merchant_id) for each in merchants if each.numbers and max(each.numbers) > 1]
    alone = [shown(each.merchant_id) for each in merchants if each.numbers and max(each.numbers) == 1]
    owing = [shown(each.merchant_id) for each in merchants if each.owes_removed]
    told = [
        *([f"ok; several of {_named(several)}; programs for schema 25 are refused"] if several else []),
        *([f"{_named(alone)} becomes direct once endpoint 1 owes no first attempt"] if alone else []),
        *([f"endpoints of {_named(owing)} that are removed still owe"] if owing else []),
    ]
    yield from (CheckResult("endpoints", note=text) for text in told)


def _whose(endpoints: Sequence[EndpointView]) -> list[str]:
    return list(dict.fromkeys(shown(endpoint.merchant_id) for endpoint in endpoints))


def _named(merchants: Sequence[str]) -> str:
    more = f" and {len(merchants) - MAX_NAMED} more" if len(merchants) > MAX_NAMED else ""
    return f"{', '.join(merchants[:MAX_NAMED])}{more}"


def _platform(endpoints: list[EndpointView]) -> CheckResult:
    """Say where nobody is told of deliveries that fail, and of merchants that are suspended."""
    if any(endpoint.merchant_id == PLATFORM for endpoint in endpoints):
        return CheckResult("platform")
    titled = '"What the platform is told" in the documentation'
    mend = f"webhook-dispatcher endpoint set '{PLATFORM}' URL: {titled}"
    return CheckResult("platform", note=f"{PLATFORM} has no endpoint, so it is told of no failure", mend=mend)


def _urls(settings: "Settings", endpoints: list[EndpointView]) -> Iterator[CheckResult]:
    guard = Guard(settings.egress_policy())
    forbidden = [
        (endpoint, fault) for endpoint in endpoints if (fault := guard.find_fault(endpoint.url)) is not None
    ]
    for endpoint, reason in forbidden[:MAX_NAMED]:
        number = endpoint.number if endpoint.number > 1 else None
        yield _said("endpoint", diagnosed.of_forbidden(endpoint.merchant_id, reason, number))
    if len(forbidden) > MAX_NAMED:
        yield _said("endpoint", diagnosed.of_more_forbidden(len(forbidden) - MAX_NAMED))
    if not forbidden:
        yield _said("endpoints", diagnosed.of_allowed())
