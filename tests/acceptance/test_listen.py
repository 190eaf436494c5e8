"""`listen` as a merchant's developer runs it: what it answers and says."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import pytest

from tests.acceptance.processes import command, environment
from webhook_dispatcher.domain.signing import Secret, signature, standard_headers
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.forwarding import Forwarder
from webhook_dispatcher.local.receiver import Receiver

SECRET = Secret.from_random(bytes(range(32)))
OTHER = Secret.from_random(bytes(range(32, 64)))
BODY = b'{"id":"0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11"}'


@contextmanager
def listening(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    environ = environment({}) | {"LISTEN_SECRET": SECRET.revealed.decode()}
    with command("listen", "--port", "0", *options, environ=environ, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        yield process.stderr.readline().removeprefix("listening at ").strip(), process


@pytest.mark.parametrize(
    ("secret", "age", "status", "said"),
    [
        (SECRET, 0, 200, "signature right"),
        (SECRET, 400, 400, "SIGNATURE RIGHT BUT MORE THAN 300 S OFF"),
        (OTHER, 0, 401, "SIGNATURE WRONG"),
        (OTHER, 400, 401, "SIGNATURE WRONG"),
        (None, 0, 401, "SIGNATURE MISSING"),
    ],
    ids=("right", "stale", "wrong", "stale and wrong", "missing"),
)
async def test_a_stale_event_is_told_from_a_wrong_signature(
    secret: Secret | None, age: int, status: int, said: str
) -> None:
    header = {"Service-Signature": signature(BODY, (secret,), int(time.time()) - age)} if secret else {}
    with listening() as (url, process):
        async with aiohttp.ClientSession() as client, client.post(url, data=BODY, headers=header) as response:
            assert response.status == status
        assert process.stdout is not None
        assert f"{said}, answered {status}" in process.stdout.readline()


@pytest.mark.parametrize(("id_", "status"), [("evt", 200), ("other", 401)])
async def test_both_signatures_are_verified_under_a_platforms_own_prefix(id_: str, status: int) -> None:
    now = int(time.time())
    headers = {"Acme-Signature": signature(BODY, (SECRET,), now)} | standard_headers(
        id_, BODY, (SECRET,), now
    )
    with listening("--header-prefix", "Acme-") as (url, _):
        async with (
            aiohttp.ClientSession() as client,
            client.post(url, data=BODY, headers={**headers, "webhook-id": "evt"}) as response,
        ):
            assert response.status == status


@pytest.mark.parametrize("prefix", ["Acme-", "Service-"])
async def test_headers_of_another_prefix_are_named_with_the_option(prefix: str) -> None:
    headers = {f"{prefix}{name}": "x" for name in ("Event-Id", "Event-Type", "Signature")}
    with listening() as (url, process):
        async with (
            aiohttp.ClientSession() as client,
            client.post(url, data=BODY, headers=headers) as response,
        ):
            assert response.status == 401
        process.terminate()
        _, said = await asyncio.to_thread(process.communicate)
    assert ("begin with acme-, and not with Service-: give --header-prefix acme-" in said) == (
        prefix == "Acme-"
    )


async def test_a_request_is_forwarded_as_it_came_and_answered_as_its_receiver_answers() -> None:
    got: list[bytes] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(len(BODY)))
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 8\r\n\r\nnot \x1bnow")
        writer.close()

    right = signature(BODY, (SECRET,), int(time.time()))
    headers = {"serVice-Signature": right, "X-odd": "a  b", "User-Agent": "webhook-dispatcher/1"}
    async with await asyncio.start_server(receive, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        with listening("--forward-to", f"http://localhost:{port}/hook?a=%2F") as (url, process):
            async with (
                aiohttp.ClientSession(
                    skip_auto_headers=["Accept", "Accept-Encoding", "Content-Type"]
                ) as client,
                client.post(url, data=BODY, headers=headers) as response,
            ):
                assert response.status == 503
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(4)]
    head, body = got[0].split(b"\r\n\r\n")
    assert body == BODY
    first, *fields = head.decode().split("\r\n")
    assert first == "POST /hook?a=%2F HTTP/1.1"
    assert sorted(fields) == sorted(
        [f"Host: localhost:{port}", f"Content-Length: {len(BODY)}"]
        + [f"{name}: {value}" for name, value in headers.items()]
    )
    assert "signature right, answered 503" in said[0]
    assert said[2:] == ["forwarded: 503 Busy\n", "not \N{REPLACEMENT CHARACTER}now\n"]


async def test_a_receiver_that_is_not_there_is_a_502_that_says_so() -> None:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
    with listening("--json", "--forward-to", f"http://127.0.0.1:{port}/") as (url, process):
        async with aiohttp.ClientSession() as client, client.post(url, data=BODY) as response:
            assert response.status == 502
        assert process.stdout is not None
        arrival = json.loads(process.stdout.readline())
    assert (arrival["status"], arrival["signature"]) == (502, "missing")
    assert arrival["answer"] == f"not forwarded: nothing listens at http://127.0.0.1:{port}/"


async def test_a_receiver_that_does_not_answer_is_a_504() -> None:
    async with (
        Receiver(behaviour=Behaviour(hangs=True)) as hanging,
        Forwarder(hanging.url(""), timeout_seconds=0.05) as forwarder,
        Receiver(forward=forwarder.forward) as receiver,
        aiohttp.ClientSession() as client,
        client.post(receiver.url(""), data=BODY) as response,
    ):
        assert response.status == 504
    assert receiver.arrivals[0].answer == "forwarded: no answer within 0.05 s"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:3000/hook", "must be a URL such as http://localhost:3000/hook"),
        ("https://localhost/", "must be a URL such as http://localhost:3000/hook"),
        ("http://localhost:99999/", "must be a URL such as http://localhost:3000/hook"),
        ("http://10.0.0.1/", "10.0.0.1 is not this machine"),
        ("http://localhost.example/", "localhost.example is not this machine"),
        ("http://localhost:8090/", "port 8090 is our own"),
    ],
)
def test_what_cannot_be_forwarded_to_is_refused_at_once(url: str, said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "webhook_dispatcher", "listen", "--forward-to", url],
        env=environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, said in ended.stderr, len(ended.stderr.splitlines())) == (2, True, 1)
