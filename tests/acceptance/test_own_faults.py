"""A fault of our own uses up nobody's attempts, and ends by itself. Source: I10."""

import asyncio
import contextlib
import errno
import os
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.acceptance.installation import Installation
from tests.acceptance.load import WRITERS, Load
from tests.waiting import until, until_found
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
QUICK = {"ATTEMPT_TIMEOUT": "PT1S", "LEASE": "PT5S", "RETRY_SCHEDULE": "PT1S,PT1S"}


class NameServer(asyncio.DatagramProtocol):
    """Answers every A query; or, when it is gone, nothing. Only the names of CACHED live for some time."""

    def __init__(self) -> None:
        self.is_gone = False

    async def listen(self, address: str = "127.0.0.1:0") -> str:
        """Answer at this address:port, as soon as nobody asks from there; return it with the port."""
        host, port = address.split(":")
        loop = asyncio.get_running_loop()

        async def bound() -> asyncio.DatagramTransport | None:
            try:
                return (await loop.create_datagram_endpoint(lambda: self, (host, int(port))))[0]
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                return None

        transport = await until_found(bound)
        return "{}:{}".format(*transport.get_extra_info("sockname"))

    def close(self) -> None:
        """Leave the port: whoever asks there is refused."""
        self._transport.close()

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
    server = NameServer()
    yield server, await server.listen()
    server.close()


async def accept_something(installation: Installation) -> None:
    """Let every merchant accept an event, so that they are known to work."""
    await installation.emit_each(MERCHANTS, 1)
    await installation.all_delivered(len(MERCHANTS))


async def pauses(installation: Installation) -> bool:
    status, text = await installation.daemons[0].asked("/readyz")
    return status == 503 and "fault of our own" in text


async def is_ready(installation: Installation) -> bool:
    return (await installation.daemons[0].asked("/readyz"))[0] == 200


async def assert_nothing_is_used_up_until(installation: Installation, mend: Callable[[], None]) -> None:
    """Have new events meet the fault, for longer than the retry schedule is, then mend it."""
    daemon = installation.daemons[0]
    await installation.emit_each(MERCHANTS, 3)
    await until_found(lambda: pauses(installation))
    # Each of these is an attempt that would have used up a step of the schedule: there are two.
    await until(lambda: len(daemon.log("attempt.uncounted")) >= len(MERCHANTS) + 4)
    assert await installation.count("attempts > 1") == 0
    mend()
    await installation.all_delivered(4 * len(MERCHANTS))
    assert await installation.count("state = 'failed'") == 0
    await until_found(lambda: is_ready(installation))


