"""What name servers say changes, and so does who they are: either is seen after seconds."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partialmethod
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import aiodns
import pycares
import pytest

from tests.network.name_server import NXDOMAIN, SILENCE, NameServer, Reply, addresses, serving
from tests.waiting import until, until_found
from webhook_dispatcher.transport import resolver as module
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.resolver import GuardedResolver

HERE, THERE, MODERN = "127.0.0.1", "127.0.0.2", "::1"
HOST = "hooks.honest.dev"
A_WEEK = 604_800


@dataclass
class Clock:
    """What the resolver takes for the loop."""

    now: float = 0.0

    def time(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have c-ares forget sooner than tests would wait for."""
    monkeypatch.setattr(module, "_REREAD_SECONDS", 0.01)


@asynccontextmanager
async def resolving(*replies: Reply) -> AsyncIterator[tuple[GuardedResolver, NameServer]]:
    async with serving({HOST: replies}) as (server, address), resolver_of(address) as resolver:
        yield resolver, server


@asynccontextmanager
async def resolver_of(*name_servers: str) -> AsyncIterator[GuardedResolver]:
    allowed = (ip_network("127.0.0.0/8"), ip_network(f"{MODERN}/128"))
    resolver = GuardedResolver(Guard(EgressPolicy(allow_networks=allowed)), name_servers)
    yield resolver
    await resolver.close()


async def found(resolver: GuardedResolver) -> list[str]:
    """Look the host up, once; nothing where it is not found."""
    try:
        return (await resolver.resolve(HOST)).addresses
    except OSError:
        return []


async def has_become(look_up: Awaitable[list[str]], address: str) -> bool:
    return await look_up == [address]


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param(Reply(), id="no address"),
        pytest.param(Reply(empty_for=0), id="no address, which holds for no time"),
        pytest.param(Reply(code=NXDOMAIN.code, empty_for=A_WEEK), id="no name, which holds for a week"),
    ],
)
async def test_a_name_that_was_not_found_is_asked_for_again(empty: Reply) -> None:
    async with resolving(empty, addresses(HERE)) as (resolver, _):
        assert await found(resolver) == []
        await until_found(lambda: has_become(found(resolver), HERE))


async def test_a_name_that_leaves_ipv4_for_ipv6_is_found() -> None:
    """That it has no IPv6 address is an empty answer, too, which stands beside another."""
    async with resolving(addresses(HERE), addresses(MODERN)) as (resolver, _):
        assert await found(resolver) == [HERE]
        await until_found(lambda: has_become(found(resolver), MODERN))


async def test_what_holds_for_a_week_holds_for_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    async with resolving(Reply([HERE], ttl=A_WEEK), Reply([THERE], ttl=A_WEEK)) as (resolver, server):
        monkeypatch.setattr(resolver, "_loop", clock)

        async def found_after(seconds: float) -> list[str]:
            clock.now += seconds
            return await found(resolver)

        assert await found_after(0.0) == await found_after(29.9) == [HERE]
        assert len(server.asked) == 2, "for either kind of address, once"
        await until_found(lambda: has_become(found_after(30.0), THERE))


def replace_the_file(link: Path, text: str) -> None:
    """As systemd-resolved does."""
    new = link.with_name("new")
    new.write_text(text)
    new.replace(link.resolve())


def replace_the_link(link: Path, text: str) -> None:
    """As NetworkManager does."""
    target, new = link.with_name("other"), link.with_name("new")
    target.write_text(text)
    new.symlink_to(target)
    new.replace(link)


def write_it_anew(link: Path, text: str) -> None:
    """As Docker does: there is no moment at which the file has its old text or its new."""
    link.write_text("")
    link.write_text(text)


class KeepingFfi:
    """pycares' way to C, but what is made for C lives on: pycares frees the path before c-ares reads it."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._kept: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def new(self, *arguments: Any) -> Any:
        self._kept.append(self._real.new(*arguments))
        return self._kept[-1]


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have c-ares read this symbolic link in place of /etc/resolv.conf."""
    link = tmp_path / "resolv.conf"
    link.symlink_to(tmp_path / "target")
    real: Any = aiodns.DNSResolver
    monkeypatch.setattr(real, "_make_channel", partialmethod(real._make_channel, resolvconf_path=str(link)))
    to_c: Any = pycares
    monkeypatch.setattr(to_c, "_ffi", KeepingFfi(to_c._ffi))
    return link


@pytest.mark.parametrize("replace", [replace_the_file, replace_the_link, write_it_anew])
async def test_name_servers_that_are_replaced_behind_a_link_are_asked(
    replace: Callable[[Path, str], None], configuration: Path
) -> None:
    """In the very attempt that found the old ones silent."""
    async with serving({HOST: SILENCE}) as (old, gone), serving({HOST: addresses(HERE)}) as (_, new):
        configuration.write_text(f"nameserver {gone}\n")
        async with resolver_of() as resolver:
            replace(configuration, f"nameserver {new}\n")
            assert await found(resolver) == [HERE]
            assert old.asked


@pytest.mark.parametrize("text", ["", "# nobody\n", None])
async def test_a_configuration_that_names_nobody_changes_nothing(
    text: str | None, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rereads: list[None] = []
    reread = module._Resolver.reread
    monkeypatch.setattr(module._Resolver, "reread", lambda self: rereads.append(reread(self)))
    async with serving({HOST: addresses(HERE)}) as (_, address):
        configuration.write_text(f"nameserver {address}\n")
        async with resolver_of() as resolver:
            if text is None:
                configuration.unlink()
            else:
                configuration.write_text(text)
            for times in range(3):
                assert await found(resolver) == [HERE]
                await until(lambda times=times: len(rereads) > times)  # type: ignore[misc]
