"""Deliver one event, and print each statement with its values and the request, as they ended.

What is printed is what Postgres and the receiver were given: the log of the one, what arrived at the other.
An event before it, which is not printed, has the daemon prepare its statements and open its connections.
"""

import argparse
import asyncio
import base64
import json
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import asyncpg

from webhook_dispatcher import storage
from webhook_dispatcher.app import run
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.domain.signing import KEY_BYTES, SECRET_RANDOM_BYTES, Secret
from webhook_dispatcher.local.arrivals import Arrival
from webhook_dispatcher.local.certificate import server_context
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.local.producer import INSERT
from webhook_dispatcher.local.receiver import Receiver
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.statements import load
from webhook_dispatcher.telemetry import logs

LOGS_EACH_STATEMENT = {
    "logging_collector": "on",
    "log_destination": "jsonlog",
    "log_directory": "log",
    "log_filename": "statements.log",
    "log_min_duration_statement": "0",
    "log_parameter_max_length": "300",
}
MERCHANT = "bakery"
NOW = "SELECT date_trunc('milliseconds', clock_timestamp())"
"""As exact as the server's log."""
WAIT = "SELECT pg_sleep(0.01)"
IS_RECORDED = "SELECT EXISTS (SELECT FROM webhook.deliveries WHERE event_id = $1 AND state = 'delivered')"
_VALUE = re.compile(r"(?:Parameters: |, )?\$\d+ = ")
_STATEMENT = re.compile(r"duration: ([0-9.]+) ms  (?:execute [^:]+|statement): (.*)", re.DOTALL)


class Step(NamedTuple):
    """Something that happened. at: when it ended."""

    at: datetime
    text: str


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m lab.one_event", description=__doc__)
    parser.add_argument(
        "--text", action="store_true", help="print the statements' texts, not their names alone"
    )
    with_text = parser.parse_args().text
    logs.configure(None, "error", sys.stderr)
    with tempfile.TemporaryDirectory(prefix="webhook-one-event-") as folder:
        data = Path(folder) / "data"
        with EmbeddedPostgres(data, durable=False, options=LOGS_EACH_STATEMENT) as postgres:
            began, ended, steps = asyncio.run(_deliver(postgres, Path(folder)))
        steps = [*_statements(data / "postgres" / "log" / "statements.json", with_text), *steps]
        for step in sorted((step for step in steps if began <= step.at <= ended), key=attrgetter("at")):
            print(f"{step.at:%H:%M:%S.%f}"[:-3], step.text, sep="  ", end="\n\n")


async def _deliver(postgres: EmbeddedPostgres, folder: Path) -> tuple[datetime, datetime, list[Step]]:
    """Let a daemon deliver two events; return between when the second was on its way, and the requests."""
    await schema.migrate(postgres.dsn())
    ca_file = folder / "ca.pem"
    tls = server_context(ca_file)
    settings = load_settings(
        {
            "WEBHOOK_DATABASE_URL": postgres.dsn("webhook_dispatcher"),
            "WEBHOOK_SECRET_KEYS": "k1:" + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode(),
            "WEBHOOK_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
            "WEBHOOK_EGRESS_CA_FILE": str(ca_file),
            "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
        }
    )
    clock, steps = SystemClock(), list[Step]()

    def note(arrival: Arrival) -> None:
        if arrival.ended_at is not None:
            steps.append(Step(datetime.fromtimestamp(clock.unix(), UTC), _request(arrival)))

    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(Receiver(tls=tls, on_arrival=note))
        admin = await stack.enter_async_context(administration(postgres.dsn("webhook_admin")))
        producer = await asyncpg.connect(postgres.dsn("webhook_producer"))
        stack.push_async_callback(producer.close)
        secret, keyring = Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES)), settings.keyring()
        receiver.accept(MERCHANT, secret)
        await admin.insert_endpoint(MERCHANT, receiver.url(MERCHANT), keyring.seal(MERCHANT, secret), keyring)
        await stack.enter_async_context(run.running(settings))
        for charge in ("ch_before", "ch_1"):
            # What was done for the one before ended in an earlier millisecond.
            await admin.connection.execute(WAIT)
            began = await producer.fetchval(NOW)
            charged = json.dumps({"id": charge})
            written = await producer.fetchval(INSERT, MERCHANT, "charge.succeeded", charged)
            while not await admin.connection.fetchval(IS_RECORDED, written):
                await admin.connection.execute(WAIT)
        return began, await producer.fetchval(NOW), steps


def _request(arrival: Arrival) -> str:
    headers = "\n".join(f"    {name}: {value}" for name, value in arrival.headers.items())
    return f"POST, answered {arrival.status}\n{headers}\n    {arrival.body.decode()}"


def _statements(log_file: Path, with_text: bool) -> Iterator[Step]:
    """Read the server's log: what it was asked, by whom, with which values, and how long it took."""
    for line in log_file.read_text().splitlines():
        entry = json.loads(line)
        at = datetime.strptime(entry["timestamp"], "%Y-%m-%d %H:%M:%S.%f %Z").replace(tzinfo=UTC)
        match = _STATEMENT.fullmatch(entry["message"])
        if match is None:
            continue
        text = _plain(match[2])
        if text not in _names():  # what only begins and ends transactions, and our own looks
            continue
        name, parameters = _names()[text]
        lines = [f"{entry['user']}: {name} ({float(match[1]):.1f} ms)"]
        lines += [match[2]] if with_text else []
        values = _VALUE.split(entry.get("detail", ""))[1:]
        lines += [f"    {parameter} = {value}" for parameter, value in zip(parameters, values, strict=True)]
        yield Step(at, "\n".join(lines))


@cache
def _names() -> Mapping[str, tuple[str, Sequence[str]]]:
    """Return where each statement stands, and the names of its parameters, by its text."""
    folder = resources.files(storage) / "sql"
    subjects = [Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".sql")]
    ours = {
        _plain(statement.text): (
            f"{subject}.sql {name}",
            [parameter for parameter, _ in statement.parameters],
        )
        for subject in subjects
        for name, statement in load(subject).items()
    }
    return ours | {_plain(INSERT): ("the charge service's INSERT", ("merchant_id", "type", "object"))}


def _plain(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
