"""Settings: every problem is one line that names the variable."""

import base64
from collections.abc import Mapping
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from pydantic import ValidationError

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.rate_limit import Limit
from webhook_dispatcher.domain.schedule import DEFAULT_DELAYS
from webhook_dispatcher.settings import Settings, check_open_files, load_settings

KEY = base64.b64encode(b"k" * 32).decode()
DATABASE_URL = "postgresql://dispatcher:sesame@db.internal:5432/charges"


def problem(environ: Mapping[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(environ)
    return str(caught.value)


def test_defaults_are_the_contracts() -> None:
    settings = load_settings({})
    assert settings.retry_schedule.delays == DEFAULT_DELAYS
    assert settings.attempt_timeout == timedelta(seconds=10)
    assert settings.lease == timedelta(seconds=30)
    assert settings.poll_interval == timedelta(milliseconds=25)
    assert (settings.max_lanes, settings.lane_retries, settings.processes) == (1000, 2, 1)
    assert settings.unconfigured_hold == timedelta(days=1)
    assert (settings.suspend_after, settings.suspension_interval) == (None, timedelta(hours=1))
    assert settings.ops_address == "127.0.0.1:9464"
    assert (settings.log_format, settings.log_level, settings.log_successes) == (None, "info", 1)
    assert settings.shutdown_grace == timedelta(seconds=12)
    assert settings.failing_after == timedelta(hours=1)
    assert settings.retention == timedelta(days=30)
    assert settings.response_excerpt == 0
    assert settings.data_dir == Path(".webhook")
    assert settings.egress_policy().allow_networks == ()
    assert settings.egress_policy().allow_hosts == frozenset()
    assert not settings.egress_policy().allow_http
    assert settings.egress_policy().deny_networks == ()
    assert settings.proxy() is None
    assert settings.egress_ca_file is None
    assert settings.installation is None
    assert (settings.api_address, settings.api_ops_address) == ("127.0.0.1:8080", "127.0.0.1:9465")
    assert (settings.api_trusted_proxies, settings.api_max_connections) == ((), 1000)
    assert settings.api_upstream is None
    of_card, of_key = settings.api_limits.card, settings.api_limits.key
    assert (of_card, of_key) == (Limit(10, timedelta(minutes=15)), Limit(600, timedelta(minutes=1)))


def test_given_values_are_read() -> None:
    settings = load_settings(
        {
            "WEBHOOK_DATABASE_URL": DATABASE_URL + "\n",
            "WEBHOOK_SECRET_KEYS": f"a:{KEY},b:{KEY}",
            "WEBHOOK_RETRY_SCHEDULE": "PT1S, PT2S",
            "WEBHOOK_EGRESS_ALLOW_NETWORKS": "10.1.0.0/16,fd00::/8",
            "WEBHOOK_EGRESS_ALLOW_HOSTS": "Receiver.Internal, localhost",
            "WEBHOOK_EGRESS_ALLOW_HTTP": "true",
            "WEBHOOK_EGRESS_DENY_NETWORKS": "198.41.0.0/24, 2a00::/32",
            "WEBHOOK_LOG_LEVEL": "DEBUG",
            "WEBHOOK_LOG_SUCCESSES": "0.01",
            "WEBHOOK_INSTALLATION": "prod_eu-1.a",
            "WEBHOOK_OPS_ADDRESS": "[::1]:0",
        }
    )
    assert settings.database_dsn() == DATABASE_URL + "?sslmode=verify-full"
    assert settings.keyring().key_ids == ("a", "b")
    assert settings.retry_schedule.delays == (timedelta(seconds=1), timedelta(seconds=2))
    assert settings.egress_allow_networks == (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
    assert settings.egress_allow_hosts == {"receiver.internal", "localhost"}
    assert settings.egress_policy().allow_http
    assert settings.egress_policy().deny_networks == (ip_network("198.41.0.0/24"), ip_network("2a00::/32"))
    assert (settings.log_level, settings.log_successes) == ("debug", 0.01)
    assert settings.installation == "prod_eu-1.a"


UNESCAPED = [
    ("u:ses@ame@db/x", "@ as %40"),
    ("u@corp:sesame@db/x", "@ as %40"),
    ("u:@sesame@db:5432/x?sslmode=require", "@ as %40"),
    ("u:ses#ame@db/x", "# as %23"),
    ("u:sesame@db/x#ame", "# as %23"),
    ("u:ses/ame@db/x", "/ as %2F"),
    ("u:12/sesame@db/x", "/ as %2F"),
    ("u:ses/a@me@db/x", "/ as %2F"),
    ("u:12/ses?ame@db/x", "/ as %2F"),
    ("u:ses?ame@db/x", "? as %3F"),
    ("u:12?sesame@db/x?sslmode=require", "? as %3F"),
    ("u:12?x=sesame@db/x", "? as %3F"),
    ("u:12/3?user=a&x=sesame@db/x", "/ as %2F"),
    ("u:ses%ame@db/x", "% as %25"),
    ("u:sesame%zz@db/x", "% as %25"),
    ("u:sesame%4@db/x", "% as %25"),
    ("u:sesame%", "% as %25"),
]
"""What stands behind the scheme, and what is said of it."""


@pytest.mark.parametrize("name", ["DATABASE_URL", "MIGRATION_DATABASE_URL"])
@pytest.mark.parametrize("listed", ["{}", "eu1={}", "eu1=postgresql://a/x eu2={}"])
@pytest.mark.parametrize(("rest", "remedy"), UNESCAPED)
def test_an_unescaped_character_of_a_password_is_named_and_the_password_is_not(
    name: str, listed: str, rest: str, remedy: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings({f"WEBHOOK_{name}": listed.format(f"postgresql://{rest}")})
    (problem,) = caught.value.problems
    assert problem.startswith(f"WEBHOOK_{name}: ")
    assert ("database 2 of the list" in problem) is ("eu2" in listed)
    assert problem.endswith(f"percent-encoded, write {remedy}")
    assert not any(part in problem for part in ("sesame", "ses", "ame"))


@pytest.mark.parametrize(
    "rest",
    [
        "u:s%40s%23a%2Fm%3Fe%25@db/x",
        "u:s:e=s!$&'()*+,;~me@db:5432/x",
        "u:sesame@db",
        "u:sesame@/x?host=/run/postgresql",
        "db/x?user=u@corp&password=s@s",
        "db:5432/x?user=u@corp&password=s@s",
        "/x?password=s@s/ame",
        "u:sesame@db?application_name=a@b",
        "u:sesame@[fd00::5]:5432/x",
        "u:sesame@db1:5432,db2:5433/x",
        "u:sesame@[fd00::5]:5432,db2,db3:5432/x?target_session_attrs=read-write",
    ],
)
def test_what_is_escaped_or_needs_no_escape_is_accepted(rest: str) -> None:
    settings = load_settings(
        {"WEBHOOK_DATABASE_URL": f"postgresql://{rest}", "WEBHOOK_DATABASE_TLS": "waived"}
    )
    assert settings.database_dsn() == f"postgresql://{rest}"


MALFORMED = [
    ("SUSPEND_AFTER", "PT59M", "PT1H"),
    ("SUSPENSION_INTERVAL", "PT59S", "PT1M"),
    ("DATABASE_URL", "mysql://db/x", "postgresql://user:password@host:port/database"),
    ("DATABASE_URL", "postgresql:db", "postgresql://user:password@host:port/database"),
    ("DATABASE_URL", "postgresql://u:sesame@host:port/x", "percent-encoded"),
    ("DATABASE_URL", "postgresql://u:ses[ame@host/x", "percent-encoded"),
    ("DATABASE_URL", "postgresql://u:sesame@db1:5432,db2:0/x", "percent-encoded"),
    ("DATABASE_URL", "postgresql://u:sesame@db1:5432,db2:port/x", "percent-encoded"),
    ("DATABASE_URL", "postgresql://u:sesame#@host/x", "%23"),
    ("DATABASE_URL", "postgresql://u:sesame@db/x?sslmode=require", "WEBHOOK_DATABASE_TLS=waived"),
    ("DATABASE_URL", "postgresql://u:sesame@db/x?sslrootcert=/no/such.pem", "cannot be read"),
    ("DATABASE_URL", "postgresql://u:ses ame@host/x", "white space within a URL is percent-encoded"),
    ("DATABASE_URL", "eu1=postgresql://a/x postgresql://u:sesame@b/x", "each database has a name"),
    ("DATABASE_URL", "eu1=postgresql://a/x eu1=postgresql://u:sesame@b/x", "eu1 is given to two databases"),
    ("DATABASE_URL", "EU1=postgresql://u:sesame@a/x", "1 to 32 characters of a-z, 0-9, _ and -"),
    ("DATABASE_URL", "=postgresql://u:sesame@a/x", "there is no name before the =: write eu1=postgresql://"),
    ("DATABASE_URL", "'postgresql://u:sesame@a/x'", "there are quotes in it, which only a shell takes away"),
    ("SECRET_KEYS", f"'k1:{KEY}'", "id:base64key"),
    ("SECRET_KEYS", f'k1:"{KEY}"', "there are quotes in it, which only a shell takes away: leave them out"),
    ("DATABASE_URL", "eu1=u:sesame@a/x", "postgresql://user:password@host:port/database"),
    ("DATABASE_URL", "eu1=postgresql://a/x eu2=u:sesame@b/x", "database 2 of the list: must be of the form"),
    ("DATABASE_URL", "eu1=postgresql://localhost/x eu2=postgresql://u:sesame@b/x?sslmode=allow", ": eu2: "),
    ("MIGRATION_DATABASE_URL", "db.internal", "postgresql://user:password@host:port/database"),
    ("MIGRATION_DATABASE_URL", "postgresql://u:sesame@db/x?sslmode=disable", "sslmode=verify-full"),
    ("INSTALLATION", "Prod EU", "1 to 63 characters of a-z, 0-9, dot, dash and underscore, unlike 'Prod EU'"),
    ("INSTALLATION", "p" * 64, "1 to 63 characters"),
    ("PROCESSES", "0", "whole number from 1 to 64, or auto, not '0'"),
    ("PROCESSES", "65", "whole number from 1 to 64, or auto"),
    ("PROCESSES", "1.5", "whole number from 1 to 64, or auto"),
    ("PROCESSES", "all", "whole number from 1 to 64, or auto, not 'all'"),
    ("DATABASE_TLS", "off", "verify-full, waived"),
    ("SECRET_KEYS", KEY, "id:base64key"),
    ("SECRET_KEYS", "a:sesame!", "not valid base64"),
    ("SECRET_KEYS", "a:c2VzYW1l", "6 bytes, not 32"),
    ("SECRET_KEYS", f"a:{KEY},a:{KEY}", "given twice"),
    ("RETRY_SCHEDULE", "60,300", "write PT60S"),
    ("RETRY_SCHEDULE", "PT1M,,PT5M", "'' is not an ISO 8601 duration"),
    ("RETRY_SCHEDULE", "PT0S", "longer than PT0S"),
    ("RETRY_SCHEDULE", "P31D", "at most P30D"),
    ("RETRY_SCHEDULE", ",".join(["PT1S"] * 21), "at most 20"),
    ("ATTEMPT_TIMEOUT", "10", "write PT10S"),
    ("ATTEMPT_TIMEOUT", "PT0S", "from PT0.05S to PT5M"),
    ("LEASE", "pt30s", "write PT30S"),
    ("LEASE", "PT14.9S", "at least PT15S with an attempt timeout of PT10S, not PT14.9S"),
    ("SECRETS_DIR", "/no/such/folder", "'/no/such/folder' cannot be read: No such file"),
    ("DATABASE_POOLER", "session", "one of none, transaction"),
    ("SENDER", "httpx", "one of llhttp, aiohttp"),
    ("POLL_INTERVAL", "25ms", "such as PT10S"),
    ("MAX_LANES", "many", "whole number from 1 to 100000"),
    ("MAX_LANES", "0", "whole number from 1 to 100000"),
    ("RESPONSE_EXCERPT", "2049", "whole number from 0 to 2048"),
    ("LANE_RETRIES", "1.5", "whole number from 1 to 100"),
    ("UNCONFIGURED_HOLD", "P1M", "such as PT10S"),
    ("OPS_ADDRESS", "9464", "host:port"),
    ("API_ADDRESS", "8080", "host:port"),
    ("API_OPS_ADDRESS", "9465", "host:port"),
    ("API_TRUSTED_PROXIES", "10.0.0.1/8", "did you mean 10.0.0.0/8?"),
    ("API_UPSTREAM", "charges:8081", "must begin with http:// or https:// and a host"),
    ("API_UPSTREAM", "http://us:sesame@charges:8081", "must have no user"),
    ("API_UPSTREAM", "http://us:sesame@charges:99999", "Port out of range"),
    ("API_LIMITS", "key=9999/PT1M", "0 to 1500"),
    ("API_MAX_CONNECTIONS", "0", "whole number from 1 to 100000"),
    ("CONSOLE_ADDRESS", "8091", "host:port"),
    ("CONSOLE_ORIGIN", "console.example.com", "https://console.example.com"),
    ("CONSOLE_ORIGIN", "https://console.example.com/admin", "without a path"),
    ("CONSOLE_ORIGIN", "https://us:sesame@console.example.com", "without a path"),
    ("CONSOLE_ORIGIN", "http://console.example.com", "must be https"),
    ("CONSOLE_AUTH", "none", "one of accounts, proxy"),
    ("CONSOLE_PROXY_HEADER", "X-Person: ada", "letters, digits and dashes"),
    ("CONSOLE_TRUSTED_PROXIES", "10.1.2.3/16", "did you mean 10.1.0.0/16?"),
    ("OPS_ADDRESS", "localhost:99999", "host:port"),
    ("OPS_ADDRESS", "::1:9464", "host:port"),
    ("LOG_FORMAT", "xml", "one of json, console"),
    ("LOG_LEVEL", "loud", "one of debug, info, warning, error"),
    ("LOG_SUCCESSES", "1.01", "number from 0 to 1, such as 0.01"),
    ("LOG_SUCCESSES", "nan", "number from 0 to 1"),
    ("LOG_SUCCESSES", "1%", "number from 0 to 1"),
    ("SHUTDOWN_GRACE", "12", "write PT12S"),
    ("FAILING_AFTER", "PT59S", "from PT1M to P365D"),
    ("RETENTION", "PT1H", "from P1D to P3650D"),
    ("EGRESS_ALLOW_NETWORKS", "10.1.2.3/16", "did you mean 10.1.0.0/16?"),
    ("EGRESS_ALLOW_NETWORKS", "example.com", "10.0.0.0/8"),
    ("EGRESS_ALLOW_HOSTS", "https://receiver.internal", "no scheme, port, path or wildcard"),
    ("EGRESS_ALLOW_HOSTS", "*.internal", "no scheme, port, path or wildcard"),
    ("EGRESS_ALLOW_HOSTS", "10.0.0.1", "WEBHOOK_EGRESS_ALLOW_NETWORKS"),
    ("EGRESS_ALLOW_HTTP", "maybe", "true or false"),
    ("EGRESS_NAMESERVERS", "10.0.0.2", "is not address:port"),
    ("EGRESS_NAMESERVERS", "dns.example.com:53", "is not address:port"),
    ("EGRESS_DENY_NETWORKS", "198.41.0.7/24", "did you mean 198.41.0.0/24?"),
    ("EGRESS_PROXY", "proxy.internal:3128", "http://host:port"),
    ("EGRESS_PROXY", "http://proxy.internal", "http://host:port"),
    ("EGRESS_PROXY", "https://proxy.internal:3128", "http://host:port"),
    ("EGRESS_PROXY", "http://proxy.internal:99999", "http://host:port"),
    ("EGRESS_PROXY", "http://proxy.internal:3128/sesame", "http://host:port"),
    ("EGRESS_PROXY", "http://us:ses@me@proxy:3128", "percent-encoded"),
    ("EGRESS_PROXY", "http://[:::]:3128", "not a valid name or address"),
    ("EGRESS_CA_FILE", "/nonexistent/ca.pem", "cannot be read"),
    ("EGRESS_CA_FILE", "/dev/null", "no certificate in PEM form"),
]


@pytest.mark.parametrize(("name", "value", "right"), MALFORMED)
def test_a_malformed_setting_gives_one_line(name: str, value: str, right: str) -> None:
    line = problem({f"WEBHOOK_{name}": value})
    assert "\n" not in line
    assert line.startswith(f"WEBHOOK_{name}: ")
    assert right in line
    assert "sesame" not in line
    assert KEY not in line


def test_a_proxy_that_signs_people_in_has_to_be_named() -> None:
    line = problem({"WEBHOOK_CONSOLE_AUTH": "proxy"})
    assert line.startswith("WEBHOOK_CONSOLE_TRUSTED_PROXIES: not set")
    settings = load_settings(
        {"WEBHOOK_CONSOLE_AUTH": "proxy", "WEBHOOK_CONSOLE_TRUSTED_PROXIES": "10.0.0.0/8"}
    )
    assert settings.console_proxy_header == "X-Forwarded-User"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("https://Console.example.com/", "https://console.example.com"),
        ("https://console.example.com:8443", "https://console.example.com:8443"),
        ("http://localhost:8091", "http://localhost:8091"),
    ],
)
def test_the_consoles_public_url(text: str, read: str) -> None:
    assert load_settings({"WEBHOOK_CONSOLE_ORIGIN": text}).console_origin == read


def test_every_setting_has_a_malformed_example() -> None:
    anything_goes = {"DATA_DIR", "INSTANCE_DIR"}
    assert {name for name, _, _ in MALFORMED} | anything_goes == {
        name.upper() for name in Settings.model_fields
    }


def test_all_problems_are_shown_at_once() -> None:
    lines = problem({"WEBHOOK_LEASE": "30", "WEBHOOK_MAX_LANES": "x", "WEBHOOK_LEASES": "PT1S"}).splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == [
        "WEBHOOK_LEASE",
        "WEBHOOK_LEASES",
        "WEBHOOK_MAX_LANES",
    ]


def test_a_misspelt_name_is_refused_with_the_nearest() -> None:
    assert problem({"WEBHOOK_ATEMPT_TIMEOUT": "PT1S"}) == (
        "WEBHOOK_ATEMPT_TIMEOUT: no such setting; did you mean WEBHOOK_ATTEMPT_TIMEOUT?"
    )


def test_names_made_by_kubernetes_and_empty_values_are_ignored() -> None:
    environ = {"WEBHOOK_DISPATCHER_PORT": "tcp://10.0.0.1:80", "WEBHOOK_LEASE": " ", "PATH": "/bin"}
    assert load_settings(environ) == load_settings({})


def test_the_process_environment_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_LANE_RETRIES", "7")
    monkeypatch.setenv("LANE_RETRIES", "7")
    assert load_settings({}).lane_retries == 2
    assert Settings().lane_retries == 2


def test_a_dot_env_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("WEBHOOK_LANE_RETRIES=7\nLANE_RETRIES=7\n")
    monkeypatch.chdir(tmp_path)
    assert load_settings({}).lane_retries == 2


@pytest.mark.parametrize(
    ("timeout", "lease"), [("PT10S", "PT15S"), ("PT20S", "PT25S"), ("PT1S", "PT1.5S"), ("PT0.2S", "PT0.3S")]
)
def test_a_lease_outlasts_an_attempt_by_five_seconds_or_half_of_it(timeout: str, lease: str) -> None:
    environ = {"WEBHOOK_ATTEMPT_TIMEOUT": timeout, "WEBHOOK_LEASE": lease}
    assert load_settings(environ).lease > load_settings(environ).attempt_timeout
    shorter = f"{lease[:-1]}".removeprefix("PT")
    environ["WEBHOOK_LEASE"] = f"PT{float(shorter) - 0.01:.2f}S"
    assert problem(environ).startswith("WEBHOOK_LEASE: must be at least " + lease)


def test_repr_shows_no_password_and_no_key() -> None:
    settings = load_settings({"WEBHOOK_DATABASE_URL": DATABASE_URL, "WEBHOOK_SECRET_KEYS": f"a:{KEY}"})
    for text in (repr(settings), str(settings), repr(dict(settings))):
        assert "sesame" not in text
        assert KEY not in text


@pytest.mark.parametrize(
    ("text", "host", "url"),
    [
        ("http://proxy.internal:3128", "proxy.internal", "http://proxy.internal:3128"),
        ("http://Proxy:3128/", "proxy", "http://proxy:3128"),
        ("http://10.0.0.9:80", "10.0.0.9", "http://10.0.0.9"),
        ("http://[fd00::9]:3128", "fd00::9", "http://[fd00::9]:3128"),
    ],
)
def test_proxy_is_read(text: str, host: str, url: str) -> None:
    proxy = load_settings({"WEBHOOK_EGRESS_PROXY": text}).proxy()
    assert proxy is not None
    assert (proxy.host, str(proxy.url), proxy.headers()) == (host, url, {})


def test_password_of_the_proxy_is_sent_and_never_shown() -> None:
    settings = load_settings({"WEBHOOK_EGRESS_PROXY": "http://us%40er:ses%3Aame@proxy:3128"})
    proxy = settings.proxy()
    assert proxy is not None
    encoded = base64.b64encode(b"us@er:ses:ame").decode()
    assert proxy.headers() == {"Proxy-Authorization": f"Basic {encoded}"}
    for text in (repr(settings), str(settings), repr(dict(settings)), repr(proxy), str(proxy.url)):
        assert "ame" not in text.replace("nameservers", "")
        assert encoded not in text


def test_proxy_and_http_exclude_one_another() -> None:
    environ = {"WEBHOOK_EGRESS_PROXY": "http://proxy:3128", "WEBHOOK_EGRESS_ALLOW_HTTP": "true"}
    assert problem(environ).startswith("WEBHOOK_EGRESS_PROXY: only https goes through it; ")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        load_settings({}).lane_retries = 3  # type: ignore[misc]


def test_what_is_missing_is_said_when_it_is_needed() -> None:
    settings = load_settings({})
    with pytest.raises(ConfigurationError, match=r"^WEBHOOK_DATABASE_URL: not set"):
        settings.database_dsn()
    with pytest.raises(ConfigurationError, match=r"^WEBHOOK_SECRET_KEYS: not set"):
        settings.keyring()


def test_migrations_use_the_owners_url_where_there_is_one() -> None:
    owner = "postgresql://owner@db/charges"
    both = {"WEBHOOK_DATABASE_URL": DATABASE_URL, "WEBHOOK_MIGRATION_DATABASE_URL": owner}
    assert load_settings(both).migration_dsn() == f"{owner}?sslmode=verify-full"
    settings = load_settings({"WEBHOOK_DATABASE_URL": DATABASE_URL})
    assert settings.migration_dsn() == settings.database_dsn()


def test_a_pooler_needs_a_url_of_its_own_to_migrate() -> None:
    pooled = {"WEBHOOK_DATABASE_URL": DATABASE_URL, "WEBHOOK_DATABASE_POOLER": "transaction"}
    with pytest.raises(ConfigurationError, match="WEBHOOK_MIGRATION_DATABASE_URL: not set, but required"):
        load_settings(pooled).migration_dsn()
    straight = {"WEBHOOK_MIGRATION_DATABASE_URL": "postgresql://owner@localhost/charges"}
    assert load_settings(pooled | straight).migration_dsn().startswith("postgresql://owner@localhost/charges")


def test_lanes_need_open_files() -> None:
    check_open_files(1000, 3064)
    with pytest.raises(ConfigurationError, match=r"^WEBHOOK_MAX_LANES: .* 3064 .* set it to 320 or less$"):
        check_open_files(1000, 1024)
