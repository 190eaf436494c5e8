"""Faults of this machine, brought about for real, are told apart from merchants'."""

import contextlib
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.integration.test_sender_guard import name_server
from tests.network.name_server import NXDOMAIN, Reply, addresses, serving
from tests.network.raw_receiver import OK, RawReceiver, answering
from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

LOOPBACK = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))
ENOUGH = timedelta(seconds=5)


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    """Let no file descriptor be opened; those that are open go on working."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))  # below 1, poll() asks about none
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_no_file_descriptors_is_our_fault() -> None:
    async with RawReceiver(answering(OK)) as receiver, Sender(LOOPBACK, ENOUGH, "test") as sender:
        with no_more_files():
            seen = await sender.post(receiver.url(), {}, b"{}")
        assert seen == Failure(Outcome.CONNECT, "EMFILE", is_ours=True)
        assert await sender.post(receiver.url(), {}, b"{}") == Answer(200)


async def test_no_file_descriptor_for_a_look_up_is_our_fault() -> None:
    async with (
        name_server() as (_, address),
        Sender(LOOPBACK, ENOUGH, "test", nameservers=[address]) as sender,
    ):
        with no_more_files():
            seen = await sender.post("https://nowhere.attacker.dev/", {}, b"{}")
        assert isinstance(seen, Failure)
        assert (seen.outcome, seen.is_ours) == (Outcome.DNS, True), seen


async def test_kept_connection_needs_no_file_descriptor() -> None:
    async with RawReceiver(answering(OK)) as receiver, Sender(LOOPBACK, ENOUGH, "test") as sender:
        assert await sender.post(receiver.url(), {}, b"{}") == Answer(200)
        with no_more_files():
            assert await sender.post(receiver.url(), {}, b"{}") == Answer(200)


@contextlib.contextmanager
def unused_port() -> Iterator[int]:
    """Reserve a port at which no name server answers, over UDP or TCP."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def test_name_servers_that_are_gone_are_our_fault() -> None:
    with unused_port() as port:
        async with Sender(LOOPBACK, ENOUGH, "test", nameservers=[f"127.0.0.1:{port}"]) as sender:
            seen = [await sender.post(f"https://a{n}.attacker.dev/", {}, b"{}") for n in range(4)]
    assert {failure.outcome for failure in seen} == {Outcome.DNS}
    assert all(isinstance(failure, Failure) and failure.is_ours for failure in seen)


async def test_one_name_server_of_two_that_is_gone_is_nobodys_fault() -> None:
    async with serving({}) as (_, address):
        with unused_port() as port:
            servers = [f"127.0.0.1:{port}", address]
            async with Sender(LOOPBACK, ENOUGH, "test", nameservers=servers) as sender:
                seen = [await sender.post(f"https://a{n}.attacker.dev/", {}, b"{}") for n in range(4)]
    assert [(one.outcome, isinstance(one, Failure) and one.is_ours) for one in seen] == [
        (Outcome.DNS, False)
    ] * 4


LARGE = addresses(*(f"{net}{number}" for net in ("198.41.0.", "2001:503::") for number in range(100)))


@pytest.mark.parametrize("said_of_nobodys", [NXDOMAIN, LARGE, addresses("198.41.0.4")])
async def test_an_answer_too_large_for_udp_without_tcp_is_not_our_fault(said_of_nobodys: Reply) -> None:
    """c-ares says that no name server can be contacted; a name that nobody has shows that one can."""
    names = {f"{number}.webhook-dispatcher.invalid": said_of_nobodys for number in range(4)}
    async with (
        serving(names | {"large.attacker.dev": LARGE}, over_tcp=False) as (server, address),
        Sender(LOOPBACK, ENOUGH, "test", nameservers=[address]) as sender,
    ):
        for _ in range(4):
            seen = await sender.post("https://large.attacker.dev/", {}, b"{}")
            assert seen == Failure(Outcome.DNS, "name servers cannot be reached")
        assert {name for name, _ in server.asked} == {*names, "large.attacker.dev"}


