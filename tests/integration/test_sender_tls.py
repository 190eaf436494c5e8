"""TLS: always verified, never below 1.2, with the operator's certificates added to the system's."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
import trustme

from tests.network.name_server import addresses, serving
from tests.network.raw_receiver import OK, RawReceiver, answering
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

LOOPBACK = Guard(
    EgressPolicy(
        allow_networks=(ip_network("127.0.0.0/8"),), allow_hosts=frozenset({"localhost"}), allow_http=True
    )
)
HEADERS = {"Content-Type": "application/json"}
LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)

authority = trustme.CA()
stranger = trustme.CA()


def context_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def good_context() -> ssl.SSLContext:
    return context_of(authority.issue_cert("127.0.0.1", "localhost"))


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Sender]:
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca_file)
    async with Sender(LOOPBACK, timedelta(seconds=5), "test", ca_file) as sender:
        yield sender


def outcome_of(seen: Answer | Failure) -> Outcome:
    assert isinstance(seen, Failure), seen
    assert seen.detail.isprintable()
    return seen.outcome


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost"])
async def test_verified_receiver_is_answered_over_a_kept_connection(sender: Sender, host: str) -> None:
    async with RawReceiver(answering(OK), good_context()) as receiver:
        for _ in range(3):
            assert await sender.post(receiver.url(host=host), HEADERS, b"{}") == Answer(200)
        assert receiver.connections == 1
        assert receiver.requests[0].headers["host"] == f"{host.lower()}:{receiver.port}"


async def test_tls_1_2_is_enough(sender: Sender) -> None:
    context = good_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with RawReceiver(answering(OK), context) as receiver:
        assert await sender.post(receiver.url(), HEADERS, b"{}") == Answer(200)


@pytest.mark.parametrize(
    "certificate",
    [
        stranger.issue_cert("127.0.0.1"),
        authority.issue_cert("hooks.example.org"),
        authority.issue_cert("127.0.0.1", not_before=LONG_AGO, not_after=LONG_AGO + timedelta(days=1)),
        authority.issue_cert("127.0.0.1", not_before=LONG_AGO + timedelta(days=365 * 90)),
    ],
    ids=["unknown-issuer", "wrong-host", "expired", "not-yet-valid"],
)
async def test_certificate_that_does_not_verify_is_refused(
    sender: Sender, certificate: trustme.LeafCert
) -> None:
    async with RawReceiver(answering(OK), context_of(certificate)) as receiver:
        seen = await sender.post(receiver.url(), HEADERS, b"{}")
        assert outcome_of(seen) is Outcome.TLS
        assert receiver.requests == []


async def test_a_common_name_is_no_host_name(tmp_path: Path) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    name = "common.attacker.dev"
    async with (
        RawReceiver(answering(OK), context_of(authority.issue_cert(common_name=name))) as receiver,
        serving({name: addresses("127.0.0.1")}) as (_, server),
        Sender(LOOPBACK, timedelta(seconds=20), "test", tmp_path / "ca.pem", nameservers=[server]) as sender,
    ):
        assert outcome_of(await sender.post(receiver.url(host=name), HEADERS, b"{}")) is Outcome.TLS


async def test_old_tls_is_refused(sender: Sender) -> None:
    context = good_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with RawReceiver(answering(OK), context) as receiver:
        assert outcome_of(await sender.post(receiver.url(), HEADERS, b"{}")) is Outcome.TLS


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_receiver_that_wants_a_client_certificate_is_a_tls_failure(
    sender: Sender, version: ssl.TLSVersion
) -> None:
    context = good_context()
    context.minimum_version = context.maximum_version = version
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    async with RawReceiver(answering(OK), context) as receiver:
        seen = await sender.post(receiver.url(), HEADERS, b"{}")
        assert outcome_of(seen) is Outcome.TLS
        assert receiver.requests == []


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"220 mail.example.org ESMTP\r\n"]
)
async def test_plain_text_where_tls_is_due_is_a_tls_failure(sender: Sender, greeting: bytes) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(greeting)
        writer.close()

    async with RawReceiver(converse=greet) as receiver:
        seen = await sender.post(f"https://127.0.0.1:{receiver.port}/", HEADERS, b"{}")
        assert outcome_of(seen) is Outcome.TLS


async def test_silent_handshake_is_a_timeout() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        RawReceiver(converse=say_nothing) as receiver,
        Sender(LOOPBACK, timedelta(seconds=0.2), "test") as hasty,
    ):
        seen = await hasty.post(f"https://127.0.0.1:{receiver.port}/", HEADERS, b"{}")
    assert seen == Failure(Outcome.TIMEOUT, "no answer within 0.2 s (in the TLS handshake)")


async def test_stale_tls_connection_is_replaced(sender: Sender) -> None:
    async with RawReceiver(answering(OK), good_context()) as receiver:
        assert await sender.post(receiver.url(), HEADERS, b"{}") == Answer(200)
        behave = receiver.behave

        async def fail_once(request: object) -> None:
            receiver.behave = behave
            receiver.requests[-1].close()

        receiver.behave = fail_once
        assert await sender.post(receiver.url(), HEADERS, b"{}") == Answer(200)
        assert receiver.connections == 2


@pytest.mark.parametrize("greeting", [b"", b"220 mail.example.org ESMTP\r\n"])
async def test_address_whose_handshake_fails_is_not_the_last_one_tried(
    tmp_path: Path, greeting: bytes
) -> None:
    refused = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal refused
        refused += 1
        await reader.read(1)
        writer.write(greeting)
        writer.close()

    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    names = ("one.attacker.dev", "two.attacker.dev")
    here, there = "127.0.0.1", "127.0.0.2"
    async with (
        RawReceiver(answering(OK), context_of(authority.issue_cert(*names)), address=there) as receiver,
        await asyncio.start_server(refuse, here, receiver.port),
        serving({names[0]: addresses(here, there), names[1]: addresses(there, here)}) as (_, server),
        Sender(LOOPBACK, timedelta(seconds=20), "test", tmp_path / "ca.pem", nameservers=[server]) as sender,
    ):
        for name in names:
            assert await sender.post(receiver.url(host=name), HEADERS, b"{}") == Answer(200)
    assert refused > 0, "whatever order the resolver chose, one of the names leads to this address first"


async def test_system_roots_alone_do_not_trust_a_private_authority() -> None:
    async with (
        RawReceiver(answering(OK), good_context()) as receiver,
        Sender(LOOPBACK, timedelta(seconds=5), "test") as plain,
    ):
        assert outcome_of(await plain.post(receiver.url(), HEADERS, b"{}")) is Outcome.TLS


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_unusable_ca_file_is_a_configuration_error(tmp_path: Path, content: str | None) -> None:
    ca_file = tmp_path / "ca.pem"
    if content is not None:
        ca_file.write_text(content)
    with pytest.raises(ConfigurationError, match="WEBHOOK_EGRESS_CA_FILE"):
        Sender(LOOPBACK, timedelta(seconds=5), "test", ca_file)


def test_a_ca_file_adds_to_the_system_roots(tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca_file)
    without = Sender(LOOPBACK, timedelta(seconds=5), "test")._context.cert_store_stats()["x509_ca"]
    with_file = Sender(LOOPBACK, timedelta(seconds=5), "test", ca_file)._context.cert_store_stats()["x509_ca"]
    assert with_file == without + 1
