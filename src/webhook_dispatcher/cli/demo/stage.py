"""Everything a demo needs, in this process: database, receiver, daemon and producer."""

import asyncio
import base64
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import asyncpg

from webhook_dispatcher.app import run
from webhook_dispatcher.app.daemon import Daemon
from webhook_dispatcher.cli.demo import cast
from webhook_dispatcher.cli.demo.ledger import Ledger
from webhook_dispatcher.cli.demo.sign_in import SignIn
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.signing import KEY_BYTES, SECRET_RANDOM_BYTES, Secret
from webhook_dispatcher.local.arrivals import Arrival
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.local.producer import Producer, Written
from webhook_dispatcher.local.program_process import ProgramProcess, environment_of
from webhook_dispatcher.local.receiver import Receiver
from webhook_dispatcher.settings import Settings, load_settings
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.administration import Administration, administration
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes
from webhook_dispatcher.storage.connection import connect

LOOK_INTERVAL_SECONDS = 0.1
PASSED_ON = (
    *("WEBHOOK_OPS_ADDRESS", "WEBHOOK_API_ADDRESS", "WEBHOOK_API_OPS_ADDRESS", "WEBHOOK_CONSOLE_ADDRESS"),
    *("WEBHOOK_LOG_FORMAT", "WEBHOOK_LOG_LEVEL"),
)
"""Of our environment: nothing that could lead to another database."""
API_START = timedelta(seconds=60)
COUNT_BY_STATE = (
    "SELECT merchant_id, state, count(*) AS deliveries FROM webhook.deliveries "
    "WHERE type <> 'webhook.test' GROUP BY 1, 2"
)


@dataclass
class Stage:
    """What is running, and what has been written so far.

    observer: sees the views as `webhook_observer`; admin: acts as `webhook_admin`.
    sign_in: how whoever watches gets into the console.
    written: whole events, for the audit; seqs: what is kept of them however long it takes.
    characters: what each merchant's receiver does now, in words.
    """

    producer_dsn: str
    receiver: Receiver
    admin: Administration
    observer: asyncpg.Connection
    daemon: Daemon
    ledger: Ledger
    is_audited: bool
    api: ProgramProcess
    console: ProgramProcess
    sign_in: SignIn
    written: dict[str, Written] = field(default_factory=dict)
    seqs: dict[str, int] = field(default_factory=dict)
    characters: dict[str, str] = field(
        default_factory=lambda: {one.id: one.character for one in cast.MERCHANTS}
    )
    _running: AsyncExitStack = field(default_factory=AsyncExitStack)
    _observing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def note(self, written: Written) -> None:
        """Remember what the producer committed."""
        self.seqs[str(written.id)] = written.seq
        if self.is_audited:
            self.written[str(written.id)] = written

    async def drain(self) -> None:
        """Let the daemon end what is in flight, record it, and stop; errors are those of the daemon."""
        await self._running.aclose()

    def producer(self) -> Producer:
        """Make the charge service's stand-in."""
        return Producer(
            self.producer_dsn,
            {merchant.id: merchant.share for merchant in cast.MERCHANTS},
            on_written=self.note,
            writers=cast.WRITERS,
            rate=cast.RATE if self.is_audited else cast.RATE_TO_WATCH,
        )

    async def count_by_state(self) -> dict[str, Counter[str]]:
        """Count deliveries by merchant and state, as the views have them."""
        counts = {merchant.id: Counter[str]() for merchant in cast.MERCHANTS}
        async with self._observing:
            rows = await self.observer.fetch(COUNT_BY_STATE)
        for merchant_id, state, deliveries in rows:
            counts[merchant_id][state] = deliveries
        return counts

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str, deadline: timedelta) -> None:
        """Wait for a condition; UserError says what did not come about, or why the daemon has failed."""
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                while not await condition():
                    if (error := self.daemon.failure()) is not None:
                        raise UserError(f"the daemon has failed: {error!r}")
                    await asyncio.sleep(LOOK_INTERVAL_SECONDS)
        except TimeoutError:
            raise UserError(f"not within {deadline.total_seconds():.0f} s: {what}") from None

    async def api_url(self) -> str:
        """Wait until the Partner API answers, and say where; UserError says why it does not."""

        async def is_started() -> bool:
            if self.api.code is not None:
                raise UserError(f"the Partner API ended with {self.api.code}: {self.api.log_tail()}")
            return self.api.url() is not None

        await self.until(is_started, "the Partner API answers", API_START)
        url = self.api.url()
        assert url is not None
        return url

    def merchant_of(self, arrival: Arrival) -> str:
        """Name the merchant of an arrival, wherever it went."""
        return cast.merchant_at(arrival.merchant_id)


