"""`make bench-guessing`: whether time tells an unknown client from a wrong secret.

Four ways to be wrong are asked for one after the other, in an order drawn anew each round, on one connection
to a real process that counts real limits: a client whose secret is wrong, one whose key was revoked, and two
that nobody knows, which shows what chance does. Of each request the time until the answer is measured, and
what the process and its sessions of the database took of the processor. Judged are the differences within
rounds: their median, and where that lies with 99 % by a bootstrap.
"""

import argparse
import json
import random
import secrets
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rig import Rig
from webhook_dispatcher.domain.credentials import CLIENT_ID_BYTES, SECRET_BYTES, ClientId, ClientSecret

KEYS = 2_000
LEFT_OUT = 100
LIMITS = "client=1500/PT1S address=1500/PT1S"
UNKNOWN, UNKNOWN_TOO, WRONG, REVOKED = "unknown client", "another", "wrong secret", "revoked, wrong secret"
MEASURES = ("time", "processor", "database's processor")
RESAMPLES, CERTAINTY = 2_000, 0.99
ADD = """
SELECT webhook.create_api_key('m', client, sha256(client::bytea), 'a key', '')
FROM unnest($1::text[]) AS client
"""

Sample = tuple[int, int, int]
"""Nanoseconds of each measure."""


def new_client() -> str:
    """Make a client id as the program does."""
    return str(ClientId.from_random(secrets.token_bytes(CLIENT_ID_BYTES), None))


def request(client_id: str) -> bytes:
    """Return what is sent for a client, all of one length."""
    secret = ClientSecret.from_random(secrets.token_bytes(SECRET_BYTES)).revealed
    body = json.dumps({"clientId": client_id, "clientSecret": secret})
    head = "POST /v1/auth/token HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def processor_time(pid: int) -> int:
    """Return what a process's first thread has taken so far, in nanoseconds; 0 where it has ended."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return 0


@dataclass(frozen=True)
class Guesser:
    """One connection, and whose processor time is looked at: the API's, and that of all sessions."""

    connection: socket.socket
    api: int
    postgres: int

    def ask(self, sent: bytes) -> Sample:
        """Ask once; the answer must be that of wrong credentials."""
        sessions = Path(f"/proc/{self.postgres}/task/{self.postgres}/children").read_text().split()
        before = [processor_time(pid) for pid in (self.api, *map(int, sessions))]
        began = time.perf_counter_ns()
        self.connection.sendall(sent)
        answer = self.connection.recv(65_536)
        took = time.perf_counter_ns() - began
        if b'"code":-10001,' not in answer:
            raise SystemExit(f"another answer: {answer!r}")
        after = [processor_time(pid) for pid in (self.api, *map(int, sessions))]
        return took, after[0] - before[0], sum(after[1:]) - sum(before[1:])


def measured(rounds: int, clients: Mapping[str, str], guesser: Guesser) -> Mapping[str, list[Sample]]:
    """Ask for each in each round; the first rounds are not counted."""
    found: dict[str, list[Sample]] = {name: [] for name in clients}
    for number in range(rounds + LEFT_OUT):
        for name in random.sample(list(clients), len(clients)):
            sample = guesser.ask(request(clients[name]))
            if number >= LEFT_OUT:
                found[name].append(sample)
    return found


def interval(differences: Sequence[int]) -> tuple[float, float]:
    """Return between which values the median lies."""
    count = len(differences)
    medians = sorted(statistics.median(random.choices(differences, k=count)) for _ in range(RESAMPLES))
    margin = int((1 - CERTAINTY) / 2 * RESAMPLES)
    return medians[margin], medians[-margin - 1]


def tell(samples: Mapping[str, list[Sample]], say: Callable[[str], None] = print) -> None:
    """Say what each takes, and by how much it differs from an unknown client."""
    for place, measure in enumerate(MEASURES):
        columns = {name: [sample[place] for sample in each] for name, each in samples.items()}
        say(f"{measure}, µs")
        for name, column in columns.items():
            differences = [one - base for one, base in zip(column, columns[UNKNOWN], strict=True)]
            low, high = interval(differences) if name != UNKNOWN else (0.0, 0.0)
            median, more = statistics.median(column) / 1000, statistics.median(differences) / 1000
            say(f"  {name:22} {median:9.1f}   more by {more:+7.2f}  [{low / 1000:+.2f} … {high / 1000:+.2f}]")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guessing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=4_000, help="samples of each (4000)")
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="webhook-guessing-") as folder, Rig(Path(folder)) as rig:
        known = [new_client() for _ in range(KEYS)]
        clients = {UNKNOWN: new_client(), UNKNOWN_TOO: new_client(), WRONG: known[0], REVOKED: known[1]}
        with rig.database(rig.template(rig.receiver.url(), 1)) as database:
            rig.execute(ADD, known, database=database)
            rig.execute("SELECT webhook.revoke_api_key($1, '')", known[1], database=database)
            rig.execute("VACUUM ANALYZE", database=database)
            with (
                rig.api(database, API_LIMITS=LIMITS) as api,
                socket.create_connection(("127.0.0.1", api.port)) as connection,
            ):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                assert rig.postgres.pid is not None
                tell(measured(rounds, clients, Guesser(connection, api.process.pid, rig.postgres.pid)))


if __name__ == "__main__":
    main()
