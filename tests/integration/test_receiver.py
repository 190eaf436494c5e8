import asyncio
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.signing import Secret, signature
from webhook_dispatcher.local.arrivals import Arrival, Signature, out_of_order, overlapping, read_log
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.local.receiver import Behaviour, Receiver

SECRET = Secret("whsec_of-a-receiver-in-a-test")
BODY = b'{"id":"x"}'
SOON = timedelta(seconds=MAX_WAIT)


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


async def post(
    client: aiohttp.ClientSession,
    url: str,
    event_id: str = "event-1",
    header: str | None = None,
    **options: object,
) -> int:
    headers = {"Service-Event-Id": event_id, "Service-Event-Type": "charge.created"}
    if header is not None:
        headers["Service-Signature"] = header
    async with client.post(url, data=BODY, headers=headers, **options) as response:  # type: ignore[arg-type]
        return response.status


async def test_everything_about_a_request_is_logged(client: aiohttp.ClientSession) -> None:
    async with Receiver(secrets={"café/1": SECRET}) as receiver:
        before = time.monotonic()
        assert (
            await post(client, receiver.url("café/1"), header=signature(BODY, (SECRET,), int(time.time())))
            == 200
        )
        [arrival] = receiver.of("café/1")
        assert (arrival.event_id, arrival.type, arrival.attempt) == ("event-1", "charge.created", 1)
        assert (arrival.body, arrival.status, arrival.signature) == (BODY, 200, Signature.RIGHT)
        assert arrival.headers["content-length"] == str(len(BODY))
        assert arrival.ended_at is not None
        assert before < arrival.started_at < arrival.ended_at < time.monotonic()


def signed(body: bytes, *secrets: Secret, ago: int = 0) -> str:
    """Sign a body as of now: a slow machine may run a test long after it was collected."""
    return signature(body, secrets, int(time.time()) - ago)


@pytest.mark.parametrize(
    ("header", "verdict"),
    [
        (lambda: None, Signature.MISSING),
        (lambda: "", Signature.WRONG),
        (lambda: "t=,v1=", Signature.WRONG),
        (lambda: "t=1,v1=00", Signature.WRONG),
        (lambda: signed(BODY + b" ", SECRET), Signature.WRONG),
        (lambda: signed(BODY, Secret("whsec_of-somebody-else-altogether")), Signature.WRONG),
        (lambda: signed(BODY, Secret("whsec_newer-than-the-first"), SECRET), Signature.RIGHT),
        (lambda: signed(BODY, SECRET, ago=400), Signature.STALE),
        (lambda: signed(BODY, SECRET, ago=-3600), Signature.STALE),
        (lambda: "t=1,v1=é".encode().decode("latin-1"), Signature.WRONG),
        (lambda: f"t={'9' * 5000},v1=00", Signature.WRONG),
        (lambda: ", ".join(2 * [signed(BODY, SECRET)]), Signature.WRONG),
    ],
    ids=("none", "empty", "bare", "forged", "another body", "another secret", "two secrets", "old")
    + ("of the future", "not ASCII", "huge stamp", "joined"),
)
async def test_signatures_are_judged(
    client: aiohttp.ClientSession, header: Callable[[], str | None], verdict: Signature
) -> None:
    async with Receiver(secrets={"m": SECRET}) as receiver:
        await post(client, receiver.url("m"), header=header())
        assert receiver.arrivals[0].signature == verdict


async def test_a_header_sent_twice_is_no_signature() -> None:
    right = signature(BODY, (SECRET,), int(time.time()))
    header = f"Service-Signature: {right}\r\n"
    async with Receiver(secrets={"m": SECRET}) as receiver:
        for times in (1, 2):
            reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
            head = f"POST /m HTTP/1.1\r\n{header * times}Content-Length: {len(BODY)}\r\n\r\n"
            writer.write(head.encode() + BODY)
            await reader.readline()
            writer.close()
            await writer.wait_closed()
        assert [arrival.signature for arrival in receiver.arrivals] == [Signature.RIGHT, Signature.WRONG]


