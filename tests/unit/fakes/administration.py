"""A database of the command line, in memory."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from tests.unit.fakes.clock import FakeClock
from tests.unit.fakes.network import FakeSender
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.command import CommandStatus, CommandView, ListedCommand, Recover, Skip
from webhook_dispatcher.domain.delivery import AttemptView, DeliveryView
from webhook_dispatcher.domain.endpoint import EndpointChange, EndpointView
from webhook_dispatcher.domain.errors import NotHeld, SchemaMismatch, StatementRefused
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.domain.mass_command import Preview
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names
from webhook_dispatcher.domain.signing import Keyring, SealedSecret
from webhook_dispatcher.domain.status import DispatcherFacts, Lost, Stranded, SuspendedMerchant
from webhook_dispatcher.domain.verdict import Failure
from webhook_dispatcher.storage.administration import (
    AddedEndpoint,
    Administration,
    ControlRequest,
    DeliveryFilter,
    LockCapacity,
    LongTransaction,
    NewEndpoint,
    PauseOfEverything,
    Routed,
    StoredSecrets,
    UnreadableRow,
)
from webhook_dispatcher.storage.api.event_types import OwnType
from webhook_dispatcher.storage.installation import Backlog, Installation
from webhook_dispatcher.storage.keys import WrongKey, refusal
from webhook_dispatcher.storage.previews import PauseOf

NOW = datetime(2026, 11, 20, 8, 15, 30, 123456, tzinfo=UTC)
KEYS = "k1:a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
ENVIRON = {
    "WEBHOOK_DATABASE_URL": "postgresql://u:sesame@db/charges",
    "WEBHOOK_SECRET_KEYS": KEYS,
    "WEBHOOK_MAX_LANES": "1",
}


class FakeAdministration(Administration):
    """Keeps what was asked; `progress` is what a command shows, one look after the other.

    not_held: why deliveries are not held, one look after the other.
    meanwhile: what others do, one thing before each time that secrets sealed anew are to be stored.
    checks: what is kept of keys; a check is compared, and otherwise the secrets tell whether a key is right.
    """

    def __init__(self, progress: Sequence[CommandView] = ()) -> None:
        self.endpoints: dict[str, EndpointView] = {}
        self.sealed: dict[str, SealedSecret] = {}
        self.previous: dict[str, SealedSecret] = {}
        self.previous_until: datetime | None = None
        self.checks: dict[str, bytes] = {}
        self.installation = Installation("prod-eu1", 7, 7)
        self.owed = Backlog(0, 0, 0, None)
        self.meanwhile: list[Callable[[], None]] = []
        self.deliveries: list[DeliveryView] = []
        self.attempts: list[AttemptView] = []
        self.strangers: set[str] = set()
        self.own_types: list[OwnType] = []
        self.type_hold: str | None = None
        self.attempts_to_come: list[AttemptView] = []
        self.preview = Preview(0, False, {}, {}, 0)
        self.previewed: list[Recover | Skip] = []
        self.history: list[EndpointChange] = []
        self.stranded: Stranded | None = None
        self.dispatchers: list[DispatcherFacts] = []
        self.pause_of: PauseOf | None = None
        self.stopped: list[tuple[int, str]] = []
        self.wanted: DeliveryFilter | None = None
        self.requests: list[ControlRequest] = []
        self.progress = list(progress)
        self.commands: list[ListedCommand] = []
        self.wanted_commands: tuple[str | None, CommandStatus | None, int] | None = None
        self.withdrawn: list[tuple[int, str]] = []
        self.can_withdraw = True
        self.pause: PauseOfEverything | None = None
        self.suspended: list[SuspendedMerchant] = []
        self.lost: Lost | None = None
        self.long_transactions: list[LongTransaction] = []
        self.may_all = False
        self.suspended_in_all = 0
        self.opened: list[str] = []
        self.schema_problem: SchemaMismatch | None = None
        self.names = DEFAULT_NAMES
        self.names_set: list[object] = []
        self.older: list[str] = []
        self.lock_capacity = LockCapacity(8, 64, 100)
        self.missing: list[tuple[str, date]] = []
        self.pooler_is_there = False
        self.unreadable: list[UnreadableRow] = []
        self.waiting = 0
        self.refusal: StatementRefused | None = None
        self.not_held: list[NotHeld] = []
        self.times_sending = 0
        self.routed: list[Routed] = []

    @asynccontextmanager
    async def open(self, dsn: str, pooled: bool) -> AsyncIterator[Administration]:
        self.opened.append(dsn)
        yield self

    async def is_behind_pooler(self) -> bool:
        return self.pooler_is_there

    async def read_installation(self) -> Installation:
        return self.installation

    async def read_names(self) -> Names:
        return self.names

    async def set_names(
        self, prefix: str | None, user_agent: str | None, signatures: Sequence[str] | None
    ) -> Sequence[str]:
        self.names_set.append((prefix, user_agent, signatures))
        return self.older

    async def read_secret(self, merchant_id: str, number: int = 1) -> SealedSecret | None:
        return self.sealed.get(_key(merchant_id, number))

    async def read_owed(self) -> Backlog:
        return self.owed

    async def adopt_installation(self, name: str, adopted_by: str) -> None:
        self.installation = Installation(name, self.installation.server, self.installation.server)

    async def find_wrong_keys(self, keyring: Keyring) -> tuple[WrongKey, ...]:
        return tuple(WrongKey(key_id) for key_id in keyring.key_ids if self._is_wrong(keyring, key_id))

    def _is_wrong(self, keyring: Keyring, key_id: str) -> bool:
        if key_id in self.checks:
            return self.checks[key_id] != keyring.check_value(key_id)
        all_sealed = [*self.sealed.items(), *self.previous.items()]
        fits = [keyring.fits(merchant, sealed) for merchant, sealed in all_sealed if sealed.key_id == key_id]
        return bool(fits) and not any(fits)

    async def verify_keys(self, keyring: Keyring) -> None:
        if wrong := await self.find_wrong_keys(keyring):
            raise refusal(wrong)

    def _note(self, keyring: Keyring, key_id: str) -> None:
        if self.checks.setdefault(key_id, value := keyring.check_value(key_id)) != value:
            raise refusal([WrongKey(key_id)])

    async def insert_endpoint(
        self, merchant_id: str, url: str, secret: SealedSecret, keyring: Keyring
    ) -> bool:
        if merchant_id in self.endpoints:
            return False
        self._note(keyring, secret.key_id)
        self.endpoints[merchant_id] = EndpointView(merchant_id, url, False, NOW, NOW, NOW)
        self.sealed[merchant_id] = secret
        return True

    async def add_endpoint(
        self, merchant_id: str, wanted: NewEndpoint, keyring: Keyring
    ) -> AddedEndpoint | None:
        if self.times_sending:
            self.times_sending -= 1
            return None
        self._note(keyring, wanted.secret.key_id)
        number = 1 + sum(endpoint.merchant_id == merchant_id for endpoint in self.endpoints.values())
        self.sealed[_key(merchant_id, number)] = wanted.secret
        self.endpoints[_key(merchant_id, number)] = EndpointView(
            merchant_id,
            wanted.url,
            False,
            NOW,
            NOW,
            NOW,
            types=wanted.types,
            at_once=wanted.at_once,
            number=number,
            name=wanted.name,
        )
        return AddedEndpoint(number, UUID(int=number))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield

    async def update_endpoint_url(self, merchant_id: str, url: str, number: int = 1) -> bool:
        key = _key(merchant_id, number)
        if key in self.endpoints:
            self.endpoints[key] = replace(self.endpoints[key], url=url)
        return key in self.endpoints

    async def set_types(self, merchant_id: str, types: Sequence[str] | None, number: int = 1) -> bool:
        return await self.set_types_of({merchant_id: types}, number) == 1

    async def set_types_of(self, wanted: Mapping[str, Sequence[str] | None], number: int = 1) -> int:
        if self.refusal is not None:
            raise self.refusal
        changed = 0
        for merchant_id, types in wanted.items():
            key = _key(merchant_id, number)
            if (endpoint := self.endpoints.get(key)) is not None and endpoint.types != types:
                self.endpoints[key] = replace(endpoint, types=types)
                changed += 1
        return changed

    async def set_order(self, merchant_id: str, at_once: int | None, number: int = 1) -> bool:
        key = _key(merchant_id, number)
        if (endpoint := self.endpoints.get(key)) is None or endpoint.at_once == at_once:
            return False
        self.endpoints[key] = replace(endpoint, at_once=at_once)
        return True

    async def rotate_secret(
        self,
        merchant_id: str,
        secret: SealedSecret,
        overlap: timedelta | None,
        keyring: Keyring,
        hold: bool = False,
        number: int = 1,
    ) -> tuple[bool, datetime | None]:
        if _key(merchant_id, number) not in self.endpoints:
            return False, None
        if hold and self.not_held:
            raise self.not_held.pop(0)
        self._note(keyring, secret.key_id)
        self.sealed[_key(merchant_id, number)] = secret
        self.previous_until = NOW + overlap if overlap else None
        return True, self.previous_until

    async def delete_endpoint(self, merchant_id: str, number: int = 1) -> bool:
        return self.endpoints.pop(_key(merchant_id, number), None) is not None

    async def count_owed(self, merchant_id: str, number: int, most: int) -> int:
        return self.preview.total

    async def endpoint_history(self, merchant_id: str, limit: int) -> list[EndpointChange]:
        return self.history[:limit]

    async def list_endpoints(self, merchant_id: str | None = None) -> list[EndpointView]:
        return [each for each in self.endpoints.values() if merchant_id in (None, each.merchant_id)]

    async def list_routed(self) -> list[Routed]:
        return self.routed

    async def list_own_types(self) -> list[OwnType]:
        return self.own_types

    async def read_type_hold(self) -> str | None:
        return self.type_hold

    async def is_known_merchant(self, merchant_id: str) -> bool:
        return merchant_id not in self.strangers

    async def list_with_several(self) -> set[str]:
        return set()

    async def list_deliveries(self, wanted: DeliveryFilter) -> list[DeliveryView]:
        self.wanted = wanted
        return self.deliveries

    async def list_attempts(self, event_id: UUID) -> list[AttemptView]:
        if self.requests and self.attempts_to_come:
            self.attempts.append(self.attempts_to_come.pop(0))
        return list(self.attempts)

    async def preview_recovery(self, wanted: Recover) -> Preview:
        self.previewed.append(wanted)
        return self.preview

    async def preview_skip(self, wanted: Skip) -> Preview:
        self.previewed.append(wanted)
        return self.preview

    async def find_pause_of(self, event_id: UUID) -> PauseOf | None:
        return self.pause_of

    async def stop_command(self, command_id: int, stopped_by: str) -> bool:
        self.stopped.append((command_id, stopped_by))
        return command_id == 12

    async def ask(self, request: ControlRequest) -> int:
        self.requests.append(request)
        return 12

    async def find_command(self, command_id: int) -> CommandView:
        found = self.progress.pop(0) if len(self.progress) > 1 else self.progress[0]
        return replace(found, status=str(found.status))  # as it is read from the database

    async def list_commands(
        self, merchant_id: str | None, status: CommandStatus | None, most: int
    ) -> list[ListedCommand]:
        self.wanted_commands = merchant_id, status, most
        return self.commands

    async def withdraw_command(self, command_id: int, withdrawn_by: str) -> bool:
        self.withdrawn.append((command_id, withdrawn_by))
        return self.can_withdraw

    async def read_pause_of_everything(self) -> PauseOfEverything | None:
        return self.pause

    async def list_suspended(self, limit: int) -> tuple[list[SuspendedMerchant], int]:
        return self.suspended[:limit], max(self.suspended_in_all, len(self.suspended))

    async def list_dispatchers(self) -> list[DispatcherFacts]:
        return self.dispatchers

    async def find_stranded(self) -> Stranded | None:
        return self.stranded

    async def database_time(self, ago: timedelta = timedelta(0)) -> datetime:
        return NOW - ago

    async def read_sealed_secrets(self, after_lane: str, limit: int) -> list[StoredSecrets]:
        return [self.stored(merchant) for merchant in sorted(self.sealed) if merchant > after_lane][:limit]

    async def count_secrets(self, key_id: str) -> tuple[int, int]:
        stored = [*self.sealed.values(), *self.previous.values()]
        return len(stored), sum(sealed.key_id == key_id for sealed in stored)

    def stored(self, merchant_id: str) -> StoredSecrets:
        is_over = self.previous_until is not None and self.previous_until <= NOW
        previous = self.previous.get(merchant_id)
        return StoredSecrets(
            merchant_id, self.sealed[merchant_id], previous, is_over and previous is not None
        )

    async def read_secrets_of_other_keys(
        self, key_id: str, after_lane: str, most: int
    ) -> list[StoredSecrets]:
        behind = [self.stored(merchant) for merchant in sorted(self.sealed) if merchant > after_lane]
        ids = [{stored.current.key_id, (stored.previous or stored.current).key_id} for stored in behind]
        return [stored for stored, held in zip(behind, ids, strict=True) if held != {key_id}][:most]

    async def replace_sealed_secrets(
        self, changes: Sequence[tuple[StoredSecrets, StoredSecrets]], keyring: Keyring
    ) -> set[str]:
        if self.meanwhile:
            self.meanwhile.pop(0)()
        written = set()
        for read, anew in changes:
            if read == self.stored(read.lane):
                self.sealed[read.lane] = anew.current
                if anew.previous is not None:
                    self.previous[read.lane] = anew.previous
                written.add(read.lane)
        if written:
            self._note(keyring, keyring.sealing_id)
        return written

    async def missing_partitions(self, days: int) -> list[tuple[str, date]]:
        return self.missing

    async def read_lock_capacity(self) -> LockCapacity:
        return self.lock_capacity

    async def read_lost(self) -> Lost | None:
        return self.lost

    async def list_long_transactions(self, older_than: timedelta, limit: int) -> list[LongTransaction]:
        return self.long_transactions

    async def may_all_make_temporary(self) -> tuple[str, bool]:
        return "charges", self.may_all

    async def find_unreadable(self, most: int) -> tuple[list[UnreadableRow], int]:
        if self.refusal:
            raise self.refusal
        return self.unreadable, len(self.unreadable) or self.waiting

    async def check_schema(self) -> None:
        if self.schema_problem:
            raise self.schema_problem


def _key(merchant_id: str, number: int) -> str:
    return merchant_id if number == 1 else lane_named(merchant_id, number)


def session(database: FakeAdministration, *answers: Failure, **environ: str) -> CliContext:
    """Return the command line's session at a database, by ENVIRON and these settings.

    Time passes only while someone waits.
    answers: what a request that `check` makes comes to.
    """
    clock = FakeClock()
    clock.moment = 0.0

    async def pause(seconds: float) -> None:
        clock.advance(seconds)

    return CliContext(
        {**ENVIRON, **environ},
        database.open,
        pause,
        clock.elapsed,
        NOW.timestamp,
        make_sender=lambda settings, guard: nullcontext(FakeSender(*answers)),
    )
