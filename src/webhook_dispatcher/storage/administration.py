"""What the command line does in the database, over one connection.

What concerns deliveries in progress goes through the control table; only endpoints are written directly.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from webhook_dispatcher.domain.command import CommandStatus, CommandView, ListedCommand, Recover, Skip
from webhook_dispatcher.domain.delivery import AttemptView, DeliveryView
from webhook_dispatcher.domain.endpoint import END_OLDER, OLDER_DISPATCHER, EndpointChange, EndpointView
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable, UserError
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.lane import MAX_ENDPOINTS, merchant_of, number_of
from webhook_dispatcher.domain.mass_command import Preview
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.signing import Keyring, SealedSecret
from webhook_dispatcher.domain.status import DispatcherFacts, Lost, Stranded, SuspendedMerchant
from webhook_dispatcher.storage import installation, keys, lost, numbers, schema
from webhook_dispatcher.storage.api import api_keys, event_types
from webhook_dispatcher.storage.api.held_rotation import raise_unless_held
from webhook_dispatcher.storage.command import parsed, read_command
from webhook_dispatcher.storage.connection import connect, translated
from webhook_dispatcher.storage.delivery import questions, read_answered_attempts, read_attempts
from webhook_dispatcher.storage.pooler import is_behind_pooler
from webhook_dispatcher.storage.previews import COUNT_LIMIT, MERCHANTS_SHOWN, PauseOf, read_preview
from webhook_dispatcher.storage.statements import COMMAND_LINE, load

COMMAND_TIMEOUT = timedelta(seconds=30)
STRANDED_AFTER = timedelta(seconds=5)
"""Where a dispatcher runs, a free lane is leased within a second; what waits for longer has none."""
MAX_DISPATCHERS = 1_000
MAX_LOOKED_AT = 10_000
"""Merchants that are owed something: so many are looked through for one whom no dispatcher serves."""
_NOT_ADDED = {
    "too_many": f"a merchant can have no more than {MAX_ENDPOINTS} endpoints",
    "key_is_old": "no dispatcher that works has the key that seals here",
}
PARTITIONED = ("webhook.delivery_log", "webhook.attempt_log")


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries to show; None lets everything through. Times are of `created_at`.

    endpoint: the number of one of the merchant's, who is named then.
    """

    merchant_id: str | None = None
    state: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    event_id: UUID | None = None
    limit: int = 50
    type: str | None = None
    charge_id: str | None = None
    outcome: str | None = None
    oldest_first: bool = False
    endpoint: int | None = None


class NewEndpoint(NamedTuple):
    """An endpoint as it is to be added. types, at_once: as of an EndpointView."""

    url: str
    secret: SealedSecret
    name: str | None = None
    types: Sequence[str] | None = None
    at_once: int | None = None


class AddedEndpoint(NamedTuple):
    """Which one it has become."""

    number: int
    id: UUID


@dataclass(frozen=True, slots=True)
class Routed:
    """A merchant for whose sake programs are refused that know only one endpoint.

    numbers: of its endpoints, where events are routed to these. owes_removed: something is owed to
    one that is gone.
    """

    merchant_id: str
    numbers: Sequence[int] | None
    owes_removed: bool


@dataclass(frozen=True, slots=True)
class LongTransaction:
    """A transaction that holds xmin back. pid: None of a prepared one, whose name is its program.

    state: None where this user may not read it; since is a milestone then, at which it was open already.
    """

    pid: int | None
    database: str | None
    role: str | None
    program: str | None
    state: str | None
    since: datetime
    delays_feed: bool


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A control command as asked for (contract 3)."""

    command: str
    requested_by: str
    merchant_id: str | None = None
    event_id: UUID | None = None
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PauseOfEverything:
    """The operators' pause of everything: by whom and since when; None where no command says so any more."""

    requested_by: str | None
    since: datetime | None


@dataclass(frozen=True, slots=True)
class StoredSecrets:
    """An endpoint's sealed secrets as stored. `previous_is_over`: the one before signs no more."""

    lane: str
    current: SealedSecret
    previous: SealedSecret | None = None
    previous_is_over: bool = False


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """An owed row whose object the database cannot read, for damage."""

    merchant_id: str
    seq: int
    event_id: UUID
    error: str
    endpoint: int | None = None


