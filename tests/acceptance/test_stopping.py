"""Stopping, crashing and starting: what is in flight ends, nothing is lost, order stays. Source: I1 to I3."""

import signal
import socket
import time
from collections import Counter

import pytest

from tests.acceptance.installation import PATIENT, Installation, Sent
from tests.acceptance.processes import Daemon, http_get
from tests.servers.database import copy_database
from tests.waiting import Yardstick, until, until_equal, until_found
from webhook_dispatcher.local.arrivals import Arrival, out_of_order
from webhook_dispatcher.local.behaviour import Behaviour

HANGS = Behaviour(hangs=True)


def in_flight(installation: Installation) -> list[Arrival]:
    return [arrival for arrival in installation.receiver.arrivals if arrival.ended_at is None]


def numbers(sent: list[Sent]) -> dict[str, int]:
    return {str(event.id): event.seq for event in sent}


async def test_sigterm_lets_requests_in_flight_end_and_gives_everything_else_back(
    installation: Installation,
) -> None:
    merchants = [f"m{number:02}" for number in range(50)]
    await installation.configure(*merchants)
    for merchant_id in merchants:
        installation.receiver.behave(merchant_id, HANGS, Behaviour())
    daemon = await installation.start(**PATIENT)
    sent = await installation.emit_each(merchants, 3)
    await until(lambda: len(in_flight(installation)) == 50)
    daemon.terminate()
    await until_found(installation.is_claiming_nothing)
    for merchant_id in merchants:
        installation.receiver.answer_hanging(merchant_id)
    assert await daemon.ended() == 0

    [stopped] = daemon.log("daemon.stopped")
    assert (stopped["unwritten"], stopped["lanes"]) == (0, 0)
    assert len(installation.receiver.arrivals) == 50
    assert {arrival.status for arrival in installation.receiver.arrivals} == {200}
    assert await installation.has_no_leases()
    assert await installation.count("state = 'delivered' AND attempts = 1") == 50
    assert await installation.count("state = 'pending' AND attempts = 0") == 100

    await installation.start()
    await installation.all_delivered(150)
    arrivals = installation.receiver.arrivals
    assert Counter(arrival.event_id for arrival in arrivals) == Counter(str(event.id) for event in sent)
    assert out_of_order(arrivals, numbers(sent)) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
async def test_a_terminal_that_closes_lets_requests_in_flight_end(
    installation: Installation, number: signal.Signals
) -> None:
    """So does an image whose stop signal is SIGQUIT. A shell sends SIGHUP again: that is no impatience."""
    await installation.configure("m1")
    installation.receiver.behave("m1", HANGS)
    daemon = await installation.start(LOG_SUCCESSES="0", **PATIENT)
    event = await installation.emit("m1")
    await installation.arrived(1)
    daemon.process.send_signal(number)
    await until_found(installation.is_claiming_nothing)
    daemon.process.send_signal(number)
    installation.receiver.answer_hanging("m1")
    assert await daemon.ended() == 0
    await installation.settled(event.id, "delivered", 1)
    [stopped] = daemon.log("daemon.stopped")
    assert (daemon.log("delivery.attempted"), stopped["left_out"]) == ([], 1)


async def test_second_sigterm_cuts_the_grace_short_and_loses_nothing(installation: Installation) -> None:
    await installation.configure("m1")
    installation.receiver.behave("m1", Behaviour(hangs=True), Behaviour())
    daemon = await installation.start(ATTEMPT_TIMEOUT="PT2S", LEASE="PT3S")
    event = await installation.emit("m1")
    await installation.arrived(1)
    daemon.terminate()
    await until_found(installation.is_claiming_nothing)
    with Yardstick() as machine:
        told_at = time.monotonic()
        daemon.terminate()
        await daemon.ended()
        took = time.monotonic() - told_at
    assert took < machine.allows(1)
    assert (await installation.delivery(event.id))["attempts"] == 0
    await installation.start(ATTEMPT_TIMEOUT="PT2S", LEASE="PT3S")
    await installation.settled(event.id, "delivered", 1)


