"""All settings: one flat, frozen class, read once from the environment that the caller hands over.

Source: contract 5. Nothing is read at import, from .env files or behind the caller's back; an empty value
counts as unset. Every problem becomes one line that names the variable and says what would be right.
"""

import difflib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from webhook_dispatcher.domain.duration import render_duration
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.keyring import Keyring
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.settings import forms
from webhook_dispatcher.storage import link
from webhook_dispatcher.transport.guard import EgressPolicy
from webhook_dispatcher.transport.proxy import Proxy

PREFIX = "WEBHOOK_"
IGNORED_PREFIX = "WEBHOOK_DISPATCHER_"
LEASE_MARGIN = timedelta(seconds=5)
OWN_OPEN_FILES = 64
FILES_PER_LANE = 3


def _described(default: Any, description: str, shown: str | None = None) -> Any:
    """Declare a field; `shown` is the default as the README has it, where the value does not say it."""
    return Field(default, description=description, json_schema_extra={"shown": shown} if shown else None)


class Settings(BaseSettings):
    """Everything that can be set; each field is the variable WEBHOOK_ plus its name in capitals."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    database_url: Annotated[SecretStr | None, forms.text(forms.database_url)] = _described(
        None,
        "The charge service's database, `postgresql://user:password@host:port/database`; "
        "`demo` and `run --embedded` start one of their own instead.",
        "required",
    )
    migration_database_url: Annotated[SecretStr | None, forms.text(forms.database_url)] = _described(
        None,
        "The same database as the user who may create schema and roles, for `migrate`.",
        "as `DATABASE_URL`",
    )
    database_tls: Annotated[Literal["verify-full", "waived"], forms.choice("verify-full", "waived")] = (
        _described(
            "verify-full",
            "Off this machine the link is TLS, and the server proves who it is, by an authority in the URL's "
            "`sslrootcert=FILE` or else the system's; `waived` leaves it to the URL's `sslmode`.",
        )
    )
    database_pooler: Annotated[Literal["none", "transaction"], forms.choice("none", "transaction")] = (
        _described(
            "none",
            "`transaction` where `DATABASE_URL` leads through a pooler in transaction mode, such as "
            "PgBouncer; `migrate` then needs a `MIGRATION_DATABASE_URL` straight to Postgres.",
        )
    )
    data_dir: Annotated[Path, forms.text(Path)] = _described(
        Path(".webhook"), "Where the embedded database and the development key are kept.", "`./.webhook`"
    )
    secret_keys: Annotated[SecretStr | None, forms.text(forms.secret_keys)] = _described(
        None,
        "`id:base64key[,id:base64key]`, each of 32 bytes, for the merchants' secrets: the first encrypts, "
        "all decrypt; generated in `DATA_DIR` when there is no `DATABASE_URL`.",
        "required with `DATABASE_URL`",
    )
    retry_schedule: Annotated[Schedule, forms.text(forms.schedule)] = _described(
        Schedule(), "Delays between attempts, each from the end of the attempt before it; 1 to 20 of them."
    )
    attempt_timeout: Annotated[timedelta, forms.duration("PT0.05S", "PT5M")] = _described(
        timedelta(seconds=10),
        "How long one attempt may take, from name look-up to the last header of the answer.",
    )
    lease: Annotated[timedelta, forms.duration("PT0.1S", "PT1H")] = _described(
        timedelta(seconds=30),
        "How long a process holds a merchant without renewing; must exceed `ATTEMPT_TIMEOUT` by 5 s "
        "(by half of it, where that is less).",
    )
    poll_interval: Annotated[timedelta, forms.duration("PT0.001S", "PT1M")] = _described(
        timedelta(milliseconds=25), "How long to wait before looking for new events when there were none."
    )
    max_lanes: Annotated[int, forms.whole_number(1, 100_000)] = _described(
        1000,
        "Merchants served at once by one process; each needs three open files, and 64 are needed besides.",
    )
    lane_retries: Annotated[int, forms.whole_number(1, 100)] = _described(
        2, "Retries in flight per merchant."
    )
    unconfigured_hold: Annotated[timedelta, forms.duration("PT0S", "P365D")] = _described(
        timedelta(days=1), "How long events of a merchant without an endpoint wait for one."
    )
    ops_address: Annotated[str, forms.text(forms.address)] = _described(
        "127.0.0.1:9464", "Where `/metrics`, `/healthz` and `/readyz` are served, `host:port`."
    )
    log_format: Annotated[Literal["json", "console"] | None, forms.choice("json", "console")] = _described(
        None, "`json` or `console`.", "`json` (`console` on a terminal)"
    )
    log_level: Annotated[str, forms.choice("debug", "info", "warning", "error")] = _described(
        "info", "`debug`, `info`, `warning` or `error`."
    )
    shutdown_grace: Annotated[timedelta, forms.duration("PT0S", "PT1H")] = _described(
        timedelta(seconds=12), "How long a stopping process waits for requests in flight and their records."
    )
    retention: Annotated[timedelta, forms.duration("P1D", "P3650D")] = _described(
        timedelta(days=30), "Finished deliveries older than this are dropped."
    )
    egress_allow_networks: Annotated[tuple[forms.Network, ...], forms.text(forms.networks)] = _described(
        (), "Private networks that endpoints may be in all the same, such as `10.1.0.0/16`.", "none"
    )
    egress_allow_hosts: Annotated[frozenset[str], forms.text(forms.hosts)] = _described(
        frozenset(), "Names that endpoints may have all the same, such as `receiver.internal`.", "none"
    )
    egress_allow_http: Annotated[bool, forms.text(forms.boolean)] = _described(
        False, "Whether allowed networks and hosts may be reached by `http` too."
    )
    egress_deny_networks: Annotated[tuple[forms.Network, ...], forms.text(forms.networks)] = _described(
        (),
        "Networks that endpoints may never be in, whatever allows them, such as your own public addresses.",
        "none",
    )
    egress_proxy: Annotated[SecretStr | None, forms.text(forms.egress_proxy)] = _described(
        None,
        "`http://[user:password@]host:port`: send through this proxy (CONNECT), which resolves the names; "
        "not with `EGRESS_ALLOW_HTTP`. Proxies of the environment are never used.",
        "none",
    )
    egress_nameservers: Annotated[tuple[str, ...], forms.text(forms.nameservers)] = _described(
        (), "Name servers to ask, `address:port`, separated by commas.", "the system's"
    )
    egress_ca_file: Annotated[Path | None, forms.text(forms.ca_file)] = _described(
        None, "A PEM file of certificate authorities to trust besides the system's.", "system roots"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what `load_settings` hands over and nothing else."""
        return (init_settings,)

    @model_validator(mode="after")
    def _proxy_is_for_https(self) -> "Settings":
        if self.egress_proxy and self.egress_allow_http:
            raise ValueError(
                f"{PREFIX}EGRESS_PROXY: only https goes through it; {PREFIX}EGRESS_ALLOW_HTTP must be false"
            )
        return self

    @model_validator(mode="after")
    def _lease_outlasts_attempt(self) -> "Settings":
        least = self.attempt_timeout + min(LEASE_MARGIN, self.attempt_timeout / 2)
        if self.lease < least:
            raise ValueError(
                f"{PREFIX}LEASE: must be at least {render_duration(least)} with an attempt timeout of "
                f"{render_duration(self.attempt_timeout)}, not {render_duration(self.lease)}"
            )
        return self

    @model_validator(mode="after")
    def _links_are_verified(self) -> "Settings":
        for name in ("database_url", "migration_database_url"):
            url: SecretStr | None = getattr(self, name)
            try:
                if url is not None:
                    forms.root_certificates(self._linked(url))
            except ValueError as error:
                raise ValueError(f"{PREFIX}{name.upper()}: {error}") from None
        return self

    def _linked(self, url: SecretStr) -> str:
        text = url.get_secret_value()
        return text if self.database_tls == "waived" else link.secured(text)

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler in transaction mode stands before the database."""
        return self.database_pooler == "transaction"

    def database_dsn(self) -> str:
        """Return the database's URL, or say that it is missing."""
        if self.database_url is None:
            raise ConfigurationError(
                f"{PREFIX}DATABASE_URL: not set; give postgresql://user:password@host:port/database "
                "(`webhook-dispatcher demo` and `run --embedded` need none)"
            )
        return self._linked(self.database_url)

    def migration_dsn(self) -> str:
        """Return the URL to migrate with: the owner's if given, which a pooler makes necessary."""
        url = self.migration_database_url
        if url is None and self.is_pooled:
            raise ConfigurationError(
                f"{PREFIX}MIGRATION_DATABASE_URL: not set, but required with "
                f"{PREFIX}DATABASE_POOLER=transaction: migrate connects straight to Postgres"
            )
        return self._linked(url) if url else self.database_dsn()

    def keyring(self) -> Keyring:
        """Return the encryption keys, or say that they are missing."""
        if self.secret_keys is None:
            raise ConfigurationError(
                f"{PREFIX}SECRET_KEYS: not set, but required with {PREFIX}DATABASE_URL; give id:base64key, "
                'the key being 32 random bytes (for example "k1:$(openssl rand -base64 32)")'
            )
        return Keyring.parse(self.secret_keys.get_secret_value())

    def egress_policy(self) -> EgressPolicy:
        """Return what the guard is to allow."""
        return EgressPolicy(
            self.egress_allow_networks,
            self.egress_allow_hosts,
            self.egress_allow_http,
            self.egress_deny_networks,
        )

    def proxy(self) -> Proxy | None:
        """Return the proxy to send through."""
        return Proxy.parse(self.egress_proxy.get_secret_value()) if self.egress_proxy else None


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read settings from the given environment; ConfigurationError has one line per problem."""
    given = {
        name: text
        for name, text in environ.items()
        if name.startswith(PREFIX) and not name.startswith(IGNORED_PREFIX)
    }
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    fields: dict[str, Any] = {
        name.removeprefix(PREFIX).lower(): given[name] for name in known & given.keys() if given[name].strip()
    }
    problems = [_unknown(name, known) for name in sorted(given.keys() - known)]
    try:
        settings = Settings(**fields)
    except ValidationError as error:
        problems += [_problem(found["loc"], found["msg"]) for found in error.errors(include_input=False)]
    if problems:
        raise ConfigurationError("\n".join(problems))
    return settings


def _unknown(name: str, known: set[str]) -> str:
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f"{name}: no such setting" + (f"; did you mean {nearest[0]}?" if nearest else "")


def _problem(location: tuple[int | str, ...], message: str) -> str:
    text = " ".join(message.removeprefix("Value error, ").split())
    return f"{PREFIX}{str(location[0]).upper()}: {text}" if location else text


def check_open_files(max_lanes: int, limit: int) -> None:
    """Refuse more lanes than open files allow.

    Each may have a first attempt, a retry and a kept connection open; the rest is our own.
    """
    needed = max_lanes * FILES_PER_LANE + OWN_OPEN_FILES
    if limit < needed:
        possible = (limit - OWN_OPEN_FILES) // FILES_PER_LANE
        mend = f" or set it to {possible} or less" if possible >= 1 else ""
        raise ConfigurationError(
            f"{PREFIX}MAX_LANES: {max_lanes} lanes need {needed} open files, but the limit is {limit}: "
            f"raise it (ulimit -n, LimitNOFILE){mend}"
        )


def settings_table() -> str:
    """Write the README's table of settings (markdown)."""
    rows = ["| name | default | meaning |", "| --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        shown = str(extra["shown"]) if isinstance(extra, dict) else f"`{_rendered(field.default)}`"
        rows.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(rows) + "\n"


def _rendered(value: object) -> str:
    match value:
        case timedelta():
            return render_duration(value)
        case Schedule():
            return ",".join(render_duration(delay) for delay in value.delays)
        case bool():
            return str(value).lower()
        case _:
            return str(value)
