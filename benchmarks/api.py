"""Scenarios: reads of the Partner API beside a bare server with one query, and a drain beside the idle API.

Both servers, and the API once more without limits, stay up and have the same database; one of them at a time
is asked, for a few seconds, by turns. Limits are really taken, of so many keys that some is left. With
another checkout, its API is the only rival.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bare_api import MERCHANT
from benchmarks.contest import Figure, Run, Runs, Section, by_turns, spread
from benchmarks.drains import OURS, shown
from benchmarks.ours import deliver, fill
from benchmarks.processes import Child, cpu_seconds
from benchmarks.rig import Rig, names
from benchmarks.sets import Bench, beside_the_past, in_the_past
from webhook_dispatcher.domain.credentials import SECRET_BYTES, AccessToken

KEYS = 32
"""Merchants with a key each, and connections that ask: one for each key."""
LIMITS, UNLIMITED = "key=1500/PT1S", "key=0/PT1S"
SECONDS = 4.0
EVENTS, MERCHANTS = 20_000, 5_000
EVENTS_LISTED = 100
"""Deliveries of each key's merchant: a page has twenty."""

BARE, LIMITED, FREE = "bare server", "API", "API, limits off"
QUIET, BUSY = "at a third", "at saturation"
ALONE, BESIDE = "drain alone", "drain beside the idle API"

KEY = """
WITH made AS (
    SELECT webhook.create_api_key($1::text, 'client-' || $1::text, sha256('nobody'), 'a benchmark', '') AS id
)
INSERT INTO webhook.api_token (hash, api_key_id, expires_at)
SELECT $2::bytea, made.id, clock_timestamp() + interval '1 hour' FROM made
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A server that is asked. pid: whose processor time is counted."""

    pid: int
    port: int


def webhook(bench: Bench) -> Section:
    """Ask for one row."""
    return _read(bench, "/v1/webhook", least=0.5)


def deliveries(bench: Bench) -> Section:
    """Ask for a page of twenty."""
    return _read(bench, "/v1/deliveries", least=0.6)


def _read(bench: Bench, path: str, least: float) -> Section:
    """Ask all of them as fast as they answer, then all at a third of what the API answers."""
    with _servers(bench, path) as (servers, requests):
        busy = by_turns(bench.rounds, _contestants(bench, servers, requests, None), bench.tell)
        rate = busy.median(_named(LIMITED, BUSY)) / 3
        quiet = by_turns(bench.rounds, _contestants(bench, servers, requests, rate), bench.tell)
    runs = Runs()
    runs.of = {**busy.of, **quiet.of}
    return Section(
        f"The Partner API: GET {path} with token and limit",
        f"{KEYS} connections, a key each. “At a third”: {rate:,.0f} requests a second (Poisson), a third of "
        "what the API answers. `worker` is the server, `receiver` the process that asks.",
        runs,
        _figures(runs, least) if bench.before is None else _beside_the_past(runs, path),
    )


def idle_api(bench: Bench) -> Section:
    """Drain with and without an API that nobody asks, on the same database."""
    rig, events = bench.rig, bench.events(EVENTS)
    template = rig.template(rig.receiver.url(), MERCHANTS)

    def drained(has_api: bool) -> Run:
        with rig.database(template) as database:
            fill(rig, database, events, MERCHANTS, 1_000)
            if not has_api:
                return shown(deliver(rig, database, events))
            with rig.api(database):
                return shown(deliver(rig, database, events))

    runs = by_turns(bench.rounds, {ALONE: lambda: drained(False), BESIDE: lambda: drained(True)}, bench.tell)
    return Section(
        "A drain beside the idle API",
        f"{events:,} events; the API has started and nobody asks it.",
        runs,
        (
            spread(runs, "drain beside the idle API ÷ alone", BESIDE, "rate", ALONE, least=0.97),
            spread(runs, f"CPU of {OURS} beside it ÷ alone", BESIDE, "worker", ALONE),
        ),
    )


