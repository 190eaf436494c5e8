"""The receiver of chaos runs: merchants at addresses of their own, and a host that many share."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from lab.chaos.evidence import UNPROVEN, arrived_at
from lab.chaos.merchants import other_address
from lab.chaos.receiver import Merchants, Setting, SharedHost
from tests.network.name_server import addresses
from tests.network.name_server import serving as serving_names
from tests.servers.database import free_port
from webhook_dispatcher.domain.verdict import Answer, Failure
from webhook_dispatcher.local.arrivals import read_log
from webhook_dispatcher.transport import parsing, tls
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

OWN, SHARED = "127.1.7.1", "127.200.0.1"
MOVED = other_address(OWN)
NAME = "shop.merchants.test"


@dataclass
class Place:
    """A receiver with one merchant of each sort, and how to talk to it."""

    merchants: Merchants
    setting: Setting

    @asynccontextmanager
    async def connected(
        self, address: str, verify: ssl.VerifyMode = ssl.CERT_REQUIRED
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        tls = ssl.create_default_context(cafile=self.setting.ca_file)
        tls.check_hostname = verify is ssl.CERT_REQUIRED
        tls.verify_mode = verify
        is_shared = address == SHARED
        reader, writer = await asyncio.open_connection(
            address,
            self.setting.port,
            ssl=tls if is_shared else None,
            server_hostname=NAME if is_shared else None,
        )
        try:
            yield reader, writer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def post(self, address: str, merchant_id: str) -> int:
        """Return the status of one request on a connection of its own."""
        async with self.connected(address) as connection:
            return await ask(*connection, merchant_id)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, merchant_id: str) -> int:
    writer.write(f"POST /{merchant_id} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split()[1])


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Place]:
    setting = Setting(
        port=free_port(),
        addresses=[OWN, MOVED],
        shared_address=SHARED,
        hosted=["shop"],
        names=[NAME],
        ca_file=str(folder / "ca.pem"),
        log=str(folder / "arrivals.jsonl"),
        secrets={},
        behaviours={},
        dear=["shop"],
        dear_names=[NAME],
    )
    async with Merchants(setting) as merchants:
        yield Place(merchants, setting)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with serving(tmp_path) as place:
        yield place


async def test_merchants_behave_as_told_until_told_otherwise(place: Place) -> None:
    for status in (200, 503, 200):
        await place.merchants.obey({"behave": {"m1": [{"status": status}]}})
        assert await place.post(OWN, "m1") == status
        assert await place.post(SHARED, "shop") == 200


async def test_an_endpoint_does_what_its_merchant_does_unless_it_was_told_otherwise(place: Place) -> None:
    await place.merchants.obey({"behave": {"m1": [{"status": 503}]}})
    for told, status in (([{"status": 500}], 500), (None, 503)):
        await place.merchants.obey({"behave": {"m1.2": told}})
        assert await place.post(OWN, "m1.2") == status
        assert await place.post(OWN, "m1") == 503


async def test_where_a_merchant_was_before_it_moved_what_was_left_behind_answers(tmp_path: Path) -> None:
    async with serving(tmp_path) as place:
        assert await place.post(OWN, "m1") == 200
        for address, left_behind, at_own in ((MOVED, {"status": 503}, 503), (OWN, {}, 200)):
            await place.merchants.obey({"moved": {"m1": address}, "left_behind": left_behind})
            assert await place.post(OWN, "m1") == at_own
            assert await place.post(MOVED, "m1") == 200
    expected = ["", OWN, MOVED, OWN, MOVED]
    assert [arrived_at(arrival) for arrival in read_log(Path(place.setting.log))] == expected


async def test_a_host_that_refuses_takes_no_connection_and_cuts_those_that_are_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as place:
        async with place.connected(SHARED) as kept:
            assert await ask(*kept, "shop") == 200
            await place.merchants.obey({"shared_host": SharedHost.REFUSES})
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await ask(*kept, "shop")
        with pytest.raises(ConnectionRefusedError):
            await place.post(SHARED, "shop")
        assert await place.post(OWN, "m1") == 200
        await place.merchants.obey({"shared_host": SharedHost.SOUND})
        assert await place.post(SHARED, "shop") == 200
    # What was sent to it while it was gone has reached nobody.
    assert [arrival.merchant_id for arrival in read_log(Path(place.setting.log))] == ["shop", "m1", "shop"]


@pytest.mark.parametrize("how", [SharedHost.UNTRUSTED, SharedHost.EXPIRED])
async def test_a_certificate_that_is_another_authoritys_or_too_old_is_not_trusted(
    tmp_path: Path, how: SharedHost
) -> None:
    async with serving(tmp_path) as place:
        await place.merchants.obey({"shared_host": how})
        with pytest.raises(ssl.SSLCertVerificationError):
            await place.post(SHARED, "shop")
        async with place.connected(SHARED, verify=ssl.CERT_NONE) as trusting:
            assert await ask(*trusting, "shop") == 200
        await place.merchants.obey({"shared_host": SharedHost.SOUND})
        assert await place.post(SHARED, "shop") == 200
    arrivals = read_log(Path(place.setting.log))
    assert [UNPROVEN in arrival.headers for arrival in arrivals] == [True, False]


async def test_a_host_that_is_told_to_be_sound_has_a_new_certificate_and_keeps_its_connections(
    place: Place,
) -> None:
    def certificate(writer: asyncio.StreamWriter) -> bytes | None:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)  # type: ignore[no-any-return]

    async with place.connected(SHARED) as kept:
        await place.merchants.obey({"shared_host": SharedHost.SOUND})
        assert await ask(*kept, "shop") == 200
        async with place.connected(SHARED) as new:
            assert await ask(*new, "shop") == 200
            assert certificate(new[1]) != certificate(kept[1])


async def test_a_host_that_closes_ends_each_connection_with_its_answer(place: Place) -> None:
    async with place.connected(SHARED) as kept:
        assert await ask(*kept, "shop") == 200
        await place.merchants.obey({"shared_host": SharedHost.CLOSES})
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await ask(*kept, "shop")
    async with place.connected(SHARED) as connection:
        assert await ask(*connection, "shop") == 200
        assert await connection[0].read() == b""


async def test_a_dear_host_is_served_and_is_not_far_from_each_bound(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.merchants.obey({"shared_host": SharedHost.DEAR})
    guard = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_hosts=frozenset({NAME})))
    ca_file, url = Path(place.setting.ca_file), f"https://{NAME}:{place.setting.port}/shop"
    async with (
        serving_names({NAME: addresses(SHARED)}) as (_, server),
        Sender(guard, timedelta(seconds=20), "test", ca_file, nameservers=[server]) as sender,
    ):
        for module, bound in ((tls, "_MAX_HANDSHAKE_BYTES"), (parsing, "_HEADERS_LIMIT")):
            assert await sender.post(url, {}, b"{}") == Answer(200)
            with monkeypatch.context() as smaller:
                smaller.setattr(module, bound, int(getattr(module, bound) * 0.9))
                assert isinstance(await sender.post(url, {}, b"{}"), Failure)