@asynccontextmanager
async def set_up(
    postgres: EmbeddedPostgres, folder: Path, environ: Mapping[str, str], is_audited: bool
) -> AsyncIterator[Stage]:
    """Build the schema, configure the merchants, start receiver and daemon; end them in reverse.

    is_audited: whether all that is written and arrives is kept, to be compared in the end.
    """
    await schema.migrate(postgres.dsn(), ChosenIndexes(feed=True))
    ledger = Ledger()
    ca_file = folder / "ca.pem"
    tls = server_context(ca_file)
    chosen = _chosen(ca_file, environ)
    settings = _settings(postgres, chosen)
    async with AsyncExitStack() as stack:
        # First of all: they start while the rest is made.
        api, console = (
            stack.enter_context(program)
            for program in _programs_beside(postgres, folder, environ, chosen, settings)
        )
        receiver = await stack.enter_async_context(
            Receiver(tls=tls, keep=is_audited, on_arrival=ledger.take_in)
        )
        admin = await stack.enter_async_context(administration(postgres.dsn("webhook_admin")))
        await _configure(receiver, admin, settings)
        observer = await connect(
            postgres.dsn("webhook_observer"),
            application_name="webhook-dispatcher demo",
            command_timeout=timedelta(seconds=10),
        )
        stack.push_async_callback(observer.close, timeout=5)
        # A connection of its own: the scenes use the other meanwhile.
        host = await stack.enter_async_context(administration(postgres.dsn("webhook_admin")))
        running = await stack.enter_async_context(AsyncExitStack())
        daemon = await running.enter_async_context(run.running(settings))
        yield Stage(
            postgres.dsn("webhook_producer"),
            receiver,
            admin,
            observer,
            daemon,
            ledger,
            is_audited,
            api,
            console,
            SignIn(host.connection),
            _running=running,
        )


def _programs_beside(
    postgres: EmbeddedPostgres,
    folder: Path,
    environ: Mapping[str, str],
    chosen: Mapping[str, str],
    settings: Settings,
) -> Iterator[ProgramProcess]:
    """Give the Partner API and the console, with the daemon's settings, which both show or keep to."""
    own = {name: text for name, text in environ.items() if not name.startswith("WEBHOOK_")}
    given = {**own, **chosen, "WEBHOOK_LOG_FORMAT": "json"}
    api = environment_of(
        given,
        postgres.dsn("webhook_api"),
        WEBHOOK_API_ADDRESS=settings.api_address,
        WEBHOOK_API_OPS_ADDRESS="127.0.0.1:0",
    )
    yield ProgramProcess("api", api, folder, folder / "api.log")
    console = environment_of(
        given, postgres.dsn("webhook_console"), WEBHOOK_CONSOLE_ADDRESS=settings.console_address
    )
    yield ProgramProcess("console", console, folder, folder / "console.log")


def _chosen(ca_file: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the programs share."""
    return {
        **{name: environ[name] for name in PASSED_ON if name in environ},
        "WEBHOOK_RETRY_SCHEDULE": cast.RETRY_SCHEDULE,
        "WEBHOOK_ATTEMPT_TIMEOUT": cast.ATTEMPT_TIMEOUT,
        "WEBHOOK_LEASE": cast.LEASE,
        "WEBHOOK_LANE_RETRIES": cast.LANE_RETRIES,
        "WEBHOOK_MAX_LANES": "50",
        "WEBHOOK_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
        "WEBHOOK_EGRESS_CA_FILE": str(ca_file),
    }


def _settings(postgres: EmbeddedPostgres, chosen: Mapping[str, str]) -> Settings:
    return load_settings(
        {
            "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
            **chosen,
            "WEBHOOK_DATABASE_URL": postgres.dsn("webhook_dispatcher"),
            "WEBHOOK_SECRET_KEYS": "demo:" + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode(),
        }
    )


async def _configure(receiver: Receiver, admin: Administration, settings: Settings) -> None:
    """Give each merchant a secret, an endpoint and a character."""
    keyring = settings.keyring()
    for merchant in cast.MERCHANTS:
        secret = Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES))
        receiver.secrets[merchant.id] = secret
        receiver.behave(merchant.id, *merchant.behaviours, per_event=True)
        sealed = keyring.seal(merchant.id, secret)
        await admin.insert_endpoint(merchant.id, receiver.url(merchant.id), sealed, keyring)
    receiver.secrets[cast.MOVED_TO] = receiver.secrets[cast.HANGING.id]