@pytest.mark.parametrize(
    ("age", "secret", "status"),
    [
        (0, SECRET, 200),
        (400, SECRET, 400),
        (0, Secret("whsec_of-somebody-else-altogether"), 401),
        (400, Secret("whsec_of-somebody-else-altogether"), 401),
        (0, None, 401),
    ],
    ids=("right", "stale", "wrong", "stale and wrong", "missing"),
)
async def test_a_strict_receiver_answers_as_merchants_are_advised(
    client: aiohttp.ClientSession, age: int, secret: Secret | None, status: int
) -> None:
    header = None if secret is None else signature(BODY, (secret,), int(time.time()) - age)
    async with Receiver(secrets={"m": SECRET}, refuses_forgeries=True) as receiver:
        assert await post(client, receiver.url("m"), header=header) == status


async def test_without_a_secret_nothing_is_judged(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        await post(client, receiver.url("m"), header="t=1,v1=00")
        assert receiver.arrivals[0].signature == Signature.UNCHECKED


async def test_connections_are_kept(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        for event in "abc":
            await post(client, receiver.url("m"), event)
        assert {arrival.connection for arrival in receiver.arrivals} == {1}


async def test_behaviours_take_turns_and_the_last_stays(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        receiver.behave("m", Behaviour(500), Behaviour(299), Behaviour(204))
        assert [await post(client, receiver.url("m"), event) for event in "abcd"] == [500, 299, 204, 204]
        assert await post(client, receiver.url("other")) == 200


async def test_behaviours_begin_again(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        receiver.behave("m", Behaviour(500), Behaviour(200), repeat=True)
        assert [await post(client, receiver.url("m"), event) for event in "abcd"] == [500, 200, 500, 200]


async def test_behaviours_by_event(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        receiver.behave("m", Behaviour(503), Behaviour(200), per_event=True)
        assert [await post(client, receiver.url("m"), event) for event in "abab"] == [503, 503, 200, 200]
        assert [arrival.attempt for arrival in receiver.arrivals] == [1, 1, 2, 2]


async def test_an_answer_is_delayed(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        receiver.behave("m", Behaviour(delay=timedelta(seconds=0.2)))
        await post(client, receiver.url("m"))
        [arrival] = receiver.arrivals
        assert arrival.ended_at is not None
        assert 0.2 <= arrival.ended_at - arrival.started_at < 2


async def test_a_hanging_request_ends_when_its_sender_gives_up(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        receiver.behave("m", Behaviour(hangs=True))
        with pytest.raises(TimeoutError):
            await post(client, receiver.url("m"), timeout=aiohttp.ClientTimeout(total=0.2))
        await receiver.wait_for(lambda arrivals: arrivals[0].ended_at is not None, SOON)
        assert receiver.arrivals[0].status is None


async def test_a_connection_is_cut_without_an_answer(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        receiver.behave("m", Behaviour(disconnects=True))
        with pytest.raises(aiohttp.ClientConnectionError):
            await post(client, receiver.url("m"))
        assert receiver.arrivals[0].ended_at is not None


async def test_an_answer_is_sent_verbatim(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        receiver.behave("m", Behaviour(raw=b"HTTP/1.0 218 Fine\r\nContent-Length: 0\r\n\r\n"))
        assert await post(client, receiver.url("m")) == 218


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"POST /m HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /m HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /m HTTP/1.1\r\nContent-Length: none\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"POST /m HTTP/1.1\r\nPadding: " + b"x" * 70_000, 431),
    ],
)
async def test_what_it_cannot_read_is_refused(request_head: bytes, status: int) -> None:
    async with Receiver() as receiver:
        reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
        writer.write(request_head)
        async with asyncio.timeout(SOON.total_seconds()):
            assert (await reader.readline()).startswith(b"HTTP/1.1 %d " % status)
        writer.close()
        await writer.wait_closed()
        assert not receiver.arrivals


async def test_a_request_may_come_in_pieces_and_another_close_behind() -> None:
    request = b"POST /m HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
    async with Receiver() as receiver:
        reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
        for piece in (request[:9], request[9:-1], request[-1:] + request):
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(SOON.total_seconds()):
            for _ in range(2):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await writer.wait_closed()
        assert [arrival.body for arrival in receiver.arrivals] == [b"abc", b"abc"]


async def test_waiting_in_vain_tells_what_came(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        await post(client, receiver.url("m"))
        with pytest.raises(TimeoutError, match=r"not within 0:00:00.05.*\('m', 200\): 1"):
            await receiver.wait_for(lambda arrivals: len(arrivals) == 2, timedelta(seconds=0.05))


async def test_first_attempts_at_once_are_found_out(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        receiver.behave("m", Behaviour(delay=timedelta(seconds=0.2)))
        await asyncio.gather(post(client, receiver.url("m"), "a"), post(client, receiver.url("m"), "b"))
        assert len(overlapping(receiver.arrivals)) == 1


async def test_first_attempts_in_turn_are_not(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        for event in "ab":
            await post(client, receiver.url("m"), event)
        await asyncio.gather(*(post(client, receiver.url("m"), event) for event in "ab"))
        assert overlapping(receiver.arrivals) == []


async def test_the_wrong_order_is_found_out(client: aiohttp.ClientSession) -> None:
    async with Receiver() as receiver:
        for event in "bab":
            await post(client, receiver.url("m"), event)
        await post(client, receiver.url("other"), "c")
        [(before, after)] = out_of_order(receiver.arrivals, {"a": 1, "b": 2, "c": 0})
        assert (before.event_id, after.event_id) == ("b", "a")
        assert out_of_order(receiver.arrivals, {"a": 2, "b": 1, "c": 0}) == []


async def test_https_with_a_certificate_made_on_the_spot(
    client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    ca_file = tmp_path / "ca.pem"
    async with Receiver(tls=server_context(ca_file)) as receiver:
        assert receiver.url("m").startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(ca_file))
        assert await post(client, receiver.url("m"), ssl=trusting) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await post(client, receiver.url("m"))


async def test_an_unanswered_request_does_not_hold_the_end_up(client: aiohttp.ClientSession) -> None:
    ended: list[Arrival] = []
    async with Receiver(on_arrival=ended.append) as receiver:
        receiver.behave("m", Behaviour(hangs=True))
        sending = asyncio.create_task(post(client, receiver.url("m")))
        await receiver.wait_for(lambda arrivals: bool(arrivals), SOON)
    with pytest.raises(aiohttp.ClientConnectionError):
        await sending
    assert ended[-1].ended_at is not None


async def test_a_receiver_of_its_own_process_writes_what_it_saw(
    client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    log = tmp_path / "arrivals.jsonl"
    secrets = tmp_path / "secrets.json"
    secrets.write_text(f'{{"m": "{SECRET.revealed.decode()}"}}')
    command = [sys.executable, "-m", "webhook_dispatcher.local.receiver", "--log", str(log)]
    command += ["--secrets", str(secrets), "--behaviours", '{"m": [{"status": 500}, {"status": 201}]}']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip() + "m"
        try:
            right = signature(BODY, (SECRET,), int(time.time()))
            assert [await post(client, url, event, right) for event in "ab"] == [500, 201]
        finally:
            process.terminate()
        assert process.wait(MAX_WAIT) == 0
    with log.open("a") as file:
        file.write('{"merchant_id": "cut sh')
    seen = read_log(log)
    assert [(arrival.event_id, arrival.status, arrival.signature, arrival.body) for arrival in seen] == [
        ("a", 500, Signature.RIGHT, BODY),
        ("b", 201, Signature.RIGHT, BODY),
    ]
