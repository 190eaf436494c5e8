"""No secret and no key reaches the server: it is made to log every statement and every value it is given."""

import asyncio
import base64
import json
import traceback
from collections.abc import Iterator
from datetime import timedelta

import asyncpg
import pytest

from tests.servers import programs
from tests.servers.database import own_server
from webhook_dispatcher.app import run
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.program import program
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.arrivals import Signature
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.local.receiver import Receiver
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage import schema

PATIENCE = timedelta(seconds=20)
STATISTICS = "pg_stat_statements"
KEYS = {
    key_id: base64.b64encode(f"the key {key_id}".encode().ljust(32, b"\xf3")).decode()
    for key_id in ("k1", "k2")
}
INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m1', 'charge.created', '{}')"
TALKATIVE = {
    "log_statement": "all",
    "log_min_duration_statement": "0",
    "log_parameter_max_length": "-1",
    "log_parameter_max_length_on_error": "-1",
    "log_error_verbosity": "verbose",
    "log_min_error_statement": "debug5",
}


def has_statistics() -> bool:
    """Tell whether the programs bring the extension; the wheel's do not."""
    return any(programs().parent.rglob(f"{STATISTICS}.so"))


@pytest.fixture(scope="module")
def talkative() -> Iterator[EmbeddedPostgres]:
    extra = {"shared_preload_libraries": STATISTICS} if has_statistics() else {}
    with own_server({**TALKATIVE, **extra}) as server:
        asyncio.run(schema.migrate(server.dsn()))
        yield server


def environ(server: EmbeddedPostgres, user: str, *key_ids: str) -> dict[str, str]:
    return {
        "WEBHOOK_DATABASE_URL": server.dsn(user),
        "WEBHOOK_SECRET_KEYS": ",".join(f"{key_id}:{KEYS[key_id]}" for key_id in key_ids),
        "WEBHOOK_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
        "WEBHOOK_EGRESS_ALLOW_HTTP": "true",
        "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
        "WEBHOOK_MAX_LANES": "10",
    }


class Console:
    """Runs commands as webhook_admin."""

    def __init__(self, server: EmbeddedPostgres, capsys: pytest.CaptureFixture[str]) -> None:
        self._server = server
        self._capsys = capsys

    def secret(self, *line: str, keys: tuple[str, ...] = ("k1",)) -> str:
        """Return the secret that a command printed."""
        self._capsys.readouterr()
        assert main([*line, "--json"], CliContext(environ(self._server, "webhook_admin", *keys))) == 0
        secret: str = json.loads(self._capsys.readouterr().out)["secret"]
        return secret

    def rekey(self) -> None:
        """Put everything under k2."""
        session = CliContext(environ(self._server, "webhook_admin", "k2", "k1"))
        assert main(["endpoint", "rekey"], session) == 0


def spellings(secret: str) -> list[str]:
    """Return what must appear nowhere: the text, its random part, and how bytes are written."""
    raw = secret.encode()
    return [secret, secret.removeprefix("whsec_"), raw.hex(), base64.b64encode(raw).decode(), repr(raw)[2:-1]]


def key_spellings() -> list[str]:
    raw = [base64.b64decode(key) for key in KEYS.values()]
    return [*KEYS.values(), *(key.hex() for key in raw), *(repr(key)[2:-1] for key in raw)]


async def deliver(server: EmbeddedPostgres, receiver: Receiver) -> None:
    """Have a daemon deliver one event."""
    async with run.running(load_settings(environ(server, "webhook_dispatcher", "k1"))):
        producer = await asyncpg.connect(server.dsn("webhook_producer"))
        await producer.execute(INSERT)
        await producer.close()
        await receiver.wait_for(lambda arrivals: any(arrival.ended_at for arrival in arrivals), PATIENCE)


async def read(server: EmbeddedPostgres, query: str) -> str:
    connection = await asyncpg.connect(server.dsn())
    rows = await connection.fetch(query)
    await connection.close()
    return "\n".join(str(tuple(row)) for row in rows)


def test_neither_the_servers_log_nor_its_statistics_hold_a_secret_or_a_key(
    talkative: EmbeddedPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(talkative, capsys)
    if has_statistics():
        asyncio.run(read(talkative, f"CREATE EXTENSION {STATISTICS}"))

    async def rotate_and_deliver() -> list[str]:
        async with Receiver() as receiver:
            first = await asyncio.to_thread(console.secret, "endpoint", "set", "m1", receiver.url("m1"))
            rotate = ("endpoint", "rotate-secret", "m1", "--overlap", "PT1H")
            second = await asyncio.to_thread(console.secret, *rotate)
            receiver.secrets["m1"] = Secret(second)
            await deliver(talkative, receiver)
            assert [arrival.signature for arrival in receiver.arrivals] == [Signature.RIGHT]
        return [first, second]

    secrets = asyncio.run(rotate_and_deliver())
    console.rekey()
    secrets.append(console.secret("endpoint", "rotate-secret", "m1", keys=("k2",)))

    log = talkative.log_file.read_text()
    stored = asyncio.run(read(talkative, "SELECT encode(secret, 'hex') FROM webhook.endpoint"))
    # The log does hold what the server was given: the ciphertext, for one.
    assert stored[2:-3] in log
    assert log.count("previous_secret = unchanged.previous_secret") >= 1
    statistics = asyncio.run(read(talkative, f"SELECT query FROM {STATISTICS}")) if has_statistics() else ""
    for hidden in [*(spelling for secret in secrets for spelling in spellings(secret)), *key_spellings()]:
        assert hidden not in log
        assert hidden not in statistics


def test_an_error_in_the_middle_of_setting_an_endpoint_shows_neither_secret_nor_key(
    talkative: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    really_make = Secret.from_random.__func__  # type: ignore[attr-defined]

    def make(cls: type[Secret], random: bytes) -> Secret:
        secret: Secret = really_make(cls, random)
        made.append(secret.revealed.decode())
        return secret

    monkeypatch.setattr(Secret, "from_random", classmethod(make))
    refuse = "ALTER TABLE webhook.endpoint ADD CONSTRAINT no_such_merchant CHECK (merchant_id <> 'm2')"
    asyncio.run(read(talkative, refuse))
    with pytest.raises(StatementRefused) as caught:
        program().main(
            ["endpoint", "set", "m2", "https://merchant.com/"],
            standalone_mode=False,
            obj=CliContext(environ(talkative, "webhook_admin", "k1")),
        )
    (secret,) = made
    log = talkative.log_file.read_text()
    assert "no_such_merchant" in log
    # With every local variable of every frame down to the driver's, but for this one.
    assert caught.value.__traceback__ is not None
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    told = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "in configure" in told
    assert "asyncpg" in told
    for hidden in [*spellings(secret), *key_spellings()]:
        assert hidden not in log
        assert hidden not in told
        assert hidden not in str(caught.value)


def test_what_holds_secrets_does_not_show_them() -> None:
    secret = Secret("whsec_" + "s3cr3t" * 6)
    given = {
        "WEBHOOK_DATABASE_URL": "postgresql://u:sesame@localhost/x",
        "WEBHOOK_SECRET_KEYS": f"k1:{KEYS['k1']}",
    }
    settings = load_settings(given)
    keyring = settings.keyring()
    holders = (secret, settings, keyring, CliContext(given), keyring.seal("m1", secret), settings.secret_keys)
    shown = "".join(f"{holder!r} {holder} {[holder]}" for holder in holders)
    for hidden in [*spellings(secret.revealed.decode()), *key_spellings(), "sesame"]:
        assert hidden not in shown