class LockCapacity(NamedTuple):
    """Locks that a look at all days of the log takes for each, and what the server has of them.

    The server has `of_a_transaction` (max_locks_per_transaction) times as many as transactions at once.
    """

    locks_a_day: int
    of_a_transaction: int
    transactions: int


class Administration:
    """Statements of `sql/administration.sql`; errors are ours (`storage.connection.translated`).

    person: whom the audit names as the one who changes an endpoint.
    """

    person: str | None = None

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self._statements = {
            **load("administration"),
            **load("insight"),
            **load("unreadable"),
            **load("previewing"),
            **questions(COMMAND_LINE),
            **load("command", COMMAND_LINE),
            **load("fares", COMMAND_LINE),
        }

    async def check_schema(self) -> None:
        """Raise SchemaMismatch unless the schema serves this version."""
        await schema.check(self.connection)
        await numbers.check(self.connection)

    async def is_behind_pooler(self) -> bool:
        """Tell whether a connection pooler stands before the database."""
        with translated():
            return await is_behind_pooler(self.connection)

    async def verify_installation(self, name: str | None) -> None:
        """Raise ConfigurationError if the database belongs to another installation than that."""
        if name is not None:
            (await self.read_installation()).verify(name)

    async def read_installation(self) -> installation.Installation:
        """Return which installation the database belongs to."""
        return await installation.read(self.connection)

    async def read_owed(self) -> installation.Backlog:
        """Return what a daemon would send."""
        return await installation.read_owed(self.connection)

    async def adopt_installation(self, name: str, adopted_by: str) -> None:
        """Let the database belong to an installation."""
        await installation.adopt(self.connection, name, adopted_by)

    async def read_names(self) -> Names:
        """Return the names that requests have."""
        return await installation.read_names(self.connection)

    async def set_names(
        self, prefix: str | None, user_agent: str | None, signatures: Sequence[str] | None
    ) -> Sequence[str]:
        """Set the names that requests have; None leaves one as it is, and an empty User-Agent is our own.

        Returns the older dispatchers that work, and would not know: nothing was changed then.
        """
        rows = await self._rows("set_names", prefix, user_agent, signatures, self.person)
        return tuple(rows[0]["older"])

    async def verify_keys(self, keyring: Keyring) -> None:
        """Raise ConfigurationError if one of our keys is not the one that its id stands for."""
        await keys.verify(self.connection, keyring)

    async def find_wrong_keys(self, keyring: Keyring) -> tuple[keys.WrongKey, ...]:
        """Return which of our keys are not those that their ids stand for; writes nothing."""
        return (await keys.examine(self.connection, keyring)).wrong

    async def insert_endpoint(
        self, merchant_id: str, url: str, secret: SealedSecret, keyring: Keyring
    ) -> bool:
        """Configure a merchant; False when it is configured already.

        ConfigurationError: the keyring's key is not the one that its id stands for; nothing was stored.
        """
        async with self._change_of_endpoints():
            rows = await self._rows("insert_endpoint", merchant_id, url, secret.sealed, secret.key_id)
            if rows:
                await keys.note(self.connection, keyring, merchant_id, secret)
        return bool(rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Let all that is changed while this is entered take effect together, or nothing of it."""
        with translated():
            async with self.connection.transaction():
                yield

    async def add_endpoint(
        self, merchant_id: str, wanted: NewEndpoint, keyring: Keyring
    ) -> AddedEndpoint | None:
        """Add an endpoint to a merchant's; None: something is being sent to it, which rests then: ask again.

        ConfigurationError: as for insert_endpoint. UserError: there are as many as there can be, or a
        dispatcher works that does not know what is wanted.
        """
        secret = wanted.secret
        values = wanted.url, secret.sealed, secret.key_id, wanted.name, wanted.types, wanted.at_once
        async with self._change_of_endpoints():
            [row] = await self._set("add_endpoint", merchant_id, *values)
            if row["result"] == "created":
                await keys.note(self.connection, keyring, merchant_id, secret)
                return AddedEndpoint(row["number"], row["id"])
        if row["result"] != "sending":
            raise UserError(_NOT_ADDED[row["result"]])
        return None

    async def update_endpoint_url(self, merchant_id: str, url: str, number: int = 1) -> bool:
        """Change an endpoint's URL; False when there is no such endpoint."""
        async with self._change_of_endpoints(merchant_id):
            return bool(await self._rows("update_endpoint_url", merchant_id, number, url))

    async def set_types(self, merchant_id: str, types: Sequence[str] | None, number: int = 1) -> bool:
        """Have an endpoint sent these types alone, None: all; False when there is none, or it has them.

        UserError: a dispatcher works that knows no filters.
        """
        async with self._change_of_endpoints(merchant_id):
            return await self.set_types_of({merchant_id: types}, number) == 1

    async def set_types_of(self, wanted: Mapping[str, Sequence[str] | None], number: int = 1) -> int:
        """Do so for several merchants; return how many had another filter. UserError: as for one."""
        texts = [types and ",".join(types) for types in wanted.values()]
        async with self._change_of_endpoints():
            return len(await self._set("set_types", list(wanted), number, texts))

    async def set_order(self, merchant_id: str, at_once: int | None, number: int = 1) -> bool:
        """Have so many of an endpoint's events attempted at once, in the order of each charge.

        None: one, in the order of the merchant. False when there is no such endpoint, or it has that order.
        UserError: a dispatcher works that knows no such order.
        """
        async with self._change_of_endpoints(merchant_id):
            return bool(await self._set("set_order", merchant_id, number, at_once))

    async def _set(self, statement: str, *values: object) -> Sequence[Any]:
        try:
            return await self._rows(statement, *values)
        except StatementRefused as error:
            if error.sqlstate != OLDER_DISPATCHER:
                raise
            raise UserError(f"{error.detail}; nothing was done: {END_OLDER}") from None

    async def rotate_secret(
        self,
        merchant_id: str,
        secret: SealedSecret,
        overlap: timedelta | None,
        keyring: Keyring,
        hold: bool = False,
        number: int = 1,
    ) -> tuple[bool, datetime | None]:
        """Replace an endpoint's secret; say whether there is one, and when the overlap ends.

        hold: only while nothing is sent to it, else NotHeld. ConfigurationError: as for insert_endpoint. The
        secret before it stays then.
        """
        async with self._change_of_endpoints(merchant_id):
            if hold:
                raise_unless_held((await self._rows("lock_held", merchant_id, number))[0]["state"])
            values = number, secret.sealed, secret.key_id, overlap
            rows = await self._rows("rotate_secret", merchant_id, *values)
            if rows:
                await keys.note(self.connection, keyring, merchant_id, secret)
        return bool(rows), rows[0]["previous_until"] if rows else None

    async def delete_endpoint(self, merchant_id: str, number: int = 1) -> bool:
        """Remove an endpoint; False when there is none."""
        async with self._change_of_endpoints(merchant_id):
            return bool(await self._rows("delete_endpoint", merchant_id, number))

    async def count_owed(self, merchant_id: str, number: int, most: int) -> int:
        """Count what is owed to an endpoint, up to a limit."""
        return int((await self._rows("count_owed", merchant_id, number, most))[0]["owed"])

    async def endpoint_history(self, merchant_id: str, limit: int) -> list[EndpointChange]:
        """Return who changed an endpoint, or asked for a change of it, in order; the latest ones."""
        return [
            EndpointChange(**row) for row in await self._rows("read_endpoint_history", merchant_id, limit)
        ]

    async def list_endpoints(self, merchant_id: str | None = None) -> list[EndpointView]:
        """Return all endpoints, or a merchant's, in order of merchant and number."""
        return [EndpointView(**row) for row in await self._rows("list_endpoints", merchant_id)]

    async def list_with_several(self) -> set[str]:
        """Return the merchants who have, or had, several endpoints."""
        return {row["merchant_id"] for row in await self._rows("list_with_several")}

    async def list_routed(self) -> list[Routed]:
        """Return the merchants for whose sake programs are refused that know only one endpoint."""
        return [Routed(**row) for row in await self._rows("list_routed")]

    async def is_known_merchant(self, merchant_id: str) -> bool:
        """Tell whether a merchant has an endpoint, a lane, or a delivery."""
        return bool((await self._rows("is_known_merchant", merchant_id))[0]["is_known"])

    async def list_deliveries(self, wanted: DeliveryFilter) -> list[DeliveryView]:
        """Return matching deliveries, the newest first unless the oldest are asked for."""
        rows = await self._rows(
            "list_deliveries",
            wanted.merchant_id,
            wanted.state,
            wanted.since,
            wanted.until,
            wanted.event_id,
            wanted.limit,
            wanted.type,
            wanted.charge_id,
            wanted.outcome,
            wanted.oldest_first,
            wanted.endpoint,
        )
        return [DeliveryView(**row, charge_id=None) for row in rows]

    async def list_attempts(self, event_id: UUID) -> list[AttemptView]:
        """Return the attempts of an event in order of time, with excerpts for who may read these."""
        [excerpts] = await self._rows("may_read_excerpts")
        read = read_answered_attempts if excerpts["may_read"] else read_attempts
        return await read(self._shared, event_id, None)

    async def _shared(self, name: str, *arguments: object) -> Sequence[Any]:
        return await self._rows(name, None, *arguments)

    async def ask(self, request: ControlRequest) -> int:
        """Insert a control command and return its id."""
        rows = await self._rows(
            "insert_command",
            request.command,
            request.merchant_id,
            request.event_id,
            json.dumps(request.args),
            request.requested_by,
        )
        return int(rows[0]["id"])

    async def find_command(self, command_id: int) -> CommandView:
        """Return what became of a control command."""
        found = await read_command(self._shared, command_id)
        if found is None:
            raise UserError(f"there is no command {command_id}")
        return found

    async def list_commands(
        self, merchant_id: str | None, status: CommandStatus | None, limit: int
    ) -> list[ListedCommand]:
        """Return matching commands, the newest first."""
        rows = await self._rows("list_commands", merchant_id, status, limit)
        return [ListedCommand(**parsed(row, "result")) for row in rows]

    async def withdraw_command(self, command_id: int, withdrawn_by: str) -> bool:
        """Take back a command; False when it was taken up, or withdrawn, before, or there is none."""
        return bool((await self._rows("withdraw_command", command_id, withdrawn_by))[0]["is_withdrawn"])

    async def read_pause_of_everything(self) -> PauseOfEverything | None:
        """Return the pause of everything, if operators have paused everything."""
        rows = await self._rows("read_pause_of_everything")
        return PauseOfEverything(rows[0]["requested_by"], rows[0]["handled_at"]) if rows else None

    async def list_suspended(self, limit: int) -> tuple[list[SuspendedMerchant], int]:
        """Return the suspended merchants that are tried next, and how many there are in all."""
        rows = await self._rows("list_suspended", limit)
        found = [dict(row) for row in rows]
        count = [row.pop("suspended") for row in found]
        return [SuspendedMerchant(**row) for row in found], max(count, default=0)

    async def list_dispatchers(self) -> list[DispatcherFacts]:
        """Return the dispatchers that noted themselves within a day, those first that did so last."""
        rows = await self._rows("list_dispatchers", MAX_DISPATCHERS)
        return [DispatcherFacts(**row) for row in rows]

    async def find_stranded(self) -> Stranded | None:
        """Return what has waited longest although only a dispatcher is wanting; None where one works."""
        rows = await self._shared("find_stranded", STRANDED_AFTER, MAX_LOOKED_AT)
        return Stranded(**rows[0]) if rows else None

    async def preview_recovery(self, wanted: Recover) -> Preview:
        """Count what a recovery would send."""
        preview = read_preview(await self._look_for(wanted), await self._count_given_up_later(wanted))
        if State.PENDING_RETRY in wanted.states:
            return preview
        rows = await self._look_for(replace(wanted, states=(State.PENDING_RETRY,), leave_out=()))
        return replace(preview, waiting=read_preview(rows).total)

    async def _look_for(self, wanted: Recover) -> Sequence[Mapping[str, Any]]:
        period = wanted.merchant_id, wanted.since, wanted.until
        kinds = wanted.states, wanted.types, wanted.charge, wanted.retries, wanted.leave_out, wanted.endpoint
        return await self._rows("preview_recovery", *period, *kinds, COUNT_LIMIT + 1, MERCHANTS_SHOWN)

    async def _count_given_up_later(self, wanted: Recover) -> int:
        if State.FAILED not in wanted.states:
            return 0
        period = wanted.merchant_id, wanted.since, wanted.until
        which = wanted.types, wanted.charge, wanted.endpoint
        rows = await self._rows("count_given_up_later", *period, *which, COUNT_LIMIT + 1)
        return int(rows[0]["deliveries"])

    async def preview_skip(self, wanted: Skip) -> Preview:
        """Count what a skip would give up."""
        period = wanted.merchant_id, wanted.since, wanted.before
        which = wanted.types, wanted.charge, wanted.endpoint
        bounds = COUNT_LIMIT + 1, MERCHANTS_SHOWN
        return read_preview(await self._rows("preview_skip", *period, *which, *bounds))

    async def find_pause_of(self, event_id: UUID) -> PauseOf | None:
        """Tell whose an event is, and whether a pause holds it up; None when it is not known."""
        rows = await self._rows("find_pause_of", event_id)
        return PauseOf(**rows[0]) if rows else None

    async def stop_command(self, command_id: int, stopped_by: str) -> bool:
        """Have a mass command end after its chunk; False when there is none that goes on."""
        return bool((await self._rows("stop_command", command_id, stopped_by))[0]["is_asked"])

    async def database_time(self, ago: timedelta = timedelta(0)) -> datetime:
        """Return the database's time, or the instant that long ago."""
        instant: datetime = (await self._rows("database_time", ago))[0]["instant"]
        return instant

    async def read_secret(self, merchant_id: str, number: int = 1) -> SealedSecret | None:
        """Return the sealed secret that signs what is sent to an endpoint, the newest."""
        rows = await self._rows("read_secret", merchant_id, number)
        return SealedSecret(rows[0]["key_id"], rows[0]["secret"]) if rows else None

    async def read_sealed_secrets(self, after_lane: str, limit: int) -> list[StoredSecrets]:
        """Return the sealed secrets that sign, in order of lane."""
        return [_stored(row) for row in await self._rows("read_sealed_secrets", after_lane, limit)]

    async def count_secrets(self, key_id: str) -> tuple[int, int]:
        """Return how many secrets are stored, and how many of them a key seals."""
        row = (await self._rows("count_secrets", key_id))[0]
        return row["stored"], row["sealed"]

    async def read_secrets_of_other_keys(
        self, key_id: str, after_lane: str, limit: int
    ) -> list[StoredSecrets]:
        """Return sealed secrets of endpoints that another key seals, in order of lane."""
        rows = await self._rows("read_secrets_of_other_keys", key_id, after_lane, limit)
        return [_stored(row, row["previous_is_over"]) for row in rows]

    async def replace_sealed_secrets(
        self, changes: Sequence[tuple[StoredSecrets, StoredSecrets]], keyring: Keyring
    ) -> set[str]:
        """Store secrets sealed anew, each given as read and as it is to be; return whose were stored.

        ConfigurationError: as for insert_endpoint; all of these stay as they were.
        """
        async with self._change_of_endpoints():
            rows = await self._rows(
                "replace_sealed_secrets",
                [read.lane for read, _ in changes],
                *_columns([read for read, _ in changes]),
                *_columns([anew for _, anew in changes]),
            )
            if rows:
                await keys.note(self.connection, keyring, *_sealed_by(keyring, changes))
        return {row["merchant_id"] for row in rows}

    async def missing_partitions(self, days: int) -> list[tuple[str, date]]:
        """Return table and day of each log partition that is missing, today and the next days."""
        rows = await self._rows("missing_partitions", list(PARTITIONED), days)
        return [(row["parent"], row["day"]) for row in rows]

    async def read_lock_capacity(self) -> LockCapacity:
        """Read how many locks looks at the log take, and how many the server has."""
        [row] = await self._rows("read_lock_capacity")
        return LockCapacity(**row)

    async def read_lost(self) -> Lost | None:
        """Say what was sent and is not here since another server took over."""
        return await lost.read(self.connection)

    async def list_long_transactions(self, older_than: timedelta, limit: int) -> list[LongTransaction]:
        """Return who has held xmin back for longer than that, the longest first."""
        return [
            LongTransaction(**row) for row in await self._rows("list_long_transactions", older_than, limit)
        ]

    async def may_all_make_temporary(self) -> tuple[str, bool]:
        """Return the database's name, and whether all who connect may make temporary objects in it."""
        [row] = await self._rows("may_all_make_temporary")
        return row["database"], row["may_all"]

    async def find_unreadable(self, limit: int) -> tuple[list[UnreadableRow], int]:
        """Read the rows that lanes may wait for; return those that are damaged, and how many were read."""
        rows = await self._rows("name_waiting_rows", limit)
        found = []
        for row in rows:
            try:
                await self._rows("try_rows", [row["seq"]])
            except StatementRefused as error:
                if not error.is_row_fault:
                    raise
                if error.is_damage:
                    lane, where = row["merchant_id"], (row["seq"], row["id"], error.detail)
                    found.append(UnreadableRow(merchant_of(lane), *where, number_of(lane)))
        return found, len(rows)

    async def create_api_key(self, merchant_id: str, client_id: str, secret_hash: bytes, name: str) -> None:
        """Make a key of the Partner API; StatementRefused where the merchant's id can be none."""
        await api_keys.create(self.connection, merchant_id, client_id, secret_hash, name, self.person or "")

    async def list_own_types(self) -> list[event_types.OwnType]:
        """Return types of one's own, retired ones too."""
        return await event_types.own_types(self.connection)

    async def read_type_hold(self) -> str | None:
        """Say what keeps programs from before types of one's own from being served; None: they are."""
        return await event_types.read_hold(self.connection)

    async def list_api_keys(self, merchant_id: str | None) -> list[api_keys.ApiKeyView]:
        """Return the keys of all merchants or of one, revoked ones too."""
        return await api_keys.list_(self.connection, merchant_id)

    async def revoke_api_key(self, client_id: str) -> bool | None:
        """Revoke a key for good; False when it was revoked before, None when there is none."""
        return await api_keys.revoke(self.connection, client_id, self.person or "")

    @asynccontextmanager
    async def _change_of_endpoints(self, merchant_id: str | None = None) -> AsyncIterator[None]:
        """Change, as the person who asks, what may be configured; or what is, of this merchant."""
        with translated():
            async with self.connection.transaction():
                await self._rows("name_person", self.person or "")
                if merchant_id is not None:
                    await self._rows("lock_endpoints", merchant_id)
                yield

    async def _rows(self, name: str, *arguments: object) -> Sequence[Any]:
        with translated():
            rows: Sequence[Any] = await self.connection.fetch(self._statements[name].text, *arguments)
        return rows


def _stored(row: Any, previous_is_over: bool = False) -> StoredSecrets:
    previous = row["previous_key_id"] and SealedSecret(row["previous_key_id"], row["previous_secret"])
    current = SealedSecret(row["key_id"], row["secret"])
    return StoredSecrets(row["merchant_id"], current, previous, previous_is_over)


def _sealed_by(
    keyring: Keyring, changes: Sequence[tuple[StoredSecrets, StoredSecrets]]
) -> tuple[str, SealedSecret]:
    """Return one of the secrets that the newest key seals: each change has at least one."""
    return next(
        (anew.lane, sealed)
        for _, anew in changes
        for sealed in (anew.current, anew.previous)
        if sealed is not None and sealed.key_id == keyring.sealing_id
    )


def _columns(secrets: Sequence[StoredSecrets]) -> list[list[object]]:
    previous = [stored.previous for stored in secrets]
    return [
        [stored.current.key_id for stored in secrets],
        [stored.current.sealed for stored in secrets],
        [sealed and sealed.key_id for sealed in previous],
        [sealed and sealed.sealed for sealed in previous],
    ]


@asynccontextmanager
async def administration(dsn: str, pooled: bool = False) -> AsyncIterator[Administration]:
    """Connect for the time of one command; `pooled` through a pooler in transaction mode."""
    connection = await connect(
        dsn, application_name="webhook-dispatcher cli", command_timeout=COMMAND_TIMEOUT, pooled=pooled
    )
    try:
        yield Administration(connection)
    finally:
        try:
            with translated():
                await connection.close(timeout=COMMAND_TIMEOUT.total_seconds())
        except StorageUnavailable:
            connection.terminate()
