"""Several databases in one installation: each is served by processes of its own, and troubles nobody else."""

import json
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.load import PATIENCE
from tests.acceptance.outage import end_server, reconnect
from tests.acceptance.processes import Daemon, process_exists
from tests.acceptance.supervised_processes import asked, end, pids, scraped, started
from tests.servers.database import Database, own_migrated
from tests.waiting import until_found
from webhook_dispatcher.local.arrivals import out_of_order
from webhook_dispatcher.storage import schema

MERCHANTS = [f"m{number}" for number in range(10)]
EVENTS = 3


@pytest.fixture
def other_database() -> Iterator[Database]:
    """Serve a migrated database that a test may stop."""
    with own_migrated({}) as database:
        yield database


@pytest.fixture
async def other(
    installation: Installation, other_database: Database, tmp_path: Path
) -> AsyncIterator[Installation]:
    """Put the second database's side together: it has endpoints, events and a receiver of its own."""
    folder = tmp_path / "other"
    folder.mkdir()
    async with Installation(other_database, folder) as other:
        other.key = installation.key
        yield other
        for supervisor in installation.daemons:
            end(supervisor)


def both(installation: Installation, other: Installation, user: str = "webhook_dispatcher") -> dict[str, str]:
    """Return the settings that name both databases."""
    urls = f"eu1={installation.database.dsn(user)} \n eu2={other.database.dsn(user)}"
    return {"DATABASE_URL": urls, "DATABASE_POOLER": "none"}


async def start(installation: Installation, other: Installation, **settings: str) -> Daemon:
    """Start two processes, one for each database, and wait until both work."""
    supervisor = installation.spawn(**both(installation, other), **settings)
    await started(supervisor, 2)
    return supervisor


def place_of(reason: str) -> str:
    return reason.partition(":")[0]


def in_order(installation: Installation, numbers: dict[str, int]) -> bool:
    return out_of_order(installation.receiver.arrivals, numbers) == []


async def test_what_happens_to_one_database_costs_the_other_nothing(
    installation: Installation, other: Installation
) -> None:
    numbers: dict[str, int] = {}
    for side in (installation, other):
        await side.configure(*MERCHANTS)
    supervisor = await start(installation, other)
    for side in (installation, other):
        numbers |= {str(event.id): event.seq for event in await side.emit_each(MERCHANTS, EVENTS)}
        await side.all_delivered(len(MERCHANTS) * EVENTS)
    assert await asked(supervisor, "/readyz") == (200, "ready\n")
    assert {entry["shard"] for entry in supervisor.log("delivery.attempted")} == {"eu1", "eu2"}

    await end_server(other, signal.SIGINT)
    numbers |= {str(event.id): event.seq for event in await installation.emit_each(MERCHANTS, EVENTS)}
    await installation.all_delivered(2 * len(MERCHANTS) * EVENTS)

    async def is_named() -> bool:
        status, text = await asked(supervisor, "/readyz")
        return status == 503 and set(map(place_of, text.splitlines())) == {"process 2 (eu2)"}

    await until_found(is_named, PATIENCE)

    async def is_counted() -> bool:
        samples = await scraped(supervisor)
        return (
            samples['webhook_processes{shard="eu1",state="ready"}'] == 1
            and samples['webhook_processes{shard="eu2",state="not_ready"}'] == 1
            and samples['webhook_pending{shard="eu1"}'] == 0
        )

    await until_found(is_counted, PATIENCE)
    other.database.server.start()
    await reconnect(other)
    other.producer = await other.database.connect("webhook_producer")
    numbers |= {str(event.id): event.seq for event in await other.emit_each(MERCHANTS, EVENTS)}
    await other.all_delivered(2 * len(MERCHANTS) * EVENTS, deadline=PATIENCE)
    assert in_order(installation, numbers)
    assert in_order(other, numbers)

    async def is_ready() -> bool:
        return (await asked(supervisor, "/readyz"))[0] == 200

    await until_found(is_ready, PATIENCE)
    samples = await scraped(supervisor)
    assert samples['webhook_attempts_total{outcome="delivered",trigger="schedule"}'] == len(numbers)
    assert samples['webhook_process_restarts_total{shard="eu2"}'] == 0
    for connection in (other.admin, other.owner, other.producer):
        await connection.close()
    supervisor.terminate()
    assert await supervisor.ended() == 0


@pytest.mark.slow("acceptance/test_processes.py::test_three_processes_share_the_work_and_count_it_as_one")
async def test_each_database_is_measured_for_itself(installation: Installation, other: Installation) -> None:
    # No endpoint: what is owed stays owed.
    supervisor = await start(installation, other, PROCESSES="2")
    await started(supervisor, 4)
    await installation.emit_each(MERCHANTS, 1)
    await other.emit_each(MERCHANTS, 2)

    async def both_are_shown() -> bool:
        samples = await scraped(supervisor)
        pending = {shard: samples.get(f'webhook_pending{{shard="{shard}"}}') for shard in ("eu1", "eu2")}
        return pending == {"eu1": len(MERCHANTS), "eu2": 2 * len(MERCHANTS)}

    await until_found(both_are_shown, PATIENCE)
    assert "webhook_pending" not in await scraped(supervisor)
    places = {entry["process"]: entry["shard"] for entry in supervisor.log("daemon.started")}
    assert places == {1: "eu1", 2: "eu1", 3: "eu2", 4: "eu2"}
    for place, pid in pids(supervisor).items():
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        hidden = other if places[place] == "eu1" else installation
        assert hidden.database.dsn("webhook_dispatcher").encode() not in environment


