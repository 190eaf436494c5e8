"""Every address of a forbidden prefix is refused in any spelling that a parser takes; neighbours are not."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from webhook_dispatcher.transport.guard import EgressPolicy, Forbidden, Guard

GUARD = Guard(EgressPolicy())
# Not the code's own tables: an entry that is missing there must be missed here.
# Source: the IANA special-purpose address registries.
V4 = [
    IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
        *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
    )
]
V6 = [
    IPv6Network(network)
    for network in (
        *("::/3", "4000::/2", "8000::/1"),  # all but 2000::/3
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20"),
    )
]
FULL_WIDTH = {ord(str(digit)): 0xFF10 + digit for digit in range(10)}
CIRCLED = {ord(str(digit)): 0x245F + digit if digit else 0x24EA for digit in range(10)}
DOTS = ".\u3002\uff0e\uff61"  # those that IDNA takes for dots

Spelling = Callable[[IPv4Address, Random], str]


def is_refused(check: Callable[[str], object], text: str) -> bool:
    try:
        check(text)
    except Forbidden:
        return True
    return False


def mixed(address: IPv4Address, random: Random) -> str:
    """Spell it in one to four parts, each decimal, octal or hexadecimal, as inet_aton reads them."""
    octets = list(address.packed)
    count = random.randint(1, 4)
    parts = [*octets[: count - 1], int.from_bytes(bytes(octets[count - 1 :]), "big")]
    forms = ("{}", "0x{:x}", "0X{:X}", "0{:o}", "00{:o}", "0x0000{:x}")
    return ".".join(random.choice(forms).format(part) for part in parts)


def full_width(address: IPv4Address, random: Random) -> str:
    return str(address).translate(random.choice((FULL_WIDTH, CIRCLED))).replace(".", random.choice(DOTS))


def percent_encoded(address: IPv4Address, random: Random) -> str:
    text = str(address)
    others = (random.choice((char, f"%{ord(char):02x}")) for char in text[1:])
    return f"%{ord(text[0]):02x}" + "".join(others)


SPELLINGS: dict[str, Spelling] = {
    "dotted": lambda address, _: str(address),
    "decimal": lambda address, _: str(int(address)),
    "hex": lambda address, _: hex(int(address)),
    "octal": lambda address, _: f"0{int(address):o}",
    "padded": lambda address, _: ".".join(f"{octet:03d}" for octet in address.packed),
    "mixed": mixed,
    "dot-at-the-end": lambda address, _: f"{address}.",
    "full-width": full_width,
    "percent": percent_encoded,
    "mapped": lambda address, _: f"[::ffff:{address}]",
    "mapped-hex": lambda address, _: f"[::FFFF:{int(address) >> 16:X}:{int(address) & 0xFFFF:x}]",
    "mapped-long": lambda address, _: (
        f"[0:0:0:0:0:ffff:{int(address) >> 16:04x}:{int(address) & 0xFFFF:04x}]"
    ),
    "compatible": lambda address, _: f"[::{address}]",
    "translated": lambda address, _: f"[::ffff:0:{address}]",
    "nat64": lambda address, _: f"[64:ff9b::{address}]",
    "nat64-local": lambda address, _: f"[64:ff9b:1::{address}]",
    "6to4": lambda address, _: f"[2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::1]",
    "teredo": lambda address, _: f"[2001:0:4136:e378:8000:63bf:{~int(address) >> 16 & 0xFFFF:x}:1]",
    "scoped": lambda address, _: f"[::ffff:{address}%25lo]",
}


def readings(host: str) -> Iterator[str]:
    """Return every address that the system, Python or yarl take the text of a host for."""
    bare = host.removeprefix("[").removesuffix("]")
    texts = {bare, bare.replace("%25", "%")}
    with contextlib.suppress(ValueError):
        texts.add(URL(f"https://{host}/").raw_host or "")
    for text in texts:
        with contextlib.suppress(ValueError):
            yield str(ip_address(text))
        try:
            found = socket.getaddrinfo(text, 443, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            continue
        yield from (str(sockaddr[0]) for *_, sockaddr in found)


def addresses_in(networks: list[IPv4Network] | list[IPv6Network]) -> st.SearchStrategy[int]:
    """Draw from the prefixes evenly, their first and last addresses often."""
    return st.one_of(
        [
            st.one_of(
                st.sampled_from((int(network[0]), int(network[-1]))),
                st.integers(int(network[0]), int(network[-1])),
            )
            for network in networks
        ]
    )


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(number=addresses_in(V4), seed=st.integers(0, 2**32))
@example(number=0x7F000001, seed=0)
@example(number=0xA9FEA9FE, seed=1)
def test_forbidden_v4_is_refused_in_every_spelling(spelling: str, number: int, seed: int) -> None:
    host = SPELLINGS[spelling](IPv4Address(number), Random(seed))
    assert is_refused(GUARD.target, f"https://{host}/"), host
    # Zeros in front make it octal to the system: another address, perhaps a public one.
    for address in () if spelling == "padded" else readings(host):
        assert is_refused(GUARD.check_address, address), (host, address)


def v6_spellings(address: IPv6Address) -> set[str]:
    tail = str(IPv4Address(int(address) & 0xFFFF_FFFF))
    dotted = ":".join(address.exploded.split(":")[:6]) + f":{tail}"
    short = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    plain = {str(address), address.exploded, short, dotted}
    return plain | {text.upper() for text in plain}


@given(number=addresses_in(V6))
@example(number=int(IPv6Address("::1")))
@example(number=int(IPv6Address("fd00:ec2::254")))
def test_forbidden_v6_is_refused_in_every_spelling(number: int) -> None:
    for text in v6_spellings(IPv6Address(number)):
        assert is_refused(GUARD.target, f"https://[{text}]/"), text
        for address in readings(f"[{text}]"):
            assert is_refused(GUARD.check_address, address), (text, address)


def neighbours(networks: list[IPv4Network] | list[IPv6Network]) -> Iterator[IPv4Address | IPv6Address]:
    """Return the addresses just outside that are in no other forbidden prefix."""
    for network in networks:
        kind: type[IPv4Address] | type[IPv6Address] = type(network[0])
        for number in (int(network[0]) - 1, int(network[-1]) + 1):
            if 0 <= number < 2**network.max_prefixlen:
                address = kind(number)
                if not any(address in other for other in networks):
                    yield address


@pytest.mark.parametrize("address", [*neighbours(V4), *neighbours(V6)], ids=str)
def test_neighbours_just_outside_are_accepted(address: IPv4Address | IPv6Address) -> None:
    GUARD.check_address(str(address))
    GUARD.target(f"https://{address}/" if address.version == 4 else f"https://[{address}]/")


def test_there_are_neighbours_of_nearly_every_prefix() -> None:
    assert len(list(neighbours(V4))) > len(V4)
    assert len(list(neighbours(V6))) > len(V6) - 3


@given(
    prefix=st.integers(8, 32),
    base=st.integers(0, 2**32 - 1),
    offset=st.integers(0, 2**32 - 1),
    trusted=st.booleans(),
)
def test_addresses_of_denied_networks_are_refused(prefix: int, base: int, offset: int, trusted: bool) -> None:
    network = ip_network((base >> (32 - prefix) << (32 - prefix), prefix))
    anything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    guard = Guard(EgressPolicy(anything, deny_networks=(network,)))
    address = IPv4Address(int(network[0]) + offset % network.num_addresses)
    carried = f"2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::1"
    for text in (f"{address}", f"::ffff:{address}", f"::{address}", f"64:ff9b::{address}", carried):
        with pytest.raises(Forbidden):
            guard.check_address(text, trusted)
    outside = IPv4Address(offset)
    if outside not in network:
        guard.check_address(str(outside), trusted)
        guard.check_address(f"::ffff:{outside}", trusted)