async def test_daemon_waits_for_a_database_that_is_away(installation: Installation) -> None:
    absent = f"{installation.database.name}_absent"
    port = free_port()
    daemon = installation.spawn(
        DATABASE_URL=installation.database.server.dsn("webhook_dispatcher", absent), **ops(port)
    )
    awaited = await daemon.logged("database.awaited")
    assert absent in awaited["error"]
    status, text = await http_get(port, "/readyz")
    assert status == 503
    assert absent in text
    assert await http_get(port, "/healthz") == (200, "ok\n")

    await copy_database(installation.database.server, absent)
    try:
        await daemon.logged("daemon.started")
        await until_equal(lambda: http_get(port, "/readyz"), (200, "ready\n"))
        daemon.terminate()
        assert await daemon.ended() == 0
    finally:
        daemon.kill()
        await installation.owner.execute(f"DROP DATABASE {absent} WITH (FORCE)")


async def test_sigterm_while_waiting_for_the_database_ends_at_once(installation: Installation) -> None:
    nowhere = f"postgresql://webhook_dispatcher@/webhook?host={installation.folder}/nowhere"
    daemon = installation.spawn(DATABASE_URL=nowhere)
    await daemon.logged("database.awaited")
    with Yardstick() as machine:
        told_at = time.monotonic()
        daemon.terminate()
        assert await daemon.ended() == 0
        took = time.monotonic() - told_at
    assert took < machine.allows(2)


@pytest.mark.parametrize(
    "damage",
    [
        "DROP SCHEMA webhook CASCADE",
        "UPDATE webhook.state SET schema_version = 0",
        "UPDATE webhook.state SET compatible_from = 99",
    ],
)
async def test_schema_of_another_version_is_refused_with_3(installation: Installation, damage: str) -> None:
    await installation.owner.execute(damage)
    line = await refused(installation.spawn(), 3)
    assert "schema" in line
    assert "webhook-dispatcher" in line


WRONG_SETTINGS = [
    ("DATABASE_URL", ""),
    ("SECRET_KEYS", ""),
    ("RETRY_SCHEDUL", "PT1M"),
    ("LEASE", "PT10S"),
    ("OPS_ADDRESS", "nowhere"),
]


async def test_wrong_setting_is_refused_with_2_in_one_line_that_names_it(installation: Installation) -> None:
    daemons = [installation.spawn(**{name: text}) for name, text in WRONG_SETTINGS]
    for daemon, (name, _) in zip(daemons, WRONG_SETTINGS, strict=True):
        assert f"WEBHOOK_{name}:" in await refused(daemon, 2)


async def refused(daemon: Daemon, code: int) -> str:
    """Wait for a daemon to refuse to start, and return the one line it said."""
    assert await daemon.ended() == code
    [line] = daemon.log_file.read_text().splitlines()
    daemon.log_file.write_text("")  # on purpose no event of a running daemon
    return line


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def ops(port: int) -> dict[str, str]:
    return {"OPS_ADDRESS": f"127.0.0.1:{port}"}


@pytest.mark.parametrize(
    ("user", "said"),
    [("webhook_admin", "'webhook_admin' may not deliver"), ("webhook_producer", "permission denied")],
)
async def test_a_role_that_may_not_deliver_is_refused_with_2_and_told_which_may(
    installation: Installation, user: str, said: str
) -> None:
    line = await refused(installation.spawn(DATABASE_URL=installation.database.dsn(user)), 2)
    assert said in line
    assert "connects as webhook_dispatcher" in line


async def test_rights_that_are_taken_from_a_running_daemon_and_given_back_lose_nothing(
    installation: Installation,
) -> None:
    await installation.configure("m")
    daemon = await installation.start()
    await installation.emit("m")
    await installation.all_delivered(1)
    await installation.owner.execute("REVOKE UPDATE ON webhook.lane FROM webhook_dispatcher")
    await installation.emit("m")

    async def says(status: int, reason: str) -> bool:
        code, text = await daemon.asked("/readyz")
        return code == status and reason in text

    await until_found(lambda: says(503, "the database refuses claims"))
    await installation.owner.execute("GRANT UPDATE ON webhook.lane TO webhook_dispatcher")
    await installation.all_delivered(2)
    await until_found(lambda: says(200, "ready"))
