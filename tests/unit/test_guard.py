"""The contract's tables of URLs and addresses, and what an operator may allow beyond them."""

import json
from ipaddress import IPv4Address, ip_network
from pathlib import Path

import pytest

from webhook_dispatcher.transport.guard import EgressPolicy, Forbidden, Guard

DATA = Path(__file__).parents[1] / "data"


def rows(name: str) -> list[tuple[str, str, str]]:
    lines = (DATA / name).read_text(encoding="utf-8").split("\n")
    fields = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(field[0], field[1], field[2]) for field in fields]


URLS = [(json.loads(f'"{url}"'), verdict, reason) for url, verdict, reason in rows("urls.tsv")]
ADDRESSES = rows("addresses.tsv")
NAMES_FOR_URLS = [f"{number}-{reason}" for number, (_, _, reason) in enumerate(URLS)]


def is_refused(guard: Guard, url: str) -> bool:
    try:
        guard.target(url)
    except Forbidden:
        return True
    return False


def test_the_tables_are_complete() -> None:
    assert len(URLS) > 150
    assert len(ADDRESSES) > 50
    assert {verdict for _, verdict, _ in URLS + ADDRESSES} == {"accept", "reject"}


@pytest.mark.parametrize(("url", "verdict", "reason"), URLS, ids=NAMES_FOR_URLS)
def test_url_table(url: str, verdict: str, reason: str) -> None:
    assert is_refused(Guard(EgressPolicy()), url) is (verdict == "reject" and reason.startswith("url:"))


@pytest.mark.parametrize(("address", "verdict", "reason"), ADDRESSES)
def test_address_table(address: str, verdict: str, reason: str) -> None:
    guard = Guard(EgressPolicy())
    if verdict == "accept":
        guard.check_address(address)
    else:
        with pytest.raises(Forbidden):
            guard.check_address(address)


@pytest.mark.parametrize(
    "address", ["", " 1.1.1.1", "1.1.1.1 ", "1.1.1", "16843009", "/tmp/socket", "0x1.1.1.1"]
)
def test_what_is_not_an_address_literal_is_refused(address: str) -> None:
    with pytest.raises(Forbidden, match="not an IP address"):
        Guard(EgressPolicy(allow_networks=(ip_network("0.0.0.0/0"),))).check_address(address)


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("HTTPS://EXAMPLE.com/Hook", "https://example.com/Hook"),
        ("https://example.com/a/../b/./c", "https://example.com/a/../b/./c"),
        ("https://example.com/%7Ex?sp=%2Ftriggers%2Frun&a=%c3",
         "https://example.com/%7Ex?sp=%2Ftriggers%2Frun&a=%c3"),
        ("https://example.com/a+b?c+d=e%20f", "https://example.com/a+b?c+d=e%20f"),
    ],
)  # fmt: skip
def test_url_is_sent_as_it_was_written(url: str, sent: str) -> None:
    assert str(Guard(EgressPolicy()).target(url).url) == sent


def test_port_beyond_65535_is_refused() -> None:
    assert is_refused(Guard(EgressPolicy()), "https://example.com:65536/")


@pytest.mark.parametrize("label", ["xn--fa-hia", "xn--mnchen-3ya", "xn--ls8h", "xn--55qx5d"])
def test_punycode_that_decodes_is_accepted(label: str) -> None:
    Guard(EgressPolicy()).target(f"https://{label}.com/")


@pytest.mark.parametrize("label", ["xn--", "xn--a", "xn--abc-", "xn--99999999", "xn--9"])
def test_punycode_that_does_not_decode_is_refused(label: str) -> None:
    assert is_refused(Guard(EgressPolicy()), f"https://{label}.com/")


def test_refusal_does_not_quote_what_was_not_checked() -> None:
    with pytest.raises(Forbidden) as caught:
        Guard(EgressPolicy()).target("https://user:whsec_hidden@\x00evil/")
    assert "hidden" not in caught.value.reason
    assert "\x00" not in caught.value.reason


ALLOWING = Guard(
    EgressPolicy(
        allow_networks=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")),
        allow_hosts=frozenset({"localhost", "receiver", "Hooks.Internal"}),
        allow_http=True,
    )
)


@pytest.mark.parametrize(
    "url",
    [
        *("https://10.1.2.3:8443/", "https://[fd12::1]/", "http://10.1.2.3/", "http://[fd12::1]:8080/"),
        *("https://localhost:8443/", "http://LOCALHOST:8080/", "http://receiver/hook"),
        *("https://hooks.internal/", "https://example.com/"),
    ],
)
def test_what_the_operator_allows_is_accepted(url: str) -> None:
    ALLOWING.target(url)


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.com/", "http://93.184.216.34/", "https://127.0.0.1/", "http://127.0.0.1/"),
        *("https://other/", "https://db.internal/", "https://x.localhost/", "https://localhost:25/"),
        *("https://localhost./", "https://user@localhost/", "ftp://localhost/", "https://167838211/"),
    ],
)
def test_what_the_operator_allows_opens_nothing_else(url: str) -> None:
    assert is_refused(ALLOWING, url)


def test_http_needs_its_own_switch() -> None:
    policy = EgressPolicy(allow_networks=(ip_network("10.0.0.0/8"),), allow_hosts=frozenset({"receiver"}))
    assert is_refused(Guard(policy), "http://10.1.2.3/")
    assert is_refused(Guard(policy), "http://receiver/")


