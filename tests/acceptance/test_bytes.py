"""What a merchant receives, byte for byte. Source: contract 1."""

import re
import time
from datetime import UTC, datetime
from email.message import Message
from uuid import UUID

import pytest

from tests.acceptance.installation import Installation
from webhook_dispatcher.domain.signing import is_signed
from webhook_dispatcher.local.arrivals import Signature
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.version import USER_AGENT

AWKWARD = '{ "b": 1.10,  "a":1e3,"n":"\\u00e9 é \\/", "a": [ 1 ,2 ],\t"big":12345678901234567890.0,\n"e":{ }}'
WITH_TIME = (
    "INSERT INTO webhook.outbox (id, merchant_id, type, created_at, object) "
    "VALUES ($1, $2, 'charge.succeeded', $3, $4)"
)


@pytest.mark.parametrize("sender", ["llhttp", "aiohttp"])
async def test_body_is_the_producers_text_and_the_headers_are_those_of_the_contract(
    installation: Installation, sender: str
) -> None:
    await installation.configure("m1")
    event_id = UUID("0E4F2E66-3F0C-4F6F-8F7E-2D1A5B0C9D3E")
    created_at = datetime(2026, 11, 20, 8, 15, 30, 123_999, UTC)
    await installation.producer.execute(WITH_TIME, event_id, "m1", created_at, AWKWARD)
    daemon = await installation.start(SENDER=sender)
    [arrival] = await installation.arrived(1)
    assert daemon.log("daemon.started")[0]["sender"] == sender

    assert arrival.body == (
        b'{"id":"0e4f2e66-3f0c-4f6f-8f7e-2d1a5b0c9d3e","type":"charge.succeeded",'
        b'"createdAt":"2026-11-20T08:15:30.123Z","data":{"object":' + AWKWARD.encode() + b"}}"
    )
    headers = dict(arrival.headers)
    stamp = headers.pop("service-signature")
    assert re.fullmatch(r"t=[0-9]{10},v1=[0-9a-f]{64}", stamp)
    assert arrival.signature is Signature.RIGHT
    assert abs(int(stamp[2:12]) - time.time()) < 5
    assert headers == {
        "content-type": "application/json; charset=utf-8",
        "content-length": str(len(arrival.body)),
        "user-agent": USER_AGENT,
        "service-event-id": "0e4f2e66-3f0c-4f6f-8f7e-2d1a5b0c9d3e",
        "service-event-type": "charge.succeeded",
        "host": f"127.0.0.1:{installation.receiver.port}",
        "accept": "*/*",
    } | {name: text for name, text in headers.items() if name in ("accept-encoding", "connection")}


@pytest.mark.parametrize("sender", ["llhttp", "aiohttp"])
async def test_a_receiver_that_reads_text_by_its_charset_verifies_what_it_has_read(
    installation: Installation, sender: str
) -> None:
    """As Java's servlets read (`getReader`): without a charset in the header as Latin-1."""
    await installation.configure("m1")
    await installation.emit("m1", '{"description":"Книга, 5 000 сум"}')
    await installation.start(SENDER=sender)
    await installation.do("test_event", "m1")
    for arrival in await installation.arrived(2):
        header = Message()
        header["Content-Type"] = arrival.headers["content-type"]
        text = arrival.body.decode(header.get_content_charset("iso-8859-1"))
        secret = installation.receiver.secrets["m1"]
        assert is_signed(text.encode(), arrival.headers["service-signature"], (secret,)), text


async def test_retry_repeats_the_body_and_signs_it_afresh(installation: Installation) -> None:
    await installation.configure("m1")
    installation.receiver.behave("m1", Behaviour(status=500), Behaviour())
    event = await installation.emit("m1", AWKWARD)
    # Longer than a second, so that a fresh stamp differs.
    await installation.start(RETRY_SCHEDULE="PT1.1S")
    first, second = await installation.arrived(2)

    assert first.body == second.body
    assert first.headers["service-event-id"] == second.headers["service-event-id"] == str(event.id)
    assert [first.signature, second.signature] == [Signature.RIGHT, Signature.RIGHT]
    stamps = [re.split("[=,]", arrival.headers["service-signature"]) for arrival in (first, second)]
    assert int(stamps[1][1]) > int(stamps[0][1])
    assert stamps[0][3] != stamps[1][3]


async def test_largest_object_arrives_whole(installation: Installation) -> None:
    await installation.configure("m1")
    text = '{"é":"' + "é" * ((262_144 - 9) // 2) + '"}'
    await installation.emit("m1", text)
    await installation.start()
    [arrival] = await installation.arrived(1)
    assert arrival.body.endswith(b'"data":{"object":' + text.encode() + b"}}")
