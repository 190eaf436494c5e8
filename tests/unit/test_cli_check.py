"""`check`: everything that is wrong, each with how to mend it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date, timedelta
from uuid import UUID

import pytest

from tests.unit.fakes.administration import ENVIRON, KEYS, NOW, FakeAdministration, session
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.check import MAX_NAMED, MAX_READ, CheckResult, examine
from webhook_dispatcher.cli.event_types import HELD
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.errors import (
    DispatcherError,
    SchemaMismatch,
    StatementRefused,
    StorageUnavailable,
)
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.signing import Keyring, Secret
from webhook_dispatcher.domain.status import DispatcherFacts, Lost, Stranded, SuspendedMerchant
from webhook_dispatcher.domain.verdict import Failure, Outcome
from webhook_dispatcher.storage.administration import (
    Administration,
    LockCapacity,
    LongTransaction,
    PauseOfEverything,
    UnreadableRow,
)
from webhook_dispatcher.storage.pooler import PoolerInBetween

EVENT = UUID("0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11")
HOUR = timedelta(hours=1)
NO_BASE64 = Secret("whsec_0123456789abcdef-_01")
OTHER_KEY = "b2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="


async def configured(url: str = "https://merchant.com/") -> FakeAdministration:
    database = FakeAdministration()
    keyring = Keyring.parse(KEYS)
    sealed = keyring.seal("m1", Secret("whsec_0123456789abcdef0123"))
    await database.insert_endpoint("m1", url, sealed, keyring)
    return database


def problems(results: list[CheckResult]) -> dict[str, tuple[str, int]]:
    return {result.check: (result.problem, result.code) for result in results if result.problem}


async def test_who_has_a_filter_is_named_for_whose_sake_older_programs_are_refused() -> None:
    database = await configured()
    await database.set_types("m1", ["charge.failed"])
    [told] = [each.note for each in await examine(session(database)) if each.check == "filters"]
    assert told == "ok; of m1; programs for schema 22 are refused"


async def test_whose_order_is_by_charge_is_named_for_whose_sake_older_programs_are_refused() -> None:
    database = await configured()
    await database.set_order("m1", 8)
    [told] = [each.note for each in await examine(session(database)) if each.check == "order"]
    assert told == "ok; by charge of m1, for whose sake older programs are refused"


async def test_nothing_is_wrong() -> None:
    results = await examine(session(await configured()))
    assert problems(results) == {}
    assert [result.check for result in results] == [
        *("configuration", "open files", "crash", "tls", "database", "clock", "schema", "installation"),
        *("names", "event types", "keys", "partitions", "lost", "dispatchers", "transactions", "temporary"),
        *("rows", "platform", "filters", "order", "outbound", "endpoints"),
    ]


async def test_a_name_server_or_proxy_that_does_not_answer_is_a_problem() -> None:
    database = await configured()
    ours = Failure(Outcome.DNS, "no name server answers", is_ours=True)
    assert problems(await examine(session(database, ours))) == {"outbound": ("no name server answers", 1)}
    assert problems(await examine(session(database, replace(ours, is_ours=False)))) == {}, "it answered"
    database = await configured("https://203.0.114.7/")
    assert problems(await examine(session(database, ours))) == {}, "no name is looked up"


async def test_that_nobody_is_told_of_failures_is_worth_a_note() -> None:
    database = await configured()
    found = {result.check: result for result in await examine(session(database))}
    assert found["platform"].note == "$platform has no endpoint, so it is told of no failure"
    await database.insert_endpoint(
        "$platform", "https://ops.example/", database.sealed["m1"], Keyring.parse(KEYS)
    )
    found = {result.check: result for result in await examine(session(database))}
    assert (found["platform"].note, found["platform"].problem) == (None, None)


async def test_what_a_crash_costs_is_noted() -> None:
    (told,) = [result for result in await examine(session(await configured())) if result.check == "crash"]
    assert told.note == "merchants of a process that crashes wait for its lease, PT30S"
    assert "WEBHOOK_INSTANCE_DIR" in (told.mend or "")
    with_folder = session(await configured(), WEBHOOK_INSTANCE_DIR="/run/w")
    (told,) = [result for result in await examine(with_folder) if result.check == "crash"]
    assert (told.note, told.mend) == ("ok; who comes next releases at once, by /run/w", None)


@pytest.mark.parametrize("is_recent", [True, False])
async def test_what_a_server_that_took_over_lacks_is_a_problem_for_a_day(is_recent: bool) -> None:
    database = await configured()
    database.lost = Lost(3, 2, 70, 72, NOW, NOW, NOW, is_recent)
    (told,) = [result for result in await examine(session(database)) if result.check == "lost"]
    said = told.problem if is_recent else told.note
    assert said is not None
    assert said.startswith(
        "3 events of 2 merchants were sent and are not here since another server took over"
    )
    assert "numbers 70 to 72" in said
    assert '"WebhookEventsLost" in the documentation' in (told.mend or "")


@pytest.mark.parametrize(
    ("change", "note", "mend"),
    [
        ({}, None, None),
        ({"beat_at": NOW - HOUR},
         "no dispatcher is alive: nothing is delivered, unless one is just starting",
         "start one: webhook-dispatcher run"),
        ({"is_ready": False, "reasons": ["no key"]}, "host/1/a is not ready: no key",
         '"Runbooks" in the documentation says what to do about each reason'),
        ({"faults": ["clock"]}, "host/1/a has a fault of its own: clock",
         "look at that machine: its network, clock and open files"),
    ],
)  # fmt: skip
async def test_dispatchers_that_do_not_work_are_noted(
    change: dict[str, object], note: str | None, mend: str | None
) -> None:
    database = await configured()
    works = DispatcherFacts("host/1/a", "1.2.3", NOW - HOUR, NOW, True)
    database.dispatchers = [replace(works, **change)]  # type: ignore[arg-type]
    results = await examine(session(database))
    assert [(each.note, each.mend) for each in results if each.check == "dispatchers"] == [(note, mend)]
    assert problems(results) == {}


@pytest.mark.parametrize(
    ("off", "said"), [(31, "31 s ahead of"), (-31, "31 s behind"), (29, None), (-29, None)]
)
async def test_a_clock_that_is_off_is_found(off: int, said: str | None) -> None:
    database = await configured()
    results = await examine(replace(session(database), unix_time=lambda: NOW.timestamp() + off))
    assert problems(results).keys() == ({"clock"} if said else set())
    assert said is None or said in problems(results)["clock"][0]


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (
            LongTransaction(7, "charges", "etl", "psql", "idle in transaction", NOW, delays_feed=True),
            "pid 7, etl (psql) in charges, idle in transaction, open since 2026-11-20T08:15:30.123Z: "
            "what was deleted is not cleared away, and new events are not read in order",
        ),
        (
            LongTransaction(None, "other", "etl", "gid", None, NOW, delays_feed=False),
            "etl (gid) in other, open since 2026-11-20T08:15:30.123Z: what was deleted is not cleared away",
        ),
    ],
)
async def test_who_holds_xmin_back_is_named(found: LongTransaction, note: str) -> None:
    database = await configured()
    database.long_transactions = [found]
    (result,) = [each for each in await examine(session(database)) if each.check == "transactions"]
    assert (result.note, result.problem) == (note, None)


async def test_the_one_statement_against_temporary_functions_is_named() -> None:
    database = await configured()
    database.may_all = True
    (result,) = [each for each in await examine(session(database)) if each.check == "temporary"]
    assert result.problem is None
    assert (result.mend or "").startswith('REVOKE TEMPORARY ON DATABASE "charges" FROM PUBLIC')


async def test_types_of_ones_own_say_what_older_programs_are_refused_for() -> None:
    database = await configured()
    notes = {}
    for database.type_hold in (None, *HELD):
        [found] = [each for each in await examine(session(database)) if each.check == "event types"]
        notes[database.type_hold] = found.note
    assert notes == {None: None} | {hold: f"ok; {said}" for hold, said in HELD.items()}


async def test_a_missing_key_is_found() -> None:
    results = await examine(session(await configured(), WEBHOOK_SECRET_KEYS=KEYS.replace("k1", "k2")))
    problem, code = problems(results)["keys"]
    assert "'k1': not among WEBHOOK_SECRET_KEYS" in problem
    assert code == 1


@pytest.mark.parametrize("has_check", [True, False])
async def test_a_wrong_key_under_a_right_id_is_found_with_a_mend(has_check: bool) -> None:
    database = await configured()
    if not has_check:
        database.checks.clear()
    results = await examine(session(database, WEBHOOK_SECRET_KEYS=f"k1:{OTHER_KEY}"))
    [result] = [result for result in results if result.problem]
    assert (result.check, result.code) == ("keys", 2)
    assert result.problem is not None
    assert "WEBHOOK_SECRET_KEYS: 'k1' is not the key" in result.problem
    assert result.mend == "give each id the key that it was first used with; a new key takes a new id"


async def test_single_secrets_that_do_not_open_are_named_with_their_merchants() -> None:
    database = await configured()
    whole = database.sealed["m1"]
    for number in range(MAX_NAMED + 2):
        database.sealed[f"n{number:02}"] = whole  # moved from another merchant: it does not open
    results = [result for result in await examine(session(database)) if result.problem]
    assert {result.check for result in results} == {"secret"}
    assert results[0].problem is not None
    assert results[0].problem.startswith("n00: encryption key 'k1': does not open the stored secret")
    assert (
        results[0].mend == "webhook-dispatcher endpoint rotate-secret n00 --hold; until then its lane waits"
    )
    assert [result.problem for result in results[MAX_NAMED:]] == ["and 2 more secrets"]


async def test_no_keys_at_all_is_found() -> None:
    results = await examine(session(await configured(), WEBHOOK_SECRET_KEYS=""))
    assert problems(results).keys() == {"configuration", "keys"}
    assert problems(results)["configuration"][1] == 2
    assert [result.mend for result in results if result.check == "configuration"][-1] == (
        'give id:base64key, the key being 32 random bytes (for example "k1:$(openssl rand -base64 32)")'
    )


async def test_a_schema_of_another_version_is_found_and_calls_for_exit_3() -> None:
    database = await configured()
    for remedy in ("run `webhook-dispatcher migrate`", "install a newer webhook-dispatcher"):
        database.schema_problem = SchemaMismatch("the schema is of version 0", remedy)
        results = await examine(session(database))
        assert problems(results) == {"schema": ("the schema is of version 0", 3)}
        assert [result.mend for result in results if result.check == "schema"] == [remedy]


@pytest.mark.parametrize(
    ("of_a_transaction", "note"),
    [
        (32, None),
        (
            31,
            "all there; a look at all days takes 320 locks, so set max_locks_per_transaction to 32 "
            "(it is 31) or shorten WEBHOOK_RETENTION",
        ),
    ],
)
async def test_a_log_of_more_days_than_locks_is_noted(of_a_transaction: int, note: str | None) -> None:
    database = await configured()
    database.lock_capacity = LockCapacity(8, of_a_transaction, 100)
    [told] = [result for result in await examine(session(database)) if result.check == "partitions"]
    assert (told.problem, told.note) == (None, note)


async def test_rows_that_cannot_be_read_are_named() -> None:
    database = await configured()
    event_id = UUID(int=7)
    database.unreadable = [UnreadableRow("m1", 7, event_id, "missing chunk number 0")]
    [result] = [result for result in await examine(session(database)) if result.problem]
    assert result.problem == f"m1: event {event_id}, seq 7, cannot be read (missing chunk number 0)"
    assert (result.check, result.code, result.mend) == (
        "rows",
        1,
        'mend or quarantine it: "A row that the database cannot read" in the documentation',
    )


@pytest.mark.parametrize(
    ("refusal", "waiting", "problem", "note"),
    [
        (None, 0, None, None),
        (None, MAX_READ, None, "ok; of 1,000 rows that wait, and more do"),
        (StatementRefused("42501", "permission denied"), 0, None,
         "not looked at: that takes webhook_dispatcher's rights"),
        (StatementRefused("XX001", "invalid page in block 7"), 0,
         "rows cannot even be named: invalid page in block 7", None),
    ],
)  # fmt: skip
async def test_what_was_not_looked_at_is_told(
    refusal: StatementRefused | None, waiting: int, problem: str | None, note: str | None
) -> None:
    database = await configured()
    database.refusal, database.waiting = refusal, waiting
    [result] = [result for result in await examine(session(database)) if result.check == "rows"]
    assert (result.problem, result.note) == (problem, note)


async def test_an_endpoint_that_is_allowed_by_a_setting_is_no_problem() -> None:
    allowed = session(await configured("https://10.0.0.1/"), WEBHOOK_EGRESS_ALLOW_NETWORKS="10.0.0.0/8")
    assert problems(await examine(allowed)) == {}


async def test_more_lanes_than_open_files_are_found() -> None:
    results = await examine(session(await configured()))
    assert "open files" not in problems(results)
    # Hardly any machine allows a process 200,064 open files and more; where one does, there is no problem.
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    too_few = 0 <= hard < 200_064
    results = await examine(session(await configured(), WEBHOOK_MAX_LANES="100000"))
    assert ("open files" in problems(results)) is too_few


@pytest.mark.parametrize(
    ("error", "code", "mend"),
    [
        (StorageUnavailable("cannot reach database 'charges' at db"), 4, None),
        (
            PoolerInBetween("a pooler is there", remedy="set WEBHOOK_DATABASE_POOLER"),
            2,
            "set WEBHOOK_DATABASE_POOLER",
        ),
    ],
)
async def test_a_database_that_is_away_is_named(error: DispatcherError, code: int, mend: str | None) -> None:
    @asynccontextmanager
    async def refusing(dsn: str, pooled: bool) -> AsyncIterator[Administration]:
        if not pooled:
            raise error
        yield FakeAdministration()

    results = await examine(CliContext(ENVIRON, refusing))
    assert problems(results) == {"database": (str(error).partition(": ")[0], code)}
    assert mend in (None, *(result.mend for result in results if result.check == "database"))


@pytest.mark.parametrize(
    ("setting", "is_there", "note"),
    [
        ("none", False, "ok; straight to Postgres"),
        ("transaction", True, "ok; through a pooler, by transactions"),
        ("transaction", False,
         "ok; straight to Postgres: WEBHOOK_DATABASE_POOLER=transaction only costs time"),
    ],
)  # fmt: skip
async def test_the_way_to_the_database_is_told(setting: str, is_there: bool, note: str) -> None:
    database = await configured()
    database.pooler_is_there = is_there
    results = await examine(replace(session(database, WEBHOOK_DATABASE_POOLER=setting)))
    assert problems(results) == {}
    assert [result.note for result in results if result.check == "database"] == [note]


async def test_every_configuration_problem_is_reported() -> None:
    results = await examine(CliContext({"WEBHOOK_LEASE": "1", "WEBHOOK_X": "1"}))
    assert [(result.check, result.code) for result in results] == [("configuration", 2), ("configuration", 2)]


def test_the_exit_code_is_that_of_the_worst_problem(capsys: pytest.CaptureFixture[str]) -> None:
    database = FakeAdministration()
    assert main(["check"], session(database)) == 0
    assert "ok" in capsys.readouterr().out
    database.missing = [("webhook.attempt_log", date(2026, 11, 21))]
    assert main(["check", "--json"], session(database)) == 1
    found = json.loads(capsys.readouterr().out)
    assert [result["mend"][:18] for result in found if result["problem"]] == ["start a dispatcher"]


SAID_OF_ALL = [
    ("pause", None,
     "everything is paused (since 2026-11-20T08:15:30.123Z, by a\N{REPLACEMENT CHARACTER}na)",
     "webhook-dispatcher resume --all"),
    (
        "suspended",
        None,
        "s0 since 2026-11-20 08:15:30, next try at 2026-11-20 08:15:30; "
        "s1 since 2026-11-20 08:15:30, next try at 2026-11-20 08:15:30; and 1010 more",
        "webhook-dispatcher resume MERCHANT",
    ),
    (
        "dispatchers",
        1,
        f"none holds a lane, though {EVENT} of m1 waits since 2026-11-20 08:15:30; "
        "no dispatcher is alive: nothing is delivered, unless one is just starting",
        "start one: webhook-dispatcher run",
    ),
    ("endpoint", 1, "m1: 10.0.0.1 is not a public address (private use, RFC 1918)",
     "webhook-dispatcher endpoint set m1 URL, or allow it by WEBHOOK_EGRESS_*"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "code", "found", "mend"), SAID_OF_ALL)
async def test_what_the_console_says_is_said(check: str, code: int | None, found: str, mend: str) -> None:
    """The code is None where nothing is wrong: it is what somebody wanted."""
    database = await configured("https://10.0.0.1/")
    database.pause = PauseOfEverything("a\x1bna", NOW)
    database.suspended = [SuspendedMerchant(f"s{number}", NOW, NOW) for number in range(2)]
    database.suspended_in_all = 1_012
    database.stranded = Stranded("m1", EVENT, NOW)
    [result] = [result for result in await examine(session(database)) if result.check == check]
    assert (result.problem or result.note, result.mend) == (found, mend)
    assert (result.code if result.problem else None) == code


async def test_no_more_than_ten_endpoints_are_named() -> None:
    database = await configured()
    for number in range(MAX_NAMED + 2):
        name = f"n{number:02}"
        database.endpoints[name] = replace(database.endpoints["m1"], merchant_id=name, url="http://x.test/")
    results = [found for found in await examine(session(database)) if found.check == "endpoint"]
    assert len(results) == MAX_NAMED + 1
    assert (results[-1].problem, results[-1].mend) == ("and 2 more endpoints", "as above")


async def test_names_of_ones_own_and_who_has_no_standard_signature_are_noted() -> None:
    database, keyring = await configured(), Keyring.parse(KEYS)
    database.sealed["m1"] = keyring.seal("m1", NO_BASE64)
    assert [found.check for found in await examine(session(database)) if found.check == "standard"] == []
    database.names = Names("Acme-", "Acme/2", ("service", "standard"))
    database.sealed["proper"] = keyring.seal("proper", Secret.from_random(bytes(32)))
    # The one before ends with its overlap.
    database.previous["proper"] = keyring.seal("proper", NO_BASE64)
    for number in range(MAX_NAMED):
        name = f"n{number:02}"
        database.sealed[name] = keyring.seal(name, NO_BASE64)
    results = await examine(session(database))
    assert problems(results) == {}
    notes = [result.note for result in results if result.check in ("names", "standard")]
    assert notes[0] == (
        "ok; headers Acme-…, User-Agent Acme/2, signed as service and standard; "
        "programs for schema 20 are refused"
    )
    assert notes[1] == "m1: no standard signature: its secret is no standard base64 behind whsec_"
    assert notes[-1] == "and 1 more merchants"
    assert not [note for note in notes if note and note.startswith("proper")]