@contextlib.asynccontextmanager
async def hosts(installation: Installation, address: str, folder: Path) -> AsyncIterator[None]:
    """Give each merchant a host of its own, whose name is looked up for every attempt where it can be."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(f"*.{DOMAIN}").configure_cert(context)
    # None stays connected.
    async with Receiver(tls=context, behaviour=Behaviour(raw=CLOSING)) as installation.receiver:
        await installation.receiver.listen_at(*ADDRESSES.values())
        for merchant_id in (*MERCHANTS, *ADDRESSES):
            url = f"https://{merchant_id}.{DOMAIN}:{installation.receiver.port}/{merchant_id}"
            await installation.configure(merchant_id, url=url)
        await installation.start(EGRESS_NAMESERVERS=address, EGRESS_CA_FILE=str(folder / "ca.pem"), **QUICK)
        await accept_something(installation)
        yield


async def test_a_name_server_that_is_gone_uses_up_no_attempts(
    installation: Installation, names: tuple[NameServer, str], tmp_path: Path
) -> None:
    name_server, address = names
    async with hosts(installation, address, tmp_path):
        name_server.is_gone = True
        await assert_nothing_is_used_up_until(installation, lambda: setattr(name_server, "is_gone", False))


@pytest.mark.slow("acceptance/test_own_faults.py::test_a_name_server_that_is_gone_uses_up_no_attempts")
async def test_name_servers_that_refuse_are_told_once_and_who_is_connected_goes_on(
    installation: Installation, names: tuple[NameServer, str], tmp_path: Path
) -> None:
    name_server, address = names
    async with hosts(installation, address, tmp_path):
        for merchant_id in CONNECTED:
            installation.receiver.behave(merchant_id, Behaviour())
        async with Load(installation.database.dsn("webhook_producer"), CONNECTED, 40.0):
            await until(lambda: all(map(installation.receiver.of, CONNECTED)), 60)
            name_server.close()
            await installation.emit_each(MERCHANTS, 3)
            await until_found(lambda: pauses(installation))
            daemon = installation.daemons[0]
            await until(lambda: len(daemon.log("attempt.uncounted")) >= 2 * len(MERCHANTS), 60)
            for merchant_id in CONNECTED:
                served = len(installation.receiver.of(merchant_id))
                await installation.arrived(served + 20, merchant_id, deadline=60)
            assert len(daemon.log("fault.began")) == 1
            assert daemon.log("fault.ended") == []
            assert await installation.count("attempts > 1") == 0
            await name_server.listen(address)
            await until_found(lambda: has_delivered_all(installation), 60)
            await daemon.logged("fault.ended", 60)
        assert len(daemon.log("fault.began")) == 1
        assert await installation.count("state = 'failed'") == 0
        assert await is_ready(installation)


async def has_delivered_all(installation: Installation) -> bool:
    return await installation.count("state = 'delivered' AND merchant_id LIKE 'm%'") == 4 * len(MERCHANTS)


async def test_a_signer_that_is_broken_uses_up_no_attempts_and_sends_no_forgeries(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    (tmp_path / "sitecustomize.py").write_text(BREAKABLE_HMAC.format(broken=str(broken)))
    async with Receiver(refuses_forgeries=True) as installation.receiver:
        await installation.configure(*MERCHANTS)
        with monkeypatch.context() as environment:
            environment.setenv("PYTHONPATH", str(tmp_path))
            await installation.start(**QUICK)
        await accept_something(installation)
        broken.touch()
        await assert_nothing_is_used_up_until(installation, broken.unlink)
        # What was in flight when the first was refused.
        forged = [arrival for arrival in installation.receiver.arrivals if arrival.status == 401]
        assert 1 <= len(forged) <= len(MERCHANTS)


async def test_all_merchants_refusing_what_is_signed_well_is_theirs(installation: Installation) -> None:
    await installation.configure(*MERCHANTS)
    await installation.start(RETRY_SCHEDULE="PT1H")
    await accept_something(installation)
    for merchant_id in MERCHANTS:
        installation.receiver.behave(merchant_id, Behaviour(status=401))
    await installation.emit_each(MERCHANTS, 2)
    await until_found(lambda: has_attempted_all(installation), 60)
    assert installation.daemons[0].log("attempt.uncounted") == []
    assert (await installation.daemons[0].asked("/readyz"))[0] == 200


async def has_attempted_all(installation: Installation) -> bool:
    return await installation.count("attempts = 1") == 3 * len(MERCHANTS)


BEHIND = pytest.mark.slow(
    "acceptance/test_own_faults.py::test_a_clock_two_minutes_off_sends_nothing_until_it_is_right"
)


@pytest.mark.needs(FAKETIME is not None, "libfaketime is missing: apt-get install libfaketime")
@pytest.mark.parametrize("offset", ["+120", pytest.param("-120", marks=BEHIND)])
async def test_a_clock_two_minutes_off_sends_nothing_until_it_is_right(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: str
) -> None:
    clock = tmp_path / "clock"
    clock.write_text(offset)
    with monkeypatch.context() as environment:
        # After what sets the clock of the whole run, where there is one (lab/flaky): it asks the next.
        environment.setenv("LD_PRELOAD", f"{os.environ.get('LD_PRELOAD', '')} {FAKETIME}".lstrip())
        environment.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
        environment.setenv("FAKETIME_NO_CACHE", "1")
        environment.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        daemon = await installation.start(**QUICK)
    began = await daemon.logged("fault.began")
    assert f"clock is {offset[:2]}" in began["detail"]
    await installation.configure(*MERCHANTS)
    await installation.emit_each(MERCHANTS, 2)
    status, text = await daemon.asked("/readyz")
    assert status == 503
    assert "clock" in text
    # Two sweeps and many looks later nothing has been sent.
    looked = len(daemon.log())
    await installation.do("pause", MERCHANTS[0])
    await installation.do("resume", MERCHANTS[0])
    assert installation.receiver.arrivals == []
    assert len(daemon.log("fault.began")) == 1, daemon.log()[looked:]
    clock.write_text("+0")
    await installation.all_delivered(2 * len(MERCHANTS))
    assert len(daemon.log("fault.ended")) == 1