async def test_name_that_does_not_exist_is_not_our_fault() -> None:
    async with (
        name_server() as (_, address),
        Sender(LOOPBACK, ENOUGH, "test", nameservers=[address]) as sender,
    ):
        for _ in range(4):
            seen = await sender.post("https://nowhere.attacker.dev/", {}, b"{}")
            assert isinstance(seen, Failure)
            assert (seen.outcome, seen.is_ours) == (Outcome.DNS, False)


async def test_silent_name_server_and_refused_connection_are_not_our_fault() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with (
            name_server() as (_, address),
            Sender(LOOPBACK, timedelta(seconds=0.2), "test", nameservers=[address]) as sender,
        ):
            for url in ("https://silent.attacker.dev/", f"https://127.0.0.1:{port}/"):
                seen = await sender.post(url, {}, b"{}")
                assert isinstance(seen, Failure)
                assert not seen.is_ours, seen


async def test_closed_sender_is_our_fault() -> None:
    async with RawReceiver(answering(OK)) as receiver:
        async with Sender(LOOPBACK, ENOUGH, "test") as sender:
            pass
        seen = await sender.post(receiver.url(), {}, b"{}")
        assert isinstance(seen, Failure)
        assert seen.is_ours


WITHOUT_A_NETWORK = """
import asyncio
from datetime import timedelta
from webhook_dispatcher.transport.guard import EgressPolicy, Guard

async def main():
    async with Sender(Guard(EgressPolicy()), timedelta(seconds=5), "test", nameservers=["127.0.0.1:53"]) as s:
        for url in ("https://198.41.0.4/", "https://[2001:503:ba3e::2:30]/", "https://hooks.attacker.dev/"):
            seen = await s.post(url, {}, b"{}")
            print(seen.outcome, seen.is_ours, seen.detail, sep="; ")

asyncio.run(main())
"""


WITH_FEW_PORTS = """
import asyncio
import fcntl
import socket
import struct
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from webhook_dispatcher.transport.guard import EgressPolicy, Guard

SIOCSIFFLAGS, IFF_UP = 0x8914, 1
PORTS = 20
guard = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))

async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")

async def main():
    with socket.socket() as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(f"40000 {40000 + PORTS - 1}")
    crowded = socket.create_server(("127.0.0.1", 9000), backlog=PORTS)
    server = await asyncio.start_server(answer, "127.0.0.2", 9000)
    taken = [socket.create_connection(("127.0.0.1", 9000)) for _ in range(PORTS)]
    async with Sender(guard, timedelta(seconds=5), "test") as sender:
        for host in ("127.0.0.1", "127.0.0.2"):
            seen = await sender.post(f"http://{host}:9000/", {}, b"{}")
            print(seen.outcome, getattr(seen, "is_ours", False), seen.detail, sep="; ")

asyncio.run(main())
"""


def in_a_network_of_its_own(script: str) -> list[list[str]]:
    """Run a script with nothing but a loopback interface that is down; returns the parts of its lines."""
    command = ["unshare", "--user", "--map-root-user", "--net", "--"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody make a network of its own")
    which = f"from {Sender.__module__} import {Sender.__name__} as Sender"
    run = [*command, sys.executable, "-c", which + script]
    out = subprocess.run(run, capture_output=True, text=True, timeout=MAX_WAIT, check=True).stdout
    return [line.split("; ") for line in out.splitlines()]


def test_ports_that_have_run_out_towards_one_address_concern_no_other() -> None:
    lines = in_a_network_of_its_own(WITH_FEW_PORTS)
    assert lines == [["connect", "True", "EADDRNOTAVAIL"], ["delivered", "False", "200 OK"]]


def test_no_route_to_anywhere_is_our_fault() -> None:
    lines = in_a_network_of_its_own(WITHOUT_A_NETWORK)
    assert [line[:2] for line in lines] == [["connect", "True"], ["connect", "True"], ["dns", "True"]], lines
    # IPv6 without any address says it in its own way.
    words = {"ENETUNREACH", "EADDRNOTAVAIL"}
    assert {line[2] for line in lines[:2]} <= words
