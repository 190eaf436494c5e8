"""Authorities that are exchanged on disk under a sender: who is accepted on the next connection."""

import os
import subprocess
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
import trustme
from structlog.testing import capture_logs

from tests.external_programs import program
from tests.integration.test_sender_tls import context_of
from tests.network.raw_receiver import OK, RawReceiver, answering
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

LOOPBACK = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),)))

old, new = trustme.CA(), trustme.CA()


@pytest.fixture(params=["WEBHOOK_EGRESS_CA_FILE", "SSL_CERT_FILE"])
def ca_file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of authorities, and let it be named like this."""
    named = tmp_path / "ca.pem"
    old.cert_pem.write_to_path(named)
    monkeypatch.setenv(request.param, str(named))
    return named


def make_sender() -> Sender:
    named = os.environ.get("WEBHOOK_EGRESS_CA_FILE")
    return Sender(LOOPBACK, timedelta(seconds=20), "test", Path(named) if named else None)


async def accepted(sender: Sender) -> list[bool]:
    """Tell of each authority whether a receiver of its is served over a connection that is new."""
    served = []
    for authority in (old, new):
        async with RawReceiver(answering(OK), context_of(authority.issue_cert("127.0.0.1"))) as receiver:
            served.append((await sender.post(receiver.url(), {}, b"{}")).status == 200)
    return served


def exchange(file: Path, content: bytes) -> None:
    """Put another file into its place, as Kubernetes and package managers do."""
    file.with_suffix(".new").write_bytes(content)
    file.with_suffix(".new").replace(file)


async def test_a_file_that_is_exchanged_counts_for_the_next_connection(ca_file: Path) -> None:
    async with make_sender() as sender:
        assert await accepted(sender) == [True, False]
        exchange(ca_file, new.cert_pem.bytes())
        assert await accepted(sender) == [False, True]


async def test_a_file_that_cannot_be_read_changes_nothing_and_is_named_once(ca_file: Path) -> None:
    whole = new.cert_pem.bytes()
    async with make_sender() as sender:
        for breaks in (
            lambda: exchange(ca_file, whole[: len(whole) // 2]),
            lambda: ca_file.write_bytes(b""),
            ca_file.unlink,
        ):
            breaks()
            with capture_logs() as logs:
                assert [await accepted(sender) for _ in range(2)] == [[True, False]] * 2
            assert [line["event"] for line in logs] == ["authorities.unreadable"]
        ca_file.write_bytes(whole)
        assert await accepted(sender) == [False, True]


async def test_what_is_taken_out_of_the_systems_folder_counts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path}/none{os.pathsep}{tmp_path}")

    def place(authority: trustme.CA) -> Path:
        """Return where OpenSSL looks for it."""
        asked = [str(program("openssl", "openssl")), "x509", "-noout", "-subject_hash"]
        said = subprocess.run(asked, input=authority.cert_pem.bytes(), capture_output=True, check=True)
        return tmp_path / f"{said.stdout.decode().strip()}.0"

    old.cert_pem.write_to_path(place(old))
    async with make_sender() as sender:
        assert await accepted(sender) == [True, False]
        place(old).unlink()
        new.cert_pem.write_to_path(place(new))
        assert await accepted(sender) == [False, True]