def test_allowed_networks_apply_to_what_is_dialled() -> None:
    ALLOWING.check_address("10.1.2.3")
    with pytest.raises(Forbidden, match="private use"):
        ALLOWING.check_address("192.168.0.1")


def test_an_address_of_the_other_family_is_not_in_an_allowed_network() -> None:
    guard = Guard(EgressPolicy(allow_networks=(ip_network("0.0.0.0/0"),)))
    with pytest.raises(Forbidden):
        guard.check_address("::ffff:10.0.0.1")


CARRIERS = {
    "compatible": "::{}",
    "mapped": "::ffff:{}",
    "translated": "::ffff:0:{}",
    "nat64": "64:ff9b::{}",
    "nat64 of a site": "64:ff9b:1::{}",
    "nat64 of a site, of a prefix of its own": "64:ff9b:1:fffe::{}",
    "6to4": "2002:{0:x}::",
    "teredo": "2001:0:808:808::{1:x}",
    "teredo's server": "2001:0:{0:x}::f7f7:f7f7",
}
"""How an IPv4 address is carried; 0: as two groups, 1: with its bits reversed."""


def carrier(form: str, address: str) -> str:
    """Write an IPv6 address that carries this one."""
    number = int(IPv4Address(address))
    groups = [f"{bits >> 16:x}:{bits & 0xFFFF:x}" for bits in (number, number ^ 0xFFFF_FFFF)]
    return CARRIERS[form].replace("{0:x}", groups[0]).replace("{1:x}", groups[1]).replace("{}", address)


@pytest.mark.parametrize("form", CARRIERS)
def test_what_an_allowed_address_carries_is_judged_as_well(form: str) -> None:
    """DNS64 makes an address of any A record: a merchant's may lead to the cloud's metadata."""
    allowed = ip_network(f"{carrier(form, '8.8.8.8')}/128")
    networks = (ip_network("::/1"), ip_network("64:ff9b:1::/96"), ip_network("64:ff9b:1:fffe::/96"), allowed)
    guard = Guard(EgressPolicy(allow_networks=networks))
    guard.check_address(carrier(form, "8.8.8.8"))
    for inside in ("169.254.169.254", "10.1.2.3", "127.0.0.1", "168.63.129.16"):
        with pytest.raises(Forbidden, match=rf"^{inside} is not a public address"):
            guard.check_address(carrier(form, inside))
        assert is_refused(guard, f"https://[{carrier(form, inside)}]/")


def test_what_is_carried_may_be_allowed_too() -> None:
    guard = Guard(EgressPolicy(allow_networks=(ip_network("64:ff9b::/96"), ip_network("10.1.0.0/16"))))
    guard.check_address("64:ff9b::10.1.2.3")
    with pytest.raises(Forbidden, match="private use"):
        guard.check_address("64:ff9b::10.2.2.3")


def test_a_network_that_does_not_say_where_the_carried_address_lies_allows_none() -> None:
    """64:ff9b:1::/48 has prefixes of 48 to 96 bits; the last 32 are the address in one case only."""
    metadata = "64:ff9b:1:a9fe:a9:fe00:808:808"
    for length, is_allowed in ((32, False), (48, False), (95, False), (96, True)):
        network = ip_network(f"{metadata}/{length}", strict=False)
        guard = Guard(EgressPolicy(allow_networks=(network,)))
        assert is_refused(guard, f"https://[{metadata}]/") is not is_allowed


@pytest.mark.parametrize("address", ["::1", "::"])
def test_an_address_that_only_looks_like_a_carrier_may_be_allowed(address: str) -> None:
    Guard(EgressPolicy(allow_networks=(ip_network("::/127"),))).check_address(address)


DENYING = Guard(
    EgressPolicy(
        allow_networks=(ip_network("198.41.0.0/16"), ip_network("64:ff9b::/96"), ip_network("::ffff:0:0/96")),
        allow_hosts=frozenset({"ours.example.org"}),
        allow_http=True,
        deny_networks=(ip_network("198.41.7.0/24"), ip_network("2a00:1:2::/48")),
    )
)
DENIED = ["198.41.7.0", "198.41.7.255", "2a00:1:2:ffff::1", "::ffff:198.41.7.9", "64:ff9b::198.41.7.9"]


@pytest.mark.parametrize("address", DENIED)
def test_what_is_denied_is_refused_whatever_allows_it(address: str) -> None:
    with pytest.raises(Forbidden, match="WEBHOOK_EGRESS_DENY_NETWORKS"):
        DENYING.check_address(address)
    with pytest.raises(Forbidden, match="WEBHOOK_EGRESS_DENY_NETWORKS"):
        DENYING.check_address(address, is_trusted=True)
    literal = f"[{address}]" if ":" in address else address
    for scheme in ("http", "https"):
        assert is_refused(DENYING, f"{scheme}://{literal}/")


def test_a_literal_allowed_as_a_host_is_denied_all_the_same() -> None:
    networks = (ip_network("198.41.7.0/24"),)
    assert is_refused(
        Guard(EgressPolicy(allow_hosts=frozenset({"198.41.7.1"}), deny_networks=networks)),
        "https://198.41.7.1/",
    )


def test_a_host_allowed_by_name_needs_no_public_address() -> None:
    DENYING.target("https://ours.example.org/")
    DENYING.check_address("10.0.0.1", is_trusted=True)
