"""Partitions, gauges and the schema: what one step of each does."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.unit.builders import NOW
from tests.unit.fakes.clock import FakeClock
from tests.unit.fakes.database import FakeDatabase
from tests.unit.fakes.storage import FakeClaims
from tests.unit.loop_turns import quiet
from webhook_dispatcher.dispatch import sweep as sweeping
from webhook_dispatcher.dispatch.health.own_faults import OwnFaults
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.sweep import ClockCorrection, Mending, Strays
from webhook_dispatcher.dispatch.upkeep import (
    CONTROL_KEPT,
    DAYS_AHEAD,
    SEARCH_ANEW,
    Gauges,
    check_schema,
    confirm_sealing_key,
    keep_logs,
)
from webhook_dispatcher.domain.claim import HandedOn, Stray
from webhook_dispatcher.domain.clock import DatabaseClock
from webhook_dispatcher.domain.errors import SchemaMismatch, StorageUnavailable
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.ports import Corrected, Dropped, LongestWaits, OldestSearch, Owed
from webhook_dispatcher.domain.signing import Keyring
from webhook_dispatcher.telemetry.metrics import Metrics

RETENTION = timedelta(days=14)
HOUR = timedelta(hours=1)


class FakeUpkeep:
    """Notes what it is asked to do.

    made: partitions that were missing. needed: ids of keys in use. expired: access tokens that did.
    """

    def __init__(self) -> None:
        self.done: list[tuple[str, object]] = []
        self.made = 0
        self.expired = 0
        self.owed = Owed(0, 0, 0.0, 0.0, OldestSearch())
        self.needed = {"k1"}
        self.wrong: frozenset[str] = frozenset()
        self.mismatch: SchemaMismatch | None = None
        self.names = Names("Acme-")
        self.is_away = False
        self.is_published = True
        self.pages: list[Corrected] = []

    async def check_schema(self) -> None:
        if self.mismatch is not None:
            raise self.mismatch

    async def read_names(self) -> Names:
        return self.names

    async def make_partitions(self, days_ahead: int) -> int:
        self.done.append(("make", days_ahead))
        return self.made

    async def drop_partitions(self, keep: timedelta) -> Dropped | None:
        self.done.append(("drop", keep))
        return Dropped(NOW.date(), 2, 70) if self.made else None

    async def note_milestone(self) -> None:
        self.done.append(("note", None))

    async def purge_control(self, keep: timedelta) -> None:
        self.done.append(("purge", keep))

    async def forget_noted(self, keep: timedelta) -> None:
        self.done.append(("forget noted", keep))

    async def purge_unreported(self, keep: timedelta) -> None:
        self.done.append(("purge unreported", keep))

    async def clear_api_rows(self) -> int:
        self.done.append(("clear", None))
        return self.expired

    async def clear_console_rows(self) -> int:
        self.done.append(("clear console", None))
        return self.expired

    async def correct_lanes(self, after_lane: str, page_size: int, waits: LongestWaits) -> Corrected:
        self.done.append(("correct", after_lane))
        return self.pages.pop(0)

    async def correct_others(self, waits: LongestWaits) -> None:
        self.done.append(("correct others", None))

    async def measure(self, count_limit: int, search: OldestSearch) -> Owed:
        self.done.append(("measure", search))
        return self.owed

    async def read_unknown_keys(self, held: tuple[str, ...]) -> frozenset[str]:
        if self.is_away:
            raise StorageUnavailable("away")
        return frozenset(self.needed - set(held))

    async def find_wrong_keys(self, keyring: Keyring) -> frozenset[str]:
        return self.wrong

    async def confirm_sealing_key(self, keyring: Keyring) -> bool:
        self.done.append(("confirm", keyring.sealing_id))
        return self.is_published


def gauges(upkeep: FakeUpkeep) -> tuple[Gauges, Metrics]:
    metrics = Metrics("test")
    return Gauges(upkeep, Keyring({"k1": b"k" * 32}), metrics), metrics


def shown(metrics: Metrics, name: str) -> float | None:
    return metrics.registry.get_sample_value(f"webhook_{name}")


@pytest.fixture
def upkeep() -> FakeUpkeep:
    return FakeUpkeep()


async def test_partitions_are_made_and_dropped_and_old_commands_forgotten(upkeep: FakeUpkeep) -> None:
    await keep_logs(upkeep, RETENTION, lambda: "")
    assert upkeep.done == [
        *[("make", DAYS_AHEAD), ("note", None), ("drop", RETENTION)],
        *[("purge", CONTROL_KEPT), ("purge unreported", RETENTION), ("forget noted", RETENTION)],
        *[("clear", None), ("clear console", None)],
    ]


@pytest.mark.parametrize("made", [0, 2])
async def test_partitions_that_were_made_or_dropped_are_logged(upkeep: FakeUpkeep, made: int) -> None:
    upkeep.made = made
    with capture_logs() as logs:
        await keep_logs(upkeep, RETENTION, lambda: "")
    lines: list[dict[str, object]] = [
        {"event": "partitions.made", "count": 2, "log_level": "info"},
        {"event": "partitions.dropped", "day": "2026-11-20", "count": 2, "rows": 70, "log_level": "info"},
    ]
    assert logs == (lines if made else [])


async def test_nothing_is_forgotten_while_a_clock_is_in_doubt(upkeep: FakeUpkeep) -> None:
    with capture_logs() as logs:
        await keep_logs(upkeep, RETENTION, lambda: "it was set")
    assert upkeep.done == [("make", DAYS_AHEAD)]
    assert logs == [{"event": "retention.waits", "reason": "it was set", "log_level": "warning"}]


@pytest.mark.parametrize(
    ("owed", "values"),
    [
        (Owed(3, 2, 1.5, 0.5, OldestSearch(), 4, 5, 6), [3, 2, 1.5, 0.5, 4, 5, 6]),
        pytest.param(
            Owed(1, 0, -30.0, 0.0, OldestSearch()), [1, 0, 0, 0, 0, 0, 0], id="of the future: of no age"
        ),
    ],
)
async def test_what_is_owed_is_shown(upkeep: FakeUpkeep, owed: Owed, values: list[float]) -> None:
    upkeep.owed = owed
    measuring, metrics = gauges(upkeep)
    await measuring.step()
    names = ["pending", "pending_retry", "oldest_pending_age_seconds", "oldest_due_retry_age_seconds"]
    names += ["suspended_merchants", "failing_merchants", "lost_events"]
    assert [shown(metrics, name) for name in names] == values


async def test_the_search_for_the_oldest_goes_on_and_takes_low_numbers_from_the_beginning_at_times() -> None:
    upkeep = FakeUpkeep()
    measuring, _ = gauges(upkeep)
    upkeep.owed = Owed(1, 0, 0.0, 0.0, OldestSearch(7, 9, "m"))
    for _ in range(SEARCH_ANEW + 1):
        await measuring.step()
    assert upkeep.done == [
        ("measure", OldestSearch()),
        *[("measure", OldestSearch(7, 9, "m"))] * (SEARCH_ANEW - 1),
        ("measure", OldestSearch(0, 9, "m")),
    ]


@pytest.mark.parametrize(
    ("given", "event", "named"),
    [
        ({"needed": {"k1", "k2"}}, "key.missing", (frozenset({"k2"}), frozenset())),
        ({"wrong": frozenset({"k1"})}, "key.refused", (frozenset(), frozenset({"k1"}))),
    ],
)
async def test_a_key_that_is_missing_or_wrong_is_named_once_until_it_is_right(
    upkeep: FakeUpkeep, given: dict[str, Any], event: str, named: tuple[frozenset[str], ...]
) -> None:
    vars(upkeep).update(given)
    measuring, _ = gauges(upkeep)
    with capture_logs() as logs:
        await measuring.step()
        await measuring.step()
    assert [(line["event"], frozenset({line["key_id"]})) for line in logs] == [(event, named[0] | named[1])]
    assert (measuring.missing_keys, measuring.wrong_keys) == named
    upkeep.needed, upkeep.wrong = {"k1"}, frozenset()
    await measuring.step()
    assert (measuring.missing_keys, measuring.wrong_keys) == (frozenset(), frozenset())


async def test_what_was_measured_is_shown_though_keys_could_not_be_looked_at(upkeep: FakeUpkeep) -> None:
    upkeep.owed, upkeep.is_away = Owed(3, 2, 1.5, 0.5, OldestSearch()), True
    measuring, metrics = gauges(upkeep)
    with pytest.raises(StorageUnavailable):
        await measuring.step()
    assert shown(metrics, "pending") == 3


async def test_a_schema_that_no_longer_serves_us_is_told_and_names_while_it_does() -> None:
    upkeep, told, names = FakeUpkeep(), list[SchemaMismatch](), list[Names]()
    await check_schema(upkeep, told.append, names.append)
    assert (told, names) == ([], [upkeep.names])
    upkeep.mismatch = SchemaMismatch("too new")
    await check_schema(upkeep, told.append, names.append)
    assert (told, names) == ([upkeep.mismatch], [upkeep.names])


class Lanes(FakeClaims):
    """Five lanes to be probed."""

    def __init__(self) -> None:
        super().__init__(FakeDatabase())
        self.asked: list[str] = []

    async def mend_retries(self, after_lane: str, probes: int) -> list[tuple[str, bool]]:
        self.asked.append(after_lane)
        return [(name, False) for name in "abcde" if name > after_lane][:probes]


async def test_lanes_are_mended_page_by_page_and_round_after_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_PAGE", 2)
    lanes = Lanes()
    mending = Mending(lanes)
    for _ in range(5):
        await mending.step()
    assert lanes.asked == ["", "b", "d", "", "b"]


async def test_merchants_that_are_routed_in_vain_get_their_own_lanes_back() -> None:
    lanes = Lanes()
    lanes.alone = ["m", "n"]
    await Mending(lanes).step()
    assert lanes.alone == []


async def test_what_number_one_left_behind_moves_step_by_step_with_rests_and_fewer_after_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeping, "MAX_STRAYS", 4)
    claims, stop = FakeClaims(FakeDatabase()), Stop()
    claims.strays = [Stray("m", seq, UUID(int=seq)) for seq in range(1, 10)]
    claims.fates = dict.fromkeys(range(1, 9), HandedOn.MOVED) | {9: HandedOn.WAITS}
    claims.database.faults["hand_on"].extend([None, StorageUnavailable("too slow")])
    moving = Strays(claims, Instruments.of(claims.database.clock, Metrics("test")), stop)
    # A step that took a second is followed by four of rest, unless it is to stop.
    claims.after_find = lambda: claims.database.clock.advance(1.0)
    stepping = asyncio.create_task(moving.step())
    await quiet()
    assert (claims.handed_on, stepping.done()) == ([[1, 2, 3, 4]], False)
    stop.set()
    assert await stepping
    with pytest.raises(StorageUnavailable):
        await moving.step()
    assert [await moving.step(), await moving.step()] == [True, True]
    with capture_logs() as logs:
        assert await moving.step(), "one is locked"
    assert claims.handed_on[1:] == [[5, 6, 7, 8], [5, 6], [7, 8, 9], [9]]
    assert logs == [{"event": "retries.handed_on", "log_level": "info", "count": 8}]
    claims.strays.clear()
    assert not await moving.step()


async def test_a_clock_that_was_set_is_corrected_for_in_two_rounds_once_clocks_agree() -> None:
    clock, upkeep, waits = FakeClock(), FakeUpkeep(), LongestWaits(HOUR, HOUR, (HOUR,), HOUR, HOUR)
    database_clock = DatabaseClock(clock)
    own_faults = OwnFaults(clock, database_clock, Metrics("test"))
    correction = ClockCorrection(upkeep, database_clock, own_faults, waits)

    def read(ahead: timedelta) -> None:
        now = datetime.fromtimestamp(clock.unix(), UTC)
        database_clock.synchronise(now + ahead, clock.elapsed())

    for ahead in (timedelta(), HOUR):
        read(ahead)
        assert not await correction.step()
    assert upkeep.done == []
    read(timedelta())
    upkeep.pages = [Corrected("m", 1, 2), Corrected(None, 0, 0), Corrected(None, 0, 1)]
    with capture_logs() as logs:
        assert [await correction.step() for _ in range(5)] == [True, False, False, False, False]
    round_of_all: list[tuple[str, object]] = [("correct others", None), ("correct", "")]
    assert upkeep.done == [*round_of_all, ("correct", "m"), *round_of_all]
    assert [(line["lanes"], line["retries"]) for line in logs if "lanes" in line] == [(1, 2), (0, 1)]


async def test_a_public_half_that_cannot_be_published_is_logged_each_time() -> None:
    upkeep, keyring = FakeUpkeep(), Keyring({"k1": b"k" * 32})
    with capture_logs() as logs:
        await confirm_sealing_key(upkeep, keyring)
        upkeep.is_published = False
        await confirm_sealing_key(upkeep, keyring)
    assert upkeep.done == [("confirm", "k1")] * 2
    assert [(line["event"], line["key_id"]) for line in logs] == [("sealing_key.refused", "k1")]
