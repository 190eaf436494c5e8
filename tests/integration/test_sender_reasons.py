"""Why an attempt failed, as an operator reads it, for what really happens on sockets and in TLS."""

import ssl
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.network import misbehaviour as m
from tests.network.misbehaviour import Scene, does, is_called, plainly, presents, says, talks
from tests.network.name_server import NXDOMAIN, SERVFAIL, Reply, addresses, serving
from tests.network.raw_receiver import OK, RawReceiver, Request, answering, status
from webhook_dispatcher.domain.verdict import MAX_DETAIL
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

LOOPBACK = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),)))
NAMES = {
    "nxdomain.attacker.dev": NXDOMAIN,
    "servfail.attacker.dev": SERVFAIL,
    "nothing.attacker.dev": Reply(),
    "inside.attacker.dev": addresses("10.0.0.1"),
}
OTHER_NAMES = m.authority.issue_cert("hooks.example.org", "198.41.0.4")
MANY_NAMES = m.authority.issue_cert(*[f"{'n' * 60}{number}.example.org" for number in range(50)])


# fmt: off
REASONS = [
    ("refuses", m.nobody_listens, "ECONNREFUSED"),
    ("closes", does(m.ends(b"", Request.close)), "connection closed (waiting for headers)"),
    ("resets", does(m.ends(b"", Request.reset)), "ECONNRESET (waiting for headers)"),
    ("resets amid the headers", does(m.ends(b"HTTP/1.1 200 OK\r\nX: ", Request.reset)),
     "ECONNRESET (reading headers)"),
    ("is no HTTP", says(b"SSH-2.0-OpenSSH_9\r\n"), "the answer is not valid HTTP"),
    ("expired", presents(m.expired), f"certificate expired on {(m.LONG_AGO + timedelta(days=1)).date()}"),
    ("is for later", presents(m.not_yet_valid), "certificate is not valid before *"),
    ("is somebody else's", presents(OTHER_NAMES),
     "certificate is for other names: hooks.example.org, 198.41.0.4"),
    ("is many others'", presents(MANY_NAMES),
     f"certificate is for other names: {'n' * 60}0.example.org, nnn*"),
    ("names nobody", presents(m.authority.issue_cert(common_name="127.0.0.1")), "certificate is for no name"),
    ("signed itself", says(OK, m.self_signed), "self-signed certificate"),
    ("is a stranger's", presents(m.unknown_issuer), "unable to get local issuer certificate"),
    ("speaks no TLS", plainly(m.greets(b"HTTP/1.1 400 Bad Request\r\n\r\n")), "TLS: *"),
    ("has no name", is_called("nxdomain.attacker.dev"), "name does not exist"),
    ("has no address", is_called("nothing.attacker.dev"), "name has no address"),
    ("has a broken name server", is_called("servfail.attacker.dev"), "name server failed (SERVFAIL)"),
    ("is within", is_called("inside.attacker.dev"),
     "name resolves to what must not be dialled: 10.0.0.1 is not a public address (private use, RFC 1918)"),
    ("redirects", says(status("302 \x1b[31mhere", "Location: /x")), "302 Found"),
    ("is busy", says(status("503 all\xa0gone")), "503 Service Unavailable"),
    ("is a stranger status", says(status("529 Site overloaded")), "529"),
]
IN_A_HURRY = [
    ("says nothing", plainly(m.say_nothing), "no answer within 0.5 s (in the TLS handshake)"),
    ("drops the SYN", m.backlog_is_full, "no answer within 0.5 s (connecting)"),
    ("is silent after the handshake", talks(m.say_nothing), "no answer within 0.5 s (waiting for headers)"),
    ("drips", does(m.drips(b"HTTP/1.1 200 OK\r\nX: ")), "no answer within 0.5 s (reading headers)"),
]
# fmt: on
CASES = [(*case, 20.0) for case in REASONS] + [(*case, 0.5) for case in IN_A_HURRY]


@pytest.fixture
def ca_file(tmp_path: Path) -> Path:
    m.authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path / "ca.pem"


@pytest.mark.parametrize(
    ("scene", "words", "seconds"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
async def test_an_operator_reads_why(ca_file: Path, scene: Scene, words: str, seconds: float) -> None:
    async with (
        serving(NAMES) as (_, server),
        Sender(LOOPBACK, timedelta(seconds=seconds), "test", ca_file, nameservers=[server]) as sender,
        scene() as target,
    ):
        seen = await sender.post(f"{target.url}?token=sesame", {}, b"{}")
    assert seen.detail == words or (words.endswith("*") and seen.detail.startswith(words[:-1]))
    assert len(seen.detail) <= MAX_DETAIL
    assert "sesame" not in seen.detail


def _presenting(folder: Path, *pems: trustme.Blob) -> ssl.SSLContext:
    (folder / "presented.pem").write_bytes(b"".join(pem.bytes() for pem in pems))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "presented.pem")
    return context


async def test_a_chain_names_what_may_have_expired(ca_file: Path, tmp_path: Path) -> None:
    """What is presented besides need not have been looked at: both days are told."""
    end = m.LONG_AGO + timedelta(days=400)
    certificate = m.authority.issue_cert("127.0.0.1", not_before=m.LONG_AGO, not_after=end)
    context = _presenting(tmp_path, certificate.private_key_and_cert_chain_pem, *m.expired.cert_chain_pems)
    async with (
        RawReceiver(answering(OK), context) as receiver,
        Sender(LOOPBACK, timedelta(seconds=20), "test", ca_file) as sender,
    ):
        seen = await sender.post(receiver.url(), {}, b"{}")
    first = (m.LONG_AGO + timedelta(days=1)).date()
    assert (
        seen.detail == f"certificate of the chain expired on {first}, or the receiver's own on {end.date()}"
    )


def _names_itself(name: str) -> trustme.Blob:
    """Return a key and a certificate of the authority for a name that no authority would sign."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(m.authority.cert_pem.bytes())
    signer = serialization.load_pem_private_key(m.authority.private_key_pem.bytes(), None)
    certificate = (
        x509.CertificateBuilder(issuer.subject, x509.Name([]), key.public_key(), 1)
        .not_valid_before(m.LONG_AGO)
        .not_valid_after(m.LONG_AGO + timedelta(days=365 * 90))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return trustme.Blob(key.private_bytes(pem, *plain) + certificate.public_bytes(pem))


async def test_a_name_in_a_certificate_drives_no_terminal(ca_file: Path, tmp_path: Path) -> None:
    context = _presenting(tmp_path, _names_itself("a\x1b[2J\r\n\x7f.example"))
    async with (
        RawReceiver(answering(OK), context) as receiver,
        Sender(LOOPBACK, timedelta(seconds=20), "test", ca_file) as sender,
    ):
        seen = await sender.post(receiver.url(), {}, b"{}")
    assert seen.detail == "certificate is for other names: a?[2J???.example"
