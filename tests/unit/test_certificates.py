"""Whose a certificate is, where OpenSSL is not asked: for names with an underscore."""

import pytest

from webhook_dispatcher.transport.certificates import is_for


def naming(*names: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Describe a certificate as `getpeercert` does."""
    return {"subjectAltName": tuple(("DNS", name) for name in names)}


@pytest.mark.parametrize(
    ("host", "name"),
    [
        *(("my_shop.tenants.dev", "my_shop.tenants.dev"), ("my_shop.tenants.dev", "My_Shop.Tenants.DEV")),
        *(("my_shop.tenants.dev", "*.tenants.dev"), ("shop.my_tenants.dev", "*.my_tenants.dev")),
    ],
)
def test_a_name_or_a_wildcard_for_its_first_label_will_do(host: str, name: str) -> None:
    assert is_for(host, naming("other.dev", name))


@pytest.mark.parametrize(
    ("host", "name"),
    [
        *(("my_shop.tenants.dev", "my-shop.tenants.dev"), ("my_shop.tenants.dev", "tenants.dev")),
        *(("my_shop.tenants.dev", ".tenants.dev"), ("my_shop.tenants.dev", "my*.tenants.dev")),
        *(("my_shop.tenants.dev", "*shop.tenants.dev"), ("my_shop.tenants.dev", "my_shop.*.dev")),
        *(("my_shop.tenants.dev", "*.*.dev"), ("my_shop.tenants.dev", "*")),
        ("my_shop.tenants.dev", "my_shop.tenants.dev\0.attacker.dev"),
        *(("a.my_shop.tenants.dev", "*.tenants.dev"), ("my_shop.dev", "*.dev"), ("my_shop", "*")),
        ("my_shop", "*."),
    ],
)
def test_nothing_else_will(host: str, name: str) -> None:
    assert not is_for(host, naming(name))


def test_only_names_of_hosts_count() -> None:
    host = "my_shop.tenants.dev"
    assert not is_for(host, {"subjectAltName": (("URI", host), ("email", host))})
    assert not is_for(host, {"subject": ((("commonName", host),),)})
    assert not is_for(host, {})
