"""Types of one's own: who may write them, what is owed of a retired one, and which programs are served."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.installation import ENDPOINT
from tests.servers.database import Connect, Database
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.event import NOTICE_TYPES, sample_of

Command = Callable[..., tuple[int, str, str]]
OWN = "refund.created"
RULE = "type_is_one_of_the_published_event_types"
ADD = "SELECT webhook.add_event_type($1, $2, NULL, 'a')"
INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, $2, '{}')"
BEATS = (
    "INSERT INTO webhook.dispatcher (owner, host, version, started_at, beat_at, lanes, attempts_in_flight, "
    "is_ready, reasons, faults, schema_version) VALUES ('o', 'h1', '1.9', clock_timestamp(), "
    "clock_timestamp() - $1::text::interval, 0, 0, true, '{}', '{}', $2)"
)
SERVED = "SELECT compatible_from FROM webhook.state"


@pytest.fixture
def command(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*line: str, user: str = "webhook_admin") -> tuple[int, str, str]:
        settings = database.settings(user).items()
        code = main(line, CliContext({f"WEBHOOK_{key}": value for key, value in settings}))
        return code, *capsys.readouterr()

    return run


async def refused(connection: asyncpg.Connection, merchant: str, event_type: str) -> str | None:
    """Say by which rule an event is refused; None where it is taken."""
    try:
        await connection.execute(INSERT, merchant, event_type)
    except asyncpg.CheckViolationError as error:
        said, name = str(error), error.constraint_name
        return name if said == f'an event for webhook.outbox breaks the rule "{name}"' else said
    return None


async def test_producers_write_a_type_from_its_adding_to_its_retirement(
    connect: Connect, command: Command
) -> None:
    producer = await connect("webhook_producer")
    assert await refused(producer, "m", OWN) == RULE
    assert await asyncio.to_thread(command, "event-type", "add", OWN) == (0, f"{OWN}: added\n", "")
    assert await refused(producer, "m", OWN) is None
    assert await refused(producer, "$platform", OWN) == "only_dispatchers_write_to_the_platform"
    assert await refused(producer, "m", f"{OWN}x") == RULE
    code, out, _ = await asyncio.to_thread(command, "event-type", "retire", OWN)
    assert (code, out.splitlines()[0]) == (0, f"{OWN}: retired")
    assert await refused(producer, "m", OWN) == RULE
    assert (await asyncio.to_thread(command, "event-type", "add", OWN))[1] == f"{OWN}: added\n"
    assert await refused(producer, "m", OWN) is None
    [listed] = json.loads((await asyncio.to_thread(command, "event-type", "list", "--json"))[1])
    assert (listed["name"], listed["charge_path"], listed["retired_at"]) == (OWN, "id", None)
    owner = await connect()
    noted = await owner.fetch("SELECT action, person FROM webhook.audit ORDER BY id")
    assert [row["action"].split()[-1] for row in noted] == ["added", "retired", "added"]
    assert all(row["person"].startswith("cli:") for row in noted)


async def test_what_is_owed_of_a_type_outlives_its_retirement_and_its_table(connect: Connect) -> None:
    owner, producer, dispatcher = [
        await connect(user) for user in ("postgres", "webhook_producer", "webhook_dispatcher")
    ]
    await owner.execute(ADD, OWN, sample_of(OWN, "id").decode())
    await producer.execute(INSERT, "m", OWN)
    assert await owner.fetchval("SELECT webhook.retire_event_type($1, 'a')", OWN)
    # The second: events are restored, or replicated, before their types.
    for makes_worse in ("SELECT", "DELETE FROM webhook.event_type"):
        await owner.execute(makes_worse)
        for changer in (dispatcher, owner):
            assert await changer.execute("UPDATE webhook.outbox SET attempts = attempts + 1") == "UPDATE 1"
            assert await changer.execute(INSERT, "m", OWN) == "INSERT 0 1"
            assert await changer.execute("DELETE FROM webhook.outbox WHERE attempts > 0") == "DELETE 1"
    for strange in ("Refund", "a" * 65, "", "a\nb", *NOTICE_TYPES):
        assert await refused(dispatcher, "m", strange) == RULE
    assert await refused(dispatcher, "$platform", OWN) == RULE


async def test_only_events_of_ones_own_types_read_the_table_and_wait_for_no_change_of_it(
    connect: Connect,
) -> None:
    changer, locker, producer = [
        await connect(user) for user in ("webhook_admin", "postgres", "webhook_producer")
    ]
    await changer.execute(ADD, OWN, sample_of(OWN, "id").decode())
    await producer.execute("SET lock_timeout = '10ms'")
    async with changer.transaction():
        await changer.execute("SELECT webhook.retire_event_type($1, 'a')", OWN)
        assert await refused(producer, "m", OWN) is None
    async with locker.transaction():
        await locker.execute("LOCK TABLE webhook.event_type IN ACCESS EXCLUSIVE MODE")
        assert await refused(producer, "m", "charge.created") is None
        with pytest.raises(asyncpg.LockNotAvailableError):
            await refused(producer, "m", OWN)


@pytest.mark.parametrize(
    ("name", "sample", "path", "rule"),
    [
        ("Refund", None, "id", "name_has_1_to_64_of_a_to_z_0_to_9_dot_and_underscore"),
        ("charge.created", None, "id", "name_is_none_of_ours"),
        ("endpoint.failing", None, "id", "name_is_none_of_ours"),
        (OWN, f'["ch_test:{OWN}"]', "0", "sample_is_an_object_of_at_most_256_kib"),
        (OWN, '{"id":5}', "id", "sample_has_its_type_as_its_charge"),
        (OWN, '{"id":"ch_1"}', "id", "sample_has_its_type_as_its_charge"),
        (OWN, f'{{"id":"ch_test:{OWN}"}}', "charge.id", "sample_has_its_type_as_its_charge"),
        (OWN, f'{{"a":"ch_test:b","id":"ch_test:{OWN}"}}', "id", "sample_has_its_type_as_its_charge"),
        (OWN, None, "charge..id", "charge_path_is_names_between_dots"),
    ],
)
async def test_a_type_that_could_not_be_told_is_refused(
    connect: Connect, command: Command, tmp_path: Path, name: str, sample: str | None, path: str, rule: str
) -> None:
    admin = await connect("webhook_admin")
    text = sample or sample_of(name, path).decode()
    with pytest.raises(asyncpg.CheckViolationError) as broken:
        await admin.execute("SELECT webhook.add_event_type($1, $2, $3, 'a')", name, text, path)
    assert broken.value.constraint_name == rule
    file = tmp_path / "sample.json"
    file.write_text(text)
    line = ("event-type", "add", name, "--sample", str(file), "--charge-id", path)
    assert (await asyncio.to_thread(command, *line))[0] in (1, 2)
    assert await admin.fetch("SELECT FROM webhook.event_type") == []
    assert await admin.fetchval(SERVED) == 1


async def test_what_is_not_said_anew_of_a_type_stays(
    connect: Connect, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "sample.json"
    file.write_text('{"amount": 1.10,\n "charge": {"id": "ch_test:refund.created"}}')
    line = ("event-type", "add", OWN, "--sample", str(file), "--charge-id", "charge.id")
    assert (await asyncio.to_thread(command, *line))[0] == 0
    assert (await asyncio.to_thread(command, "event-type", "add", OWN))[1] == f"{OWN}: changed\n"
    kept = "SELECT sample::text, charge_path FROM webhook.event_type"
    owner = await connect()
    assert tuple(await owner.fetchrow(kept) or ()) == (file.read_text(), "charge.id")
    assert (await asyncio.to_thread(command, "event-type", "add", OWN, "--charge-id", "id"))[0] == 0
    assert tuple(await owner.fetchrow(kept) or ()) == ('{"id":"ch_test:refund.created"}', "id")


@pytest.mark.parametrize(
    ("ago", "version", "is_refused"),
    [("0", 21, True), ("20s", 21, True), ("31s", 21, False), ("0", 22, False)],
)
async def test_the_first_type_waits_for_the_end_of_older_dispatchers(
    connect: Connect, command: Command, ago: str, version: int, is_refused: bool
) -> None:
    owner = await connect()
    await owner.execute(BEATS, ago, version)
    code, _, err = await asyncio.to_thread(command, "event-type", "add", OWN)
    assert (code, "h1 (1.9)" in err) == (int(is_refused), is_refused)
    assert await owner.fetchval("SELECT count(*) FROM webhook.event_type") == (not is_refused)
    assert await owner.fetchval(SERVED) == (1 if is_refused else 22)


async def test_older_programs_are_served_again_once_nothing_holds(connect: Connect, command: Command) -> None:
    owner, late = await connect(), await connect("webhook_producer")
    for name in (OWN, "payout.paid"):
        await asyncio.to_thread(command, "event-type", "add", name)

    async def told(name: str = OWN) -> str:
        code, out, _ = await asyncio.to_thread(command, "event-type", "retire", name)
        assert code == 0
        return out.splitlines()[1]

    assert "until all types" in await told()
    writing = late.transaction()
    await writing.start()
    await late.execute(INSERT, "m", "payout.paid")
    assert "while a transaction is open" in await told("payout.paid")
    assert await owner.fetchval(SERVED) == 22
    await writing.commit()
    assert "events of retired types are owed" in await told()
    for user in ("webhook_admin", "webhook_dispatcher"):
        told_by_check = (await asyncio.to_thread(command, "check", user=user))[1]
        assert "retired types are owed" in told_by_check
    await owner.execute("DELETE FROM webhook.outbox")
    assert "nothing of your own types is owed" in (await asyncio.to_thread(command, "check"))[1]
    assert await owner.fetchval(SERVED) == 22
    assert await told() == "no type of your own keeps older programs out"
    assert await owner.fetchval(SERVED) == 1
    await owner.execute("UPDATE webhook.state SET compatible_from = 99")
    await told()
    assert await owner.fetchval(SERVED) == 99, "what a later version holds is not ours to release"
    assert (await asyncio.to_thread(command, "event-type", "retire", "no.such"))[0] == 1


@pytest.mark.parametrize("order", [*permutations(("names", "types", "filters"))], ids="-".join)
async def test_what_is_taken_back_leaves_what_the_others_need(
    connect: Connect, command: Command, order: tuple[str, ...]
) -> None:
    owner = await connect()
    await owner.execute(ENDPOINT, "m", "https://m.example/", b"s" * 60, "k1")
    needs = {"names": 21, "types": 22, "filters": 23}
    gives = {"names": ("names", "set", "--header-prefix", "Acme-"), "types": ("event-type", "add", OWN)}
    takes = {"names": ("names", "reset"), "types": ("event-type", "retire", OWN)}

    async def change(what: str, lines: Mapping[str, Sequence[str]], types: str) -> None:
        if what == "filters":
            await owner.execute(f"UPDATE webhook.endpoint SET types = {types}")
        else:
            assert (await asyncio.to_thread(command, *lines[what]))[0] == 0

    for number, given in enumerate(order):
        await change(given, gives, "'{charge.failed}'")
        assert await owner.fetchval(SERVED) == max(needs[each] for each in order[: number + 1])
    for number, taken in enumerate(order):
        await change(taken, takes, "NULL")
        left = order[number + 1 :]
        assert await owner.fetchval(SERVED) == max((needs[each] for each in left), default=1), left
