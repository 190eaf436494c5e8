"""A fault of our own uses up nobody's attempts, and ends by itself. Source: I10."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.acceptance.load import WRITERS, Load
from tests.acceptance.process import until, until_found
from tests.acceptance.world import World
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.receiver import Receiver

FAKETIME = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
MERCHANTS = [f"m{number}" for number in range(12)]
CONNECTED = [f"connected{number}" for number in range(WRITERS)]
CACHED = [f"cached{number}" for number in range(WRITERS)]
ADDRESSES = {merchant_id: f"127.0.{10 + number}.1" for number, merchant_id in enumerate(CONNECTED + CACHED)}
DOMAIN = "hooks.dev"
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
BREAKABLE_HMAC = """
import hmac, os
sound = hmac.digest
hmac.digest = lambda *a: bytes(32) if os.path.exists({broken!r}) else sound(*a)
"""
IMPATIENT = """
from webhook_dispatcher.dispatch.health import suspicion
suspicion.MAX_SUSPICION = 2.0
"""
QUICK = {"ATTEMPT_TIMEOUT": "PT1S", "LEASE": "PT5S", "RETRY_SCHEDULE": "PT1S,PT1S"}


class NameServer(asyncio.DatagramProtocol):
    """Answers every A query; or, when it is gone, nothing. Only the names of CACHED live for some time."""

    def __init__(self) -> None:
        self.is_gone = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, query: bytes, client: Any) -> None:
        if self.is_gone:
            return
        end = query.index(b"\0", 12) + 5
        question = query[12:end]
        is_a = question[-4:-2] == b"\0\1"
        header = query[:2] + struct.pack(">5H", 0x8180, 1, int(is_a), 0, 0)
        merchant_id = question[1 : 1 + question[0]].decode()
        address = ip_address(ADDRESSES.get(merchant_id, "127.0.0.1")).packed
        ttl = 300 if merchant_id in CACHED else 0
        answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, ttl, 4) + address if is_a else b""
        self._transport.sendto(header + question + answer, client)


@pytest.fixture
async def names() -> AsyncIterator[tuple[NameServer, str]]:
    """Run a name server; yields it and its address:port."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(NameServer, local_addr=("127.0.0.1", 0))
    yield server, "127.0.0.1:{}".format(transport.get_extra_info("sockname")[1])
    transport.close()


async def accept_something(world: World) -> None:
    """Let every merchant accept an event, so that they are known to work."""
    await world.emit_each(MERCHANTS, 1)
    await world.all_delivered(len(MERCHANTS))


async def pauses(world: World) -> bool:
    status, text = await world.daemons[0].asked("/readyz")
    return status == 503 and "fault of our own" in text


async def assert_nothing_is_used_up_until(world: World, mend: Callable[[], None]) -> None:
    """Have new events meet the fault, for longer than the retry schedule is, then mend it."""
    daemon = world.daemons[0]
    await world.emit_each(MERCHANTS, 3)
    await until_found(lambda: pauses(world))
    # Each of these is an attempt that would have used up a step of the schedule: there are two.
    await until(lambda: len(daemon.log("attempt.uncounted")) >= len(MERCHANTS) + 4)
    assert await world.count("attempts > 1") == 0
    mend()
    await world.all_delivered(4 * len(MERCHANTS))
    assert await world.count("state = 'failed'") == 0
    assert (await daemon.asked("/readyz"))[0] == 200


