"""The synchronous standby is gone: what is read is answered, and each COMMIT waits. Every program says so."""

from collections.abc import Iterator

import pytest

from tests.acceptance.api_process import ANYWHERE
from tests.acceptance.console_people import start_console
from tests.acceptance.installation import Installation
from tests.acceptance.processes import Daemon, http_get
from tests.servers.database import Database, own_migrated
from tests.waiting import until_found
from webhook_dispatcher.local.behaviour import Behaviour

API = ("webhook_dispatcher", "api")
MERCHANTS = ["m1", "m2", "m3"]


@pytest.fixture
def own_database() -> Iterator[Database]:
    """Serve a database whose sessions wait for standbys, where there are to be any."""
    with own_migrated(
        {"synchronous_commit": "on", "max_wal_senders": "2", "wal_level": "replica"}
    ) as database:
        yield database


async def wait_for_standby(installation: Installation, name: str) -> None:
    await installation.owner.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    await installation.owner.execute("SELECT pg_reload_conf()")


async def test_a_daemon_is_not_ready_while_nothing_is_committed(own_world: Installation) -> None:
    await own_world.owner.execute("SET synchronous_commit = 'local'")
    await own_world.producer.execute("SET synchronous_commit = 'local'")
    await own_world.configure(*MERCHANTS)
    daemon = await own_world.start(LEASE="PT15S", RETRY_SCHEDULE="PT1S,PT1S,PT1S")
    own_world.receiver.behave("m1", Behaviour(status=503), Behaviour())
    sent = await own_world.emit_each(MERCHANTS, 2)
    await own_world.all_delivered(len(sent))
    await wait_for_standby(own_world, "nobody")

    async def says(status: int, reason: str) -> bool:
        return await daemon.asked("/readyz") == (status, f"{reason}\n")

    await until_found(lambda: says(503, "the database answers, but commits nothing"))
    # A claim that times out is committed all the same, here, and is made again.
    sent += await own_world.emit_each(MERCHANTS, 2)
    await daemon.logged("claim.failed")
    await wait_for_standby(own_world, "")
    await own_world.all_delivered(len(sent))
    await until_found(lambda: says(200, "ready"))
    assert len({arrival.event_id for arrival in own_world.receiver.arrivals}) == len(sent)


async def test_api_and_console_are_not_ready_while_nothing_is_committed(own_world: Installation) -> None:
    settings = own_world.database.settings("webhook_api") | ANYWHERE
    api = Daemon.spawn(settings, own_world.folder / "api.log", own_world.folder, API)
    own_world.daemons.append(api)
    console = await start_console(own_world)
    ports = [(await api.logged("api.started"))["ops_port"], console.port]

    async def all_say(status: int, reason: str) -> bool:
        said = [await http_get(port, "/readyz") for port in ports]
        return all(code == status and reason in text for code, text in said)

    assert await all_say(200, "ready")
    await wait_for_standby(own_world, "nobody")
    await until_found(lambda: all_say(503, "COMMIT waits for a synchronous standby"))
    await wait_for_standby(own_world, "")
    await until_found(lambda: all_say(200, "ready"))
