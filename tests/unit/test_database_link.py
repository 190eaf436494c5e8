"""Off this machine the database must prove who it is, unless that is waived."""

import ssl
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage.link import is_local, secured, tls_context

LOCAL = [
    *("postgresql://localhost/x", "postgresql://u:p@LocalHost:5433/x", "postgresql://127.0.0.1/x"),
    *("postgresql://127.8.9.10:5432/x", "postgresql://u@[::1]:5432/x"),
    *("postgresql://u@[0:0:0:0:0:0:0:1]/x", "postgresql://u:p@/x?host=/run/postgresql"),
    "postgresql:///x?host=/run/postgresql,localhost&port=5433",
    "postgresql://u@%2Frun%2Fpostgresql/x",
    "postgresql://localhost,127.0.0.1/x?application_name=y",
]
DISTANT = [
    *("postgresql://db/x", "postgresql://u:p@db.internal:5432/charges", "postgresql://10.0.0.5/x"),
    *("postgresql://[fd00::5]/x", "postgresql://[::ffff:127.0.0.1]/x", "postgresql://127.1/x"),
    *("postgresql://2130706433/x", "postgresql://0.0.0.0/x", "postgresql://localhost.example/x"),
    *("postgresql://localhost,db.internal/x", "postgresql://u@db.internal/x?host=/run/postgresql"),
    *("postgresql:///x?host=localhost,db.internal", "postgresql:///x?host=localhost&host=db.internal"),
    "postgresql:///x?h%6Fst=db.internal",
    # Asyncpg dials db.internal@localhost, not localhost.
    "postgresql://u:p@db.internal@localhost/x",
    # Nothing is named: PGHOST or a service file may name anything.
    "postgresql://",
    "postgresql:///x",
    "postgresql://localhost/x?service=elsewhere",
]


@pytest.mark.parametrize("url", LOCAL)
@pytest.mark.parametrize("mode", [None, "disable", "prefer", "verify-full"])
def test_a_url_of_this_machine_stays_as_it_is(url: str, mode: str | None) -> None:
    given_mode = "" if mode is None else f"{'&' if '?' in url else '?'}sslmode={mode}"
    assert secured(url + given_mode) == url + given_mode


def option(url: str, name: str) -> str:
    """Read an option as asyncpg does: strictly, the last one counting."""
    return parse_qs(urlsplit(url).query, strict_parsing=True)[name][-1]


@pytest.mark.parametrize(
    "url", [*DISTANT, "postgresql://db/x?", "postgresql://db/x?port=1&", "postgresql://db?"]
)
def test_a_url_that_may_leave_this_machine_is_made_to_verify(url: str) -> None:
    assert option(secured(url), "sslmode") == "verify-full"
    assert urlsplit(secured(url)).netloc == urlsplit(url).netloc


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require", "verify-ca", "verify_ca", "off"])
@pytest.mark.parametrize("spelling", ["sslmode={}", "sslmode=verify-full&sslmode={}", "ssl%6Dode={}"])
def test_a_weaker_link_is_refused_in_one_line(mode: str, spelling: str) -> None:
    with pytest.raises(ValueError, match=f"^sslmode='{mode}' .*WEBHOOK_DATABASE_TLS=waived$") as caught:
        secured("postgresql://u:sesame@db/x?" + spelling.format(mode))
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("mode", ["verify-full", "verify_full"])
def test_a_link_that_verifies_stays_as_it_is(mode: str) -> None:
    assert secured(f"postgresql://db/x?sslmode={mode}") == f"postgresql://db/x?sslmode={mode}"


HOSTS = st.sampled_from(["localhost", "127.0.0.1", "[::1]", "db", "10.0.0.5", "", "%2Frun", "a@b", "127.1:5"])
OPTIONS = st.sampled_from(
    ["host=/run", "host=db", "host=", "port=5433", "sslmode=verify-full", "application_name=a", "service=s"]
)


@given(st.lists(HOSTS, max_size=3), st.lists(OPTIONS, max_size=4), st.sampled_from(["", "u@", "u:p@"]))
@example([], [], "")
def test_every_url_is_local_or_verified(hosts: list[str], options: list[str], user: str) -> None:
    url = f"postgresql://{user}{','.join(hosts)}/x" + (f"?{'&'.join(options)}" if options else "")
    try:
        made_safe = secured(url)
    except ValueError:  # what Python cannot split (it differs by version) is refused, and that is safe too
        return
    assert is_local(made_safe) or option(made_safe, "sslmode") == "verify-full"


def test_the_setting_waives_it_for_both_urls() -> None:
    environ = {
        "WEBHOOK_DATABASE_URL": "postgresql://u@db/x?sslmode=require",
        "WEBHOOK_MIGRATION_DATABASE_URL": "postgresql://o@db/x",
    }
    waived = load_settings({**environ, "WEBHOOK_DATABASE_TLS": "waived"})
    assert waived.database_dsn() == environ["WEBHOOK_DATABASE_URL"]
    assert waived.migration_dsn() == environ["WEBHOOK_MIGRATION_DATABASE_URL"]


def test_the_systems_authorities_count_where_the_url_names_none() -> None:
    for url in (
        "postgresql://db/x?sslmode=verify-full",
        "postgresql://db/x?sslmode=verify-full&sslrootcert=system",
    ):
        context = tls_context(url)
        assert context is not None
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://localhost/x",
        "postgresql://db/x?sslmode=verify-full&sslrootcert=f",
        "postgresql://db/x?sslmode=prefer",
    ],
)
def test_the_rest_is_left_to_asyncpg(url: str) -> None:
    assert tls_context(url) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("sslmode=verify-full&sslcrl=f", "sslcrl needs sslrootcert=FILE"),
        ("sslmode=verify-full&ssl_min_protocol_version=TLSv1.3", "ssl_min_protocol_version needs"),
        ("sslmode=require&sslrootcert=system", "sslrootcert=system needs sslmode=verify-full"),
        ("sslmode=verify-full&sslcert=/no/such", "sslcert '/no/such': No such file"),
    ],
)
def test_what_would_be_dropped_in_silence_is_refused(options: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tls_context(f"postgresql://db/x?{options}")