@contextlib.asynccontextmanager
async def hosts(world: World, address: str, folder: Path) -> AsyncIterator[None]:
    """Give each merchant a host of its own, whose name is looked up for every attempt where it can be."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(f"*.{DOMAIN}").configure_cert(context)
    # None stays connected.
    async with Receiver(tls=context, behaviour=Behaviour(raw=CLOSING)) as world.receiver:
        await world.receiver.listen_at(*ADDRESSES.values())
        for merchant_id in (*MERCHANTS, *ADDRESSES):
            url = f"https://{merchant_id}.{DOMAIN}:{world.receiver.port}/{merchant_id}"
            await world.configure(merchant_id, url=url)
        await world.start(EGRESS_NAMESERVERS=address, EGRESS_CA_FILE=str(folder / "ca.pem"), **QUICK)
        await accept_something(world)
        yield


async def test_a_name_server_that_is_gone_uses_up_no_attempts(
    world: World, names: tuple[NameServer, str], tmp_path: Path
) -> None:
    name_server, address = names
    async with hosts(world, address, tmp_path):
        name_server.is_gone = True
        await assert_nothing_is_used_up_until(world, lambda: setattr(name_server, "is_gone", False))


async def test_who_needs_no_name_server_while_it_is_gone_is_served_and_proves_nothing(
    world: World, names: tuple[NameServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_server, address = names
    (tmp_path / "sitecustomize.py").write_text(IMPATIENT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with hosts(world, address, tmp_path):
        for merchant_id in CONNECTED:
            world.receiver.behave(merchant_id, Behaviour())
        async with Load(world.database.dsn("webhook_producer"), list(ADDRESSES), 40.0):
            await until(lambda: all(map(world.receiver.of, ADDRESSES)), 60)
            name_server.is_gone = True
            await world.emit_each(MERCHANTS, 3)
            log = world.daemons[0].log
            await until(lambda: len(log("attempt.uncounted")) >= len(MERCHANTS) + 4, 60)
            for merchant_id in ADDRESSES:
                served = len(world.receiver.of(merchant_id))
                await world.arrived(served + 2, merchant_id, deadline=60)
            assert log("suspicion.ended") == []
            assert await world.count("attempts > 1") == 0
            assert log("fault.began") == [], "somebody is answered"
            name_server.is_gone = False
            await until_found(lambda: has_delivered_all(world), 60)
        assert await world.count("state = 'failed'") == 0


async def has_delivered_all(world: World) -> bool:
    return await world.count("state = 'delivered' AND merchant_id LIKE 'm%'") == 4 * len(MERCHANTS)


async def test_a_signer_that_is_broken_uses_up_no_attempts_and_sends_no_forgeries(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    (tmp_path / "sitecustomize.py").write_text(BREAKABLE_HMAC.format(broken=str(broken)))
    async with Receiver(refuses_forgeries=True) as world.receiver:
        await world.configure(*MERCHANTS)
        with monkeypatch.context() as environment:
            environment.setenv("PYTHONPATH", str(tmp_path))
            await world.start(**QUICK)
        await accept_something(world)
        broken.touch()
        await assert_nothing_is_used_up_until(world, broken.unlink)
        # What was in flight when the first was refused.
        forged = [arrival for arrival in world.receiver.arrivals if arrival.status == 401]
        assert 1 <= len(forged) <= len(MERCHANTS)


async def test_all_merchants_refusing_what_is_signed_well_is_theirs(world: World) -> None:
    await world.configure(*MERCHANTS)
    await world.start(RETRY_SCHEDULE="PT1H")
    await accept_something(world)
    for merchant_id in MERCHANTS:
        world.receiver.behave(merchant_id, Behaviour(status=401))
    await world.emit_each(MERCHANTS, 2)
    await until_found(lambda: has_attempted_all(world), 60)
    assert world.daemons[0].log("attempt.uncounted") == []
    assert (await world.daemons[0].asked("/readyz"))[0] == 200


async def has_attempted_all(world: World) -> bool:
    return await world.count("attempts = 1") == 3 * len(MERCHANTS)


async def test_a_third_of_all_merchants_going_down_pauses_nothing(world: World) -> None:
    await world.configure(*MERCHANTS)
    await world.start(**QUICK)
    await accept_something(world)
    down, up = MERCHANTS[::3], [m for m in MERCHANTS if m not in MERCHANTS[::3]]
    for merchant_id in down:
        world.receiver.behave(merchant_id, Behaviour(status=503))
    for _ in range(3):
        await world.emit_each(MERCHANTS, 1)
    await world.all_delivered(len(MERCHANTS) + 3 * len(up))
    await until_found(lambda: world.count(f"state = 'failed' AND attempts = {3}"))
    assert world.daemons[0].log("attempt.uncounted") == []
    assert (await world.daemons[0].asked("/readyz"))[0] == 200


@pytest.mark.needs(FAKETIME is not None, "libfaketime is missing: apt-get install libfaketime")
@pytest.mark.parametrize("offset", ["+120", "-120"])
async def test_a_clock_two_minutes_off_sends_nothing_until_it_is_right(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: str
) -> None:
    clock = tmp_path / "clock"
    clock.write_text(offset)
    with monkeypatch.context() as environment:
        environment.setenv("LD_PRELOAD", str(FAKETIME))
        environment.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
        environment.setenv("FAKETIME_NO_CACHE", "1")
        environment.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        daemon = await world.start(**QUICK)
    await daemon.logged("fault.began")
    await world.configure(*MERCHANTS)
    await world.emit_each(MERCHANTS, 2)
    status, text = await daemon.asked("/readyz")
    assert status == 503
    assert "clock" in text
    # Two sweeps and many looks later nothing has been sent.
    looked = len(daemon.log())
    await world.do("pause", MERCHANTS[0])
    await world.do("resume", MERCHANTS[0])
    assert world.receiver.arrivals == []
    assert len(daemon.log("fault.began")) == 1, daemon.log()[looked:]
    clock.write_text("+0")
    await world.all_delivered(2 * len(MERCHANTS))
    assert len(daemon.log("fault.ended")) == 1