@contextmanager
def _servers(bench: Bench, path: str) -> Iterator[tuple[dict[str, Asked], Path]]:
    """Start them on a database with the keys; and write down what is sent."""
    rig = bench.rig
    with rig.database(rig.template(rig.receiver.url(), KEYS)) as database, ExitStack() as stack:

        def start(limits: str) -> Asked:
            program = stack.enter_context(rig.api(database, API_LIMITS=limits))
            return Asked(program.process.pid, program.port)

        fill(rig, database, KEYS * EVENTS_LISTED, KEYS, 1_000)
        deliver(rig, database, KEYS * EVENTS_LISTED)
        requests = rig.folder / "requests.json"
        requests.write_text(json.dumps([_request(rig, database, path, merchant) for merchant in names(KEYS)]))
        rig.execute("VACUUM ANALYZE", database=database)
        servers = {LIMITED: start(LIMITS)}
        if bench.before is not None:
            with rig.another_checkout(bench.before):
                servers[in_the_past(LIMITED)] = start(LIMITS)
        else:
            dsn = rig.postgres.dsn(database=database)
            bare = Child("benchmarks.bare_api", "--dsn", dsn, log=rig.folder / "bare.log")
            stack.callback(bare.end)
            servers |= {BARE: Asked(bare.pid, bare.read()["port"]), FREE: start(UNLIMITED)}
        yield servers, requests


def _request(rig: Rig, database: str, path: str, merchant: str) -> str:
    """Make a key and a live token for a merchant, and say what is sent with it, to all servers alike."""
    token = AccessToken.from_random(secrets.token_bytes(SECRET_BYTES), None)
    rig.execute(KEY, merchant, token.hash, database=database)
    return (
        f"GET {path} HTTP/1.1\r\nHost: api.example.com\r\nAccept: application/json\r\n"
        f"Accept-Language: ru-RU, ru;q=0.9, en;q=0.5\r\nUser-Agent: a-partner/1.0\r\n"
        f"{MERCHANT}: {merchant}\r\n"
        f"Authorization: Bearer {token.revealed}\r\n\r\n"
    )


def _contestants(
    bench: Bench, servers: dict[str, Asked], requests: Path, rate: float | None
) -> dict[str, Callable[[], Run]]:
    return {
        _named(name, BUSY if rate is None else QUIET): lambda server=server: _ask(  # type: ignore[misc]
            bench, server, requests, rate
        )
        for name, server in servers.items()
    }


def _ask(bench: Bench, server: Asked, requests: Path, rate: float | None) -> Run:
    """Ask one server for a while."""
    rig = bench.rig
    command = ["--port", str(server.port), "--requests", str(requests), "--connections", str(KEYS)]
    command += ["--seconds", str(max(1.0, SECONDS * bench.scale)), *(["--rate", str(rate)] if rate else [])]
    child = Child("benchmarks.asking", *command, log=rig.folder / "asking.log")
    try:
        child.read()
        before, asking = rig.usage(server.pid), cpu_seconds(child.pid)
        child.go()
        found = child.read()
        used = (rig.usage(server.pid) - before).each(found["requests"])
        asked = 1e6 * (cpu_seconds(child.pid) - asking) / found["requests"]
    finally:
        child.end()
    shows = {name: found[name] for name in ("p50 ms", "p99 ms")}
    return Run(found["requests"] / found["seconds"], used.worker, used.postgres, asked, shows)


def _named(server: str, load: str) -> str:
    return f"{load}: {server}"


def _beside_the_past(runs: Runs, path: str) -> list[Figure]:
    return beside_the_past(
        runs,
        f"GET {path} ",
        {
            _named(LIMITED, BUSY): ("rate", "worker", "postgres"),
            _named(LIMITED, QUIET): ("p50 ms", "p99 ms", "worker", "postgres"),
        },
    )


def _figures(runs: Runs, least: float) -> tuple[Figure, ...]:
    limited, free, bare = (_named(name, BUSY) for name in (LIMITED, FREE, BARE))
    calm, bare_calm = _named(LIMITED, QUIET), _named(BARE, QUIET)
    return (
        spread(runs, "API requests ÷ bare server's", limited, "rate", bare, least=least),
        spread(runs, "API p99 ÷ bare server's, at a third", calm, "p99 ms", bare_calm, most=3),
        spread(runs, "API CPU of a request ÷ bare server's", limited, "worker", bare),
        spread(runs, "Postgres CPU of a request ÷ bare server's", limited, "postgres", bare),
        spread(runs, "requests with limits ÷ without", limited, "rate", free),
        spread(runs, "API CPU with limits ÷ without", limited, "worker", free),
        spread(runs, "Postgres CPU with limits ÷ without", limited, "postgres", free),
    )
