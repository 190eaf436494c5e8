"""What both servers share: languages and addresses."""

from ipaddress import ip_address, ip_network

import pytest

from webhook_dispatcher.web import clients, languages


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("ru", "ru"),
        ("ru-RU", "ru"),
        ("UZ-Cyrl-UZ", "uz"),
        ("de, fr", "en"),
        ("de, ru;q=0.1", "ru"),
        ("uz;q=0.5, ru;q=0.8", "ru"),
        ("uz, ru", "uz"),
        ("ru;q=0, uz;q=0.001", "uz"),
        ("ru;q=0", "en"),
        ("en;q=0, *;q=0.1", "en"),
        ("*, ru;q=0.9", "en"),
        ("*;q=0.1, ru;q=0.9", "ru"),
        ("ru;q=2, uz;q=nan", "en"),
        ("ru ; Q=1.000 ,", "ru"),
        ("russian", "en"),
        (",".join(["de"] * languages.MAX_RANGES + ["ru"]), "en"),
        ("\udcff", "en"),
    ],
)
def test_the_language_is_the_one_that_fits_best(header: str | None, language: str) -> None:
    assert languages.choose(header) == language


TRUSTED = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("198.51.100.7", ["6.6.6.6"], "198.51.100.7"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["6.6.6.6", "198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["6.6.6.6, nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["6.6.6.6, "], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.7"], "198.51.100.7"),
        ("fd00::1", ["[2001:db8::1]:443"], "2001:db8::1"),
        ("fd00::1", ["198.51.100.7:443"], "198.51.100.7"),
        ("10.0.0.1", [", ".join(["6.6.6.6"] + ["10.0.0.2"] * 100)], "10.0.0.2"),
        (None, ["6.6.6.6"], "0.0.0.0"),
    ],
)
def test_no_client_chooses_its_address(peer: str | None, forwarded: list[str], address: str) -> None:
    assert clients.address_of(peer, forwarded, TRUSTED) == ip_address(address)


def test_ipv6_is_counted_by_its_networks() -> None:
    assert clients.subjects_of(ip_address("198.51.100.7")) == ("198.51.100.7",)
    assert clients.subjects_of(ip_address("2001:db8:1:2:3:4:5:6")) == ("2001:db8:1:2::/64", "2001:db8:1::/48")
