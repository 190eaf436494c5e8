"""A database of the command line, in memory."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from webhook_dispatcher.domain.command import Recover, Skip
from webhook_dispatcher.domain.endpoint import EndpointView
from webhook_dispatcher.domain.errors import SchemaMismatch, StatementRefused
from webhook_dispatcher.domain.signing import SealedSecret
from webhook_dispatcher.storage.administration import (
    Administration,
    AttemptView,
    ControlRequest,
    ControlView,
    DeliveryFilter,
    DeliveryView,
    StoredSecrets,
    UnreadableRow,
)
from webhook_dispatcher.storage.previews import PauseOf, Preview

NOW = datetime(2026, 11, 20, 8, 15, 30, 123456, tzinfo=UTC)


class FakeAdministration(Administration):
    """Keeps what was asked; `progress` is what a command shows, one look after the other.

    meanwhile: what others do, one thing before each time that secrets sealed anew are to be stored.
    """

    def __init__(self, progress: Sequence[ControlView] = ()) -> None:
        self.endpoints: dict[str, EndpointView] = {}
        self.sealed: dict[str, SealedSecret] = {}
        self.previous: dict[str, SealedSecret] = {}
        self.previous_until: datetime | None = None
        self.meanwhile: list[Callable[[], None]] = []
        self.deliveries: list[DeliveryView] = []
        self.attempts: list[AttemptView] = []
        self.attempts_to_come: list[AttemptView] = []
        self.preview = Preview(0, False, {}, {}, 0)
        self.previewed: list[Recover | Skip] = []
        self.pause_of: PauseOf | None = None
        self.stopped: list[tuple[int, str]] = []
        self.wanted: DeliveryFilter | None = None
        self.requests: list[ControlRequest] = []
        self.progress = list(progress)
        self.opened: list[str] = []
        self.schema_problem: SchemaMismatch | None = None
        self.missing: list[tuple[str, date]] = []
        self.pooler_is_there = False
        self.unreadable: list[UnreadableRow] = []
        self.waiting = 0
        self.refusal: StatementRefused | None = None

    @asynccontextmanager
    async def open(self, dsn: str, pooled: bool) -> AsyncIterator[Administration]:
        self.opened.append(dsn)
        yield self

    async def is_behind_pooler(self) -> bool:
        return self.pooler_is_there

    async def insert_endpoint(self, merchant_id: str, url: str, secret: SealedSecret) -> bool:
        if merchant_id in self.endpoints:
            return False
        self.endpoints[merchant_id] = EndpointView(merchant_id, url, False, NOW, NOW, NOW)
        self.sealed[merchant_id] = secret
        return True

    async def update_endpoint_url(self, merchant_id: str, url: str) -> bool:
        if merchant_id in self.endpoints:
            self.endpoints[merchant_id] = replace(self.endpoints[merchant_id], url=url)
        return merchant_id in self.endpoints

    async def rotate_secret(
        self, merchant_id: str, secret: SealedSecret, overlap: timedelta | None
    ) -> tuple[bool, datetime | None]:
        if merchant_id not in self.endpoints:
            return False, None
        self.sealed[merchant_id] = secret
        self.previous_until = NOW + overlap if overlap else None
        return True, self.previous_until

    async def delete_endpoint(self, merchant_id: str) -> bool:
        return self.endpoints.pop(merchant_id, None) is not None

    async def find_endpoint(self, merchant_id: str) -> EndpointView | None:
        return self.endpoints.get(merchant_id)

    async def list_endpoints(self) -> list[EndpointView]:
        return list(self.endpoints.values())

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

    async def find_command(self, command_id: int) -> ControlView:
        return self.progress.pop(0) if len(self.progress) > 1 else self.progress[0]

    async def database_time(self, ago: timedelta = timedelta(0)) -> datetime:
        return NOW - ago

    async def sample_sealed_secrets(self) -> list[tuple[str, SealedSecret]]:
        return [*self.sealed.items(), *self.previous.items()]

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
        self, key_id: str, after_merchant: str, most: int
    ) -> list[StoredSecrets]:
        behind = [self.stored(merchant) for merchant in sorted(self.sealed) if merchant > after_merchant]
        ids = [{stored.current.key_id, (stored.previous or stored.current).key_id} for stored in behind]
        return [stored for stored, held in zip(behind, ids, strict=True) if held != {key_id}][:most]

    async def replace_sealed_secrets(
        self, changes: Sequence[tuple[StoredSecrets, StoredSecrets]]
    ) -> set[str]:
        if self.meanwhile:
            self.meanwhile.pop(0)()
        written = set()
        for read, anew in changes:
            if read == self.stored(read.merchant_id):
                self.sealed[read.merchant_id] = anew.current
                if anew.previous is not None:
                    self.previous[read.merchant_id] = anew.previous
                written.add(read.merchant_id)
        return written

    async def missing_partitions(self, days: int) -> list[tuple[str, date]]:
        return self.missing

    async def find_unreadable(self, most: int) -> tuple[list[UnreadableRow], int]:
        if self.refusal:
            raise self.refusal
        return self.unreadable, len(self.unreadable) or self.waiting

    async def check_schema(self) -> None:
        if self.schema_problem:
            raise self.schema_problem
