"""TLS: always verified, never below 1.2, with the operator's certificates added to the system's."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
import trustme

from tests.external_programs import program
from tests.network.name_server import addresses, serving
from tests.network.raw_receiver import OK, RawReceiver, answering
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport import costly
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

LOOPBACK = Guard(
    EgressPolicy(
        allow_networks=(ip_network("127.0.0.0/8"),), allow_hosts=frozenset({"localhost"}), allow_http=True
    )
)
HEADERS = {"Content-Type": "application/json; charset=utf-8"}
# A handshake_failure, which ends one that our side has begun.
ALERT = bytes.fromhex("15 0303 0002 0228")
LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)

# Source: RFC 7919, A.1.
FFDHE_2048 = """\
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""

authority = trustme.CA()
stranger = trustme.CA()


def context_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def good_context() -> ssl.SSLContext:
    return context_of(authority.issue_cert("127.0.0.1", "localhost"))


def context_of_tls_1_2(suites: str, folder: Path) -> ssl.SSLContext:
    """Prefer these suites in this order, over whatever the client prefers."""
    (folder / "group.pem").write_text(FFDHE_2048)
    context = context_of(authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_ciphers(suites)
    context.load_dh_params(str(folder / "group.pem"))
    return context


@asynccontextmanager
async def renegotiating(certificate: Path) -> AsyncIterator[int]:
    """Ask for another handshake instead of an answer, which Python's ssl cannot; give the port."""
    server = await asyncio.create_subprocess_exec(
        program("openssl", "openssl"),
        *("s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-tls1_2", "-cert", certificate),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    said, told = server.stdout, server.stdin
    assert said is not None
    assert told is not None

    async def line(beginning: bytes) -> bytes:
        while not (text := await said.readline()).startswith(beginning):
            assert text, f"openssl has ended without {beginning!r}"
        return text

    async def renegotiate() -> None:
        await line(b"POST ")
        told.write(b"r\n")

    port = int((await line(b"ACCEPT ")).rpartition(b":")[2])
    asking = asyncio.create_task(renegotiate())
    try:
        yield port
        await asking
    finally:
        asking.cancel()
        with suppress(ProcessLookupError):
            server.kill()
        await server.communicate()


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


async def test_a_common_name_is_no_host_name(tmp_path: Path) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    name = "common.attacker.dev"
    async with (
        RawReceiver(answering(OK), context_of(authority.issue_cert(common_name=name))) as receiver,
        serving({name: addresses("127.0.0.1")}) as (_, server),
        Sender(LOOPBACK, timedelta(seconds=20), "test", tmp_path / "ca.pem", nameservers=[server]) as sender,
    ):
        assert outcome_of(await sender.post(receiver.url(host=name), HEADERS, b"{}")) is Outcome.TLS


@pytest.mark.parametrize(
    ("host", "names", "is_served"),
    [
        ("my_shop.tenants.dev", ["*.tenants.dev"], True),
        ("_hook.tenants.dev", ["other.dev", "*.Tenants.dev"], True),
        ("my_shop.tenants.dev", ["tenants.dev", "*.attacker.dev", "my-shop.tenants.dev"], False),
        ("my_shop.a.tenants.dev", ["*.tenants.dev"], False),
        ("my_shop.dev", ["*.dev"], False),
    ],
)
async def test_names_with_underscores_have_certificates_like_others(
    host: str, names: list[str], is_served: bool, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with (
        RawReceiver(answering(OK), context_of(authority.issue_cert(*names))) as receiver,
        serving({host: addresses("127.0.0.1")}) as (_, server),
        Sender(LOOPBACK, timedelta(seconds=20), "test", tmp_path / "ca.pem", nameservers=[server]) as sender,
    ):
        seen = await sender.post(receiver.url(host=host), HEADERS, b"{}")
        assert seen.outcome is (Outcome.DELIVERED if is_served else Outcome.TLS)
        assert len(receiver.requests) == is_served
        # Whoever is next is looked at as always.
        assert outcome_of(await sender.post(receiver.url(), HEADERS, b"{}")) is Outcome.TLS


@pytest.mark.parametrize(
    "certificate",
    [
        stranger.issue_cert("*.tenants.dev"),
        authority.issue_cert("*.tenants.dev", not_before=LONG_AGO, not_after=LONG_AGO + timedelta(days=1)),
        authority.issue_cert(common_name="my_shop.tenants.dev"),
    ],
    ids=["unknown-issuer", "expired", "no-name"],
)
async def test_certificates_for_names_with_underscores_are_verified(
    certificate: trustme.LeafCert, tmp_path: Path
) -> None:
    host = "my_shop.tenants.dev"
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with (
        RawReceiver(answering(OK), context_of(certificate)) as receiver,
        serving({host: addresses("127.0.0.1")}) as (_, server),
        Sender(LOOPBACK, timedelta(seconds=20), "test", tmp_path / "ca.pem", nameservers=[server]) as sender,
    ):
        assert outcome_of(await sender.post(receiver.url(host=host), HEADERS, b"{}")) is Outcome.TLS
        assert receiver.requests == []


async def test_a_receiver_with_dhe_alone_is_refused(sender: Sender, tmp_path: Path) -> None:
    async with RawReceiver(answering(OK), context_of_tls_1_2("DHE+AESGCM", tmp_path)) as receiver:
        assert outcome_of(await sender.post(receiver.url(), HEADERS, b"{}")) is Outcome.TLS


async def test_a_receiver_that_would_rather_speak_dhe_speaks_ecdhe(sender: Sender, tmp_path: Path) -> None:
    context = context_of_tls_1_2("DHE+AESGCM:ECDHE+AESGCM", tmp_path)
    async with RawReceiver(answering(OK), context) as receiver:
        assert await sender.post(receiver.url(), HEADERS, b"{}") == Answer(200)
        suite, _, _ = receiver.requests[0].writer.get_extra_info("cipher")
        assert suite.startswith("ECDHE-")


async def test_a_receiver_with_another_group_alone_is_refused(sender: Sender) -> None:
    context = good_context()
    context.set_ecdh_curve("secp521r1")
    async with RawReceiver(answering(OK), context) as receiver:
        assert outcome_of(await sender.post(receiver.url(), HEADERS, b"{}")) is Outcome.TLS


@pytest.mark.parametrize(("names", "is_served"), [(2000, True), (3000, False)])
async def test_a_handshake_of_more_than_32_kib_is_refused(
    sender: Sender, names: int, *, is_served: bool
) -> None:
    certificate = authority.issue_cert("127.0.0.1", *(f"{number}.example" for number in range(names)))
    async with RawReceiver(answering(OK), context_of(certificate)) as receiver:
        seen = await sender.post(receiver.url(), HEADERS, b"{}")
        if is_served:
            assert seen == Answer(200)
        else:
            assert seen == Failure(Outcome.TLS, "TLS: handshake of more than 32 KiB")


async def test_renegotiation_is_refused(sender: Sender, tmp_path: Path) -> None:
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "leaf.pem")
    async with renegotiating(tmp_path / "leaf.pem") as port:
        assert outcome_of(await sender.post(f"https://127.0.0.1:{port}/", HEADERS, b"{}")) is Outcome.TLS


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


async def test_behind_a_costly_handshake_no_other_address_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costly, "_COSTLY_SECONDS", 0.0)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    name = "costly.attacker.dev"
    begun = 0

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun
        begun += 1
        await reader.read(1)
        writer.write(ALERT)
        writer.close()

    async with (
        RawReceiver(converse=begin) as receiver,
        await asyncio.start_server(begin, "127.0.0.2", receiver.port),
        serving({name: addresses("127.0.0.1", "127.0.0.2")}) as (_, server),
        Sender(LOOPBACK, timedelta(seconds=20), "test", tmp_path / "ca.pem", nameservers=[server]) as sender,
    ):
        seen = await sender.post(f"https://{name}:{receiver.port}/", HEADERS, b"{}")
    assert isinstance(seen, Failure)
    assert (seen.outcome, seen.is_costly) == (Outcome.TLS, True)
    assert begun == 1


async def test_an_answer_over_a_costly_connection_is_costly_once(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costly, "_COSTLY_SECONDS", 0.0)
    async with RawReceiver(answering(OK), good_context()) as receiver:
        seen = [await sender.post(receiver.url(), HEADERS, b"{}") for _ in range(2)]
    assert [answer.is_costly for answer in seen] == [True, False]


async def test_costly_receivers_have_two_handshakes_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costly, "_COSTLY_SECONDS", 0.0)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    opened, released = asyncio.Queue[None](), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.put_nowait(None)
        await released.wait()
        await reader.read(1)
        writer.write(ALERT)
        writer.close()

    async with (
        RawReceiver(converse=hold) as receiver,
        Sender(LOOPBACK, timedelta(seconds=20), "test", tmp_path / "ca.pem") as sender,
    ):
        url = f"https://127.0.0.1:{receiver.port}/"
        released.set()
        assert outcome_of(await sender.post(url, HEADERS, b"{}")) is Outcome.TLS
        await opened.get()
        released.clear()
        attempts = [asyncio.create_task(sender.post(url, HEADERS, b"{}")) for _ in range(5)]
        for _ in range(2):
            await opened.get()
        async with RawReceiver(answering(OK), good_context()) as other:
            assert await sender.post(other.url(), HEADERS, b"{}") == Answer(200), "others do not wait"
        assert opened.empty()
        released.set()
        assert {outcome_of(seen) for seen in await asyncio.gather(*attempts)} == {Outcome.TLS}
        assert receiver.connections == 6


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
    without, with_file = (
        Sender(LOOPBACK, timedelta(seconds=5), "test", file)._authorities.context()
        for file in (None, ca_file)
    )
    assert with_file.cert_store_stats()["x509_ca"] == without.cert_store_stats()["x509_ca"] + 1
