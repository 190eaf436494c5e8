"""One field for each variable of the environment, and what follows from several of them together.

Source: contract 5. Whoever makes settings validates them; `load_settings` does so from the environment.
"""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from webhook_dispatcher.domain.duration import render_duration
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.signing import Keyring
from webhook_dispatcher.settings import forms, shards
from webhook_dispatcher.settings.shards import Shard
from webhook_dispatcher.storage import link

if TYPE_CHECKING:
    from webhook_dispatcher.transport.guard import EgressPolicy
    from webhook_dispatcher.transport.proxy import Proxy

PREFIX = "WEBHOOK_"
LEASE_MARGIN = timedelta(seconds=5)


def variable(name: str) -> str:
    """Return the variable that a field is read from."""
    return PREFIX + name.upper()


class Settings(BaseSettings):
    """Everything that can be set; each field is the variable WEBHOOK_ plus its name in capitals.

    A text below a field is its meaning in docs/reference.md, one among its annotations its default in words.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        validate_default=False,
        env_prefix=PREFIX,
        enable_decoding=False,
    )

    database_url: Annotated[tuple[Shard, ...] | None, shards.FORM, "required"] = None
    """The charge service's database, `postgresql://user:password@host:port/database`, or several, each with a
    name: `eu1=postgresql://… eu2=postgresql://…`; `demo` and `run --embedded` start one of their own instead.
    """
    migration_database_url: Annotated[tuple[Shard, ...] | None, shards.FORM, "as `DATABASE_URL`"] = None
    """The same databases, by the same names, as the user who may create schema and roles, for `migrate`."""
    installation: Annotated[str | None, forms.INSTALLATION, "not compared"] = None
    """The name of this installation: a database that belongs to another one, such as a copy, is refused. The
    first `migrate` stores it, or makes one up and says so; `adopt` changes it."""
    processes: Annotated[int | Literal["auto"], forms.whole_number(1, forms.MAX_PROCESSES, "auto")] = 1
    """How many processes share the work on each database; `auto` is the CPUs that may be used, divided by the
    databases. With more than one, or several databases, `run` starts and watches them."""
    database_tls: Annotated[Literal["verify-full", "waived"], forms.choice("verify-full", "waived")] = (
        "verify-full"
    )
    """Off this machine the link is TLS, and the server proves who it is, by an authority in the URL's
    `sslrootcert=FILE` or else the system's; `waived` leaves it to the URL's `sslmode`."""
    database_pooler: Annotated[Literal["none", "transaction"], forms.choice("none", "transaction")] = "none"
    """`transaction` where `DATABASE_URL` leads through a pooler in transaction mode, such as PgBouncer;
    `migrate` then needs a `MIGRATION_DATABASE_URL` straight to Postgres."""
    instance_dir: Annotated[Path | None, forms.PATH, "after a crash the lease is waited for"] = None
    """A folder on this machine that outlives a process, as systemd's `RuntimeDirectory` and a pod's
    `emptyDir` do: what a crashed process held is released at once, not when its lease ends. Processes of one
    supervisor have one of their own."""
    data_dir: Annotated[Path, forms.PATH, "`./.webhook`"] = Path(".webhook")
    """Where the embedded database and the development key are kept."""
    secret_keys: Annotated[SecretStr | None, forms.SECRET_KEYS, "required with `DATABASE_URL`"] = None
    """Keys of 32 bytes for the merchants' secrets: the first encrypts, all decrypt; one is generated in
    `DATA_DIR` when there is no `DATABASE_URL`."""
    secrets_dir: Annotated[Path | None, forms.PATH] = None
    """A folder of secrets, each in a file that is called as its variable: Docker's `/run/secrets`, a mount of
    Kubernetes, `%d` in a unit of systemd."""
    retry_schedule: Annotated[Schedule, forms.SCHEDULE] = Schedule()
    """Delays between attempts, each from the end of the attempt before it."""
    attempt_timeout: Annotated[timedelta, forms.duration("PT0.05S", "PT5M")] = timedelta(seconds=10)
    """How long one attempt may take, from name look-up to the last header of the answer."""
    lease: Annotated[timedelta, forms.duration("PT0.1S", "PT1H")] = timedelta(seconds=30)
    """How long a process holds a merchant without renewing; must exceed `ATTEMPT_TIMEOUT` by 5 s (by half of
    it, where that is less)."""
    poll_interval: Annotated[timedelta, forms.duration("PT0.001S", "PT1M")] = timedelta(milliseconds=25)
    """The longest wait before looking for new events; while some are found it is an eighth of the usual time
    between them, 1 ms at least."""
    max_lanes: Annotated[int, forms.whole_number(1, 100_000)] = 1000
    """Merchants served at once by one process, and retries in flight at once; each merchant needs three open
    files, and 64 are needed besides."""
    lane_retries: Annotated[int, forms.whole_number(1, 100)] = 2
    """Retries in flight per merchant."""
    unconfigured_hold: Annotated[timedelta, forms.duration("PT0S", "P365D")] = timedelta(days=1)
    """How long events of a merchant without an endpoint wait for one."""
    failing_after: Annotated[timedelta, forms.duration("PT1M", "P365D")] = timedelta(hours=1)
    """How long nothing of a merchant's may have been accepted before the platform is told
    (`endpoint.failing`)."""
    suspend_after: Annotated[timedelta | None, forms.duration("PT1H", "P365D"), "nobody is suspended"] = None
    """A merchant of whom nothing was accepted for so long, with twenty events tried, is suspended: its oldest
    event is tried once an interval. P5D is advised; the same for all daemons."""
    suspension_interval: Annotated[timedelta, forms.duration("PT1M", "P7D")] = timedelta(hours=1)
    """How often a suspended merchant is tried."""
    ops_address: Annotated[str, forms.ADDRESS] = "127.0.0.1:9464"
    """Where `/metrics`, `/healthz` and `/readyz` are served."""
    log_format: Annotated[
        Literal["json", "console"] | None, forms.choice("json", "console"), "`json` (`console` on a terminal)"
    ] = None
    """How lines of the log are written."""
    log_level: Annotated[str, forms.choice("debug", "info", "warning", "error")] = "info"
    """Lines of the log that are less severe are left out."""
    log_successes: Annotated[float, forms.SHARE] = 1.0
    """The share of attempts that delivered which the log tells one by one; the line that comes next says how
    many were left out (`left_out`)."""
    shutdown_grace: Annotated[timedelta, forms.duration("PT0S", "PT1H")] = timedelta(seconds=12)
    """How long a stopping process waits for requests in flight and their records."""
    retention: Annotated[timedelta, forms.duration("P1D", "P3650D")] = timedelta(days=30)
    """Finished deliveries older than this are dropped."""
    egress_allow_networks: Annotated[tuple[forms.Network, ...], forms.NETWORKS] = ()
    """Private networks that endpoints may be in all the same, such as `10.1.0.0/16`."""
    egress_allow_hosts: Annotated[frozenset[str], forms.HOSTS] = frozenset()
    """Names that endpoints may have all the same, such as `receiver.internal`."""
    egress_allow_http: Annotated[bool, forms.BOOLEAN] = False
    """Whether allowed networks and hosts may be reached by `http` too."""
    egress_deny_networks: Annotated[tuple[forms.Network, ...], forms.NETWORKS] = ()
    """Networks that endpoints may never be in, whatever allows them, such as your own public addresses."""
    egress_proxy: Annotated[SecretStr | None, forms.EGRESS_PROXY] = None
    """Send through this proxy (CONNECT), which resolves the names; not with `EGRESS_ALLOW_HTTP`. Proxies of
    the environment are never used."""
    egress_nameservers: Annotated[tuple[str, ...], forms.NAMESERVERS, "the system's"] = ()
    """Name servers to ask."""
    egress_ca_file: Annotated[Path | None, forms.CA_FILE, "system roots"] = None
    """A PEM file of certificate authorities to trust besides the system's."""
    sender: Annotated[Literal["llhttp", "aiohttp"], forms.choice("llhttp", "aiohttp")] = "llhttp"
    """The HTTP client: `llhttp`, our own, or `aiohttp`, which does the same at several times the cost: for
    when you suspect ours."""

    response_excerpt: Annotated[int, forms.whole_number(0, 2048)] = 0
    """How many bytes are kept of the body of an answer that is no delivery, in `webhook.responses`; it may
    repeat the event, and is waited for half a second at most."""

    api_address: Annotated[str, forms.ADDRESS] = "127.0.0.1:8080"
    """Where `api` serves the Partner API, as plain HTTP: TLS is the load balancer's."""
    api_ops_address: Annotated[str, forms.ADDRESS] = "127.0.0.1:9465"
    """Where `api` serves `/metrics`, `/healthz` and `/readyz`."""
    api_trusted_proxies: Annotated[tuple[forms.Network, ...], forms.NETWORKS] = ()
    """Networks of load balancers whose `X-Forwarded-For` is believed; of it the right-most address that is in
    none of them counts. They may have any number of connections."""
    api_upstream: Annotated[str | None, forms.UPSTREAM] = None
    """The charge service, which `api` forwards its operations to; its paths are below this URL. Without it
    these operations are 404."""
    api_max_connections: Annotated[int, forms.whole_number(1, 100_000)] = 1000
    """Connections that one process of `api` keeps, an address a quarter of them; beyond, one is closed that
    waits for its client. Each needs an open file, and 64 are needed besides."""

    console_address: Annotated[str, forms.ADDRESS] = "127.0.0.1:8091"
    """Where `console` serves its pages, as plain HTTP: TLS is the load balancer's."""
    console_origin: Annotated[str | None, forms.ORIGIN, "this machine, by http"] = None
    """The console's public URL without a path, such as `https://console.example.com`; the proxy before it
    passes `Host` on. Without it the console is for this machine alone."""
    console_auth: Annotated[Literal["accounts", "proxy"], forms.choice("accounts", "proxy")] = "accounts"
    """`accounts`: people sign in by password or code. `proxy`: a proxy before the console has signed them in,
    and names them in a header."""
    console_proxy_header: Annotated[str, forms.HEADER_NAME] = "X-Forwarded-User"
    """With `CONSOLE_AUTH=proxy`: the header that names the account. The proxy must replace it in what clients
    send."""
    console_trusted_proxies: Annotated[tuple[forms.Network, ...], forms.NETWORKS] = ()
    """Networks of proxies before the console whose `X-Forwarded-For`, and with `CONSOLE_AUTH=proxy` whose
    header, is believed."""

    api_limits: Annotated[RateLimits, forms.LIMITS] = RateLimits()
    """How often a client id and an IP address may ask for tokens, a card may be confirmed, and an API key may
    ask for all else; 0 is no limit. Merchants were told the defaults: others are for tests."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what is handed over and nothing else; `load_settings` asks the sources itself."""
        return (init_settings,)

    @model_validator(mode="after")
    def _fit_together(self) -> "Settings":
        if self.egress_proxy and self.egress_allow_http:
            raise ValueError(
                f"{PREFIX}EGRESS_PROXY: only https goes through it; {PREFIX}EGRESS_ALLOW_HTTP must be false"
            )
        if self.console_auth == "proxy" and not self.console_trusted_proxies:
            raise ValueError(
                f"{PREFIX}CONSOLE_TRUSTED_PROXIES: not set, but required with {PREFIX}CONSOLE_AUTH=proxy: "
                "anybody could name an account otherwise"
            )
        least = self.attempt_timeout + min(LEASE_MARGIN, self.attempt_timeout / 2)
        if self.lease < least:
            raise ValueError(
                f"{PREFIX}LEASE: must be at least {render_duration(least)} with an attempt timeout of "
                f"{render_duration(self.attempt_timeout)}, not {render_duration(self.lease)}"
            )
        for name in ("database_url", "migration_database_url"):
            for shard in getattr(self, name) or ():
                try:
                    forms.root_certificates(self._linked(shard))
                except ValueError as error:
                    of = f"{shard.name}: " if shard.name else ""
                    raise ValueError(f"{variable(name)}: {of}{error}") from None
        ours, owners = self.database_url, self.migration_database_url
        if ours and owners and {shard.name for shard in ours} != {shard.name for shard in owners}:
            raise ValueError(
                f"{PREFIX}MIGRATION_DATABASE_URL: must name the databases as {PREFIX}DATABASE_URL does, "
                f"{shards.names_of(ours)}, not {shards.names_of(owners)}"
            )
        return self

    def _linked(self, shard: Shard) -> str:
        text = shard.url.get_secret_value()
        return text if self.database_tls == "waived" else link.secured(text)

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler in transaction mode stands before the database."""
        return self.database_pooler == "transaction"

    def databases(self) -> tuple[Shard, ...]:
        """Return the databases, or say that they are missing."""
        if self.database_url is None:
            raise ConfigurationError(
                f"{PREFIX}DATABASE_URL: not set; give postgresql://user:password@host:port/database "
                "(`webhook-dispatcher demo` and `run --embedded` need none)"
            )
        return self.database_url

    @property
    def shard_name(self) -> str | None:
        """The name of the only database, if it has one."""
        return self.database_url[0].name if self.database_url and len(self.database_url) == 1 else None

    def of_shard(self, name: str | None) -> "Settings":
        """Return these settings with one database alone, or say which there are to choose from."""
        return self.model_copy(update={"database_url": (shards.choose(self.databases(), name),)})

    def database_dsn(self) -> str:
        """Return the database's URL, or say that it is missing, or one of several."""
        return self._linked(shards.choose(self.databases(), None))

    def migrations(self) -> tuple[Shard, ...]:
        """Return the databases to migrate: the owner's URLs if given, which a pooler makes necessary."""
        if self.migration_database_url is None and self.is_pooled:
            raise ConfigurationError(
                f"{PREFIX}MIGRATION_DATABASE_URL: not set, but required with "
                f"{PREFIX}DATABASE_POOLER=transaction: migrate connects straight to Postgres"
            )
        return self.migration_database_url or self.databases()

    def migration_dsn(self, name: str | None = None) -> str:
        """Return the URL to migrate a database with."""
        return self._linked(shards.choose(self.migrations(), name))

    def process_count(self, cpus: int) -> int:
        """Return how many processes each database is served by, where so many CPUs may be used."""
        return -(-cpus // len(self.databases())) if self.processes == "auto" else self.processes

    def keyring(self) -> Keyring:
        """Return the encryption keys, or say that they are missing."""
        if self.secret_keys is None:
            raise ConfigurationError(
                f"{PREFIX}SECRET_KEYS: not set, but required with {PREFIX}DATABASE_URL",
                remedy="give id:base64key, the key being 32 random bytes "
                '(for example "k1:$(openssl rand -base64 32)")',
                separator="; ",
            )
        return Keyring.parse(self.secret_keys.get_secret_value())

    def egress_policy(self) -> "EgressPolicy":
        """Return what the guard is to allow."""
        # Late, as below: most commands send nothing.
        from webhook_dispatcher.transport.guard import EgressPolicy

        return EgressPolicy(
            self.egress_allow_networks,
            self.egress_allow_hosts,
            self.egress_allow_http,
            self.egress_deny_networks,
        )

    def proxy(self) -> "Proxy | None":
        """Return the proxy to send through."""
        from webhook_dispatcher.transport.proxy import Proxy

        return Proxy.parse(self.egress_proxy.get_secret_value()) if self.egress_proxy else None