async def test_schema_that_does_not_serve_ends_its_own_process_alone(
    installation: Installation, other: Installation
) -> None:
    await installation.configure(*MERCHANTS)
    supervisor = await start(installation, other)
    await other.owner.execute("UPDATE webhook.state SET compatible_from = 99")

    async def is_named() -> bool:
        status, text = await asked(supervisor, "/readyz")
        said = "process 2 (eu2): ended with exit code 3, starts again within "
        return status == 503 and text.startswith(said) and "for version 99 and later" in text

    await until_found(is_named, PATIENCE)
    await installation.emit_each(MERCHANTS, EVENTS)
    await installation.all_delivered(len(MERCHANTS) * EVENTS)
    await other.owner.execute("UPDATE webhook.state SET compatible_from = 1")

    async def is_ready() -> bool:
        return (await asked(supervisor, "/readyz"))[0] == 200

    await until_found(is_ready, PATIENCE)
    samples = await scraped(supervisor)
    assert samples['webhook_process_restarts_total{shard="eu2"}'] >= 1
    assert samples['webhook_process_restarts_total{shard="eu1"}'] == 0
    supervisor.terminate()
    assert await supervisor.ended() == 0
    assert not any(map(process_exists, pids(supervisor).values()))
    # What a process said before it ended is on the log as it said it.
    lines = supervisor.log_file.read_text().splitlines(keepends=True)
    supervisor.log_file.write_text("".join(line for line in lines if line.startswith("{")))


async def test_commands_talk_to_the_database_that_is_named(
    installation: Installation, other: Installation
) -> None:
    admin = both(installation, other, "webhook_admin")
    await installation.configure("m1")
    await other.configure("m2")
    unnamed = installation.command("endpoint", "list", **admin)
    assert (unnamed.returncode, unnamed.stdout) == (2, "")
    assert unnamed.stderr == (
        "webhook-dispatcher: there are several databases: choose one of eu1, eu2 by --shard\n"
    )
    wrong = installation.command("endpoint", "list", "--shard", "us1", **admin)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "webhook-dispatcher: --shard us1: no such database; there are eu1, eu2\n"
    for shard, merchant_id in (("eu1", "m1"), ("eu2", "m2")):
        named = installation.command("endpoint", "list", "--shard", shard, "--json", **admin)
        assert named.returncode == 0, named.stderr
        assert [endpoint["merchant_id"] for endpoint in json.loads(named.stdout)] == [merchant_id]

    checked = installation.command("check", "--json", **admin)
    assert checked.returncode == 0, checked.stdout
    shown = {(finding["shard"], finding["check"]) for finding in json.loads(checked.stdout)}
    assert {(None, "configuration"), ("eu1", "schema"), ("eu2", "schema")} <= shown


async def test_migrate_goes_on_after_a_failure_and_exits_with_its_code(
    installation: Installation, other: Installation
) -> None:
    await installation.owner.execute("DROP SCHEMA webhook CASCADE")
    nowhere = f"postgresql://postgres@/webhook?host={installation.folder}/nowhere"
    owners = f"eu0={nowhere} eu1={installation.database.dsn('postgres')} eu2={other.database.dsn('postgres')}"
    listed = {"DATABASE_URL": owners, "DATABASE_POOLER": "none"}
    migrated = installation.command("migrate", **listed)
    assert migrated.returncode == 4
    assert migrated.stderr.startswith("webhook-dispatcher: eu0: cannot reach database 'webhook'")
    assert migrated.stderr.count("\n") == 1
    named, *rest = migrated.stdout.splitlines()
    assert named.startswith("eu1: this installation is called ")
    assert {line.partition(": ")[0] for line in rest} == {"eu1", "eu2"}
    assert rest[0].startswith("eu1: made: ")
    assert rest[-3:] == [
        "eu1: the schema is up to date",
        "eu2: nothing was to be done",
        "eu2: the schema is up to date",
    ]
    await schema.check(installation.owner)
    one = installation.command("migrate", "--shard", "eu2", **listed)
    assert (one.returncode, one.stdout) == (0, "eu2: nothing was to be done\neu2: the schema is up to date\n")


async def test_single_database_with_a_name_is_served_in_one_process_that_says_it(
    installation: Installation,
) -> None:
    daemon = installation.spawn(DATABASE_URL=f"only={installation.database.dsn()}", DATABASE_POOLER="none")
    await daemon.logged("daemon.started")
    assert {entry.get("shard") for entry in daemon.log()} == {"only"}
    assert all("process" not in entry for entry in daemon.log())
    status, text = await daemon.asked("/metrics")
    assert status == 200
    assert 'webhook_pending{shard="only"}' in text
