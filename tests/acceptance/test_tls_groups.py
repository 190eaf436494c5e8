"""The groups that a receiver may choose among, as it reads them in what each process sends first."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.supervised_processes import end, shares, start_processes
from tests.network.raw_receiver import RawReceiver
from tests.waiting import until

MERCHANTS = [f"m{number}" for number in range(10)]
# The whole extension supported_groups. Source: RFC 8446, 4.2.7.
X25519_P256_P384 = bytes.fromhex("000a 0008 0006 001d 0017 0018")
P256_ALONE = bytes.fromhex("000a 0004 0002 0017")


class Listener:
    """A receiver that takes a ClientHello down and closes."""

    def __init__(self) -> None:
        self.hellos: list[bytes] = []
        self.receiver = RawReceiver(converse=self._take_down)

    async def _take_down(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        head = await reader.readexactly(5)
        self.hellos.append(await reader.readexactly(int.from_bytes(head[3:])))


@pytest.fixture
async def listener(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listener]:
    """Have all merchants' receiver take down what it is sent, by fresh interpreters."""
    monkeypatch.delenv("OPENSSL_CONF", raising=False)
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)  # it would use OpenSSL first
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")  # no fork server has it
    listener = Listener()
    async with listener.receiver:
        await installation.configure(*MERCHANTS, url=f"https://127.0.0.1:{listener.receiver.port}/")
        yield listener


async def test_each_process_of_a_supervisor_offers_three_groups(
    installation: Installation, listener: Listener
) -> None:
    supervisor = await start_processes(installation, 2)
    try:
        while len(shares(supervisor)) < 2:
            await installation.emit_each(MERCHANTS, 1)
            await until(lambda: sum(shares(supervisor).values()) % len(MERCHANTS) == 0)
        assert all(X25519_P256_P384 in hello for hello in listener.hellos)
        assert supervisor.log("tls.groups_lacking") == []
    finally:
        end(supervisor)


async def test_where_openssl_is_configured_otherwise_one_group_is_offered_and_named(
    installation: Installation, listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openssl.cnf").touch()
    monkeypatch.setenv("OPENSSL_CONF", str(tmp_path / "openssl.cnf"))
    daemon = await installation.start()
    await installation.emit(MERCHANTS[0])
    await until(lambda: listener.hellos)
    assert P256_ALONE in listener.hellos[0]
    assert [entry["groups"] for entry in daemon.log("tls.groups_lacking")] == [["X25519", "P-384"]]
    results = json.loads(installation.command("check", "--json").stdout)
    [note] = [result["note"] for result in results if result["check"] == "tls"]
    assert "X25519, P-384" in note


async def test_an_operators_own_choice_among_the_groups_is_left_alone(
    installation: Installation, listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openssl.cnf").write_text(
        "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nGroups = P-384:P-256\n"
    )
    monkeypatch.setenv("OPENSSL_CONF", str(tmp_path / "openssl.cnf"))
    await installation.start()
    await installation.emit(MERCHANTS[0])
    await until(lambda: listener.hellos)
    assert bytes.fromhex("000a 0006 0004 0018 0017") in listener.hellos[0]


async def test_check_has_nothing_to_say_of_the_usual_groups(
    installation: Installation, listener: Listener
) -> None:
    results = json.loads(installation.command("check", "--json").stdout)
    assert [result["note"] for result in results if result["check"] == "tls"] == [None]
