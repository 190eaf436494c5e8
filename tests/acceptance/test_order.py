"""Order under load: several daemons, concurrent producers, judged by the receiver's log. Source: I1 to I3."""

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from random import Random

import asyncpg
import pytest

from tests.acceptance.installation import INSERT, Installation, Sent
from tests.acceptance.processes import ReceiverProcess
from tests.waiting import Yardstick
from webhook_dispatcher.local.arrivals import (
    Arrival,
    Signature,
    first_arrivals,
    out_of_order,
    overlapping,
    read_log,
)
from webhook_dispatcher.local.producer import Producer, Written

DAEMONS = 3
EVENTS = 1_000
LOCK = "SELECT FROM webhook.lane WHERE merchant_id = $1 FOR NO KEY UPDATE"
LATEST = 2.0
"""Seconds from an event's commit to its first arrival."""
SEEN_TOGETHER = 0.3
"""Seconds after which a committed event must not be overtaken any more.

The numbers of a transaction still open are looked at again 25, 75 and 175 ms after they were passed, so one
held open for at most 40 ms is seen 100 ms after its commit at the latest; the rest is for two busy cores.
"""


class Receiving:
    """A receiver process with the secrets of the installation's merchants."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "arrivals.jsonl"
        self._secrets = folder / "receiver-secrets.json"
        self._process: ReceiverProcess | None = None

    async def configure(self, installation: Installation, merchants: list[str]) -> None:
        """Start it, and point the merchants at it."""
        await installation.configure(*merchants)
        revealed = {name: secret.revealed.decode() for name, secret in installation.receiver.secrets.items()}
        self._secrets.write_text(json.dumps(revealed))
        self._process = ReceiverProcess(self._log, self._secrets)
        change = "UPDATE webhook.endpoint SET url = $1 || merchant_id"
        await installation.admin.execute(change, self._process.root)

    def arrivals(self) -> list[Arrival]:
        """Stop it and return what it logged."""
        assert self._process is not None
        self._process.stop()
        return read_log(self._log)

    def kill(self) -> None:
        """End it whatever happened."""
        if self._process is not None:
            self._process.kill()


@pytest.fixture
def receiving(tmp_path: Path) -> Iterator[Receiving]:
    receiving = Receiving(tmp_path)
    yield receiving
    receiving.kill()


async def test_three_daemons_keep_each_merchants_order_and_send_everything_once(
    installation: Installation, receiving: Receiving
) -> None:
    merchants = {f"m{number:02}": 1 + number % 7 for number in range(50)}
    await receiving.configure(installation, list(merchants))
    for _ in range(DAEMONS):
        await installation.start()
    written: list[Written] = []
    dsn = installation.database.dsn("webhook_producer")
    # Each writer has merchants of its own, so that seq order is commit order.
    await Producer(dsn, merchants, on_written=written.append, writers=8).run(EVENTS)
    await installation.all_delivered(EVENTS)
    arrivals = receiving.arrivals()

    assert Counter(arrival.event_id for arrival in arrivals) == Counter(str(event.id) for event in written)
    assert out_of_order(arrivals, {str(event.id): event.seq for event in written}) == []
    assert overlapping(arrivals) == []
    assert {arrival.signature for arrival in arrivals} == {Signature.RIGHT}
    for daemon in installation.daemons:
        assert daemon.log("delivery.attempted"), "this daemon had no part in it"


async def test_merchants_shared_by_open_transactions_lose_nothing_and_keep_visible_order(
    installation: Installation, receiving: Receiving
) -> None:
    merchants = [f"m{number}" for number in range(12)]
    await receiving.configure(installation, merchants)
    for _ in range(DAEMONS):
        await installation.start()
    dsn = installation.database.dsn("webhook_producer")
    with Yardstick() as machine:
        shares = await asyncio.gather(*(write_slowly(dsn, merchants, Random(seed)) for seed in range(8)))
        sent = {str(event.id): event for share in shares for event in share}
        await installation.all_delivered(len(sent))
    arrivals = receiving.arrivals()

    assert Counter(arrival.event_id for arrival in arrivals) == Counter(sent.keys())
    assert overlapping(arrivals) == []
    lags = [arrival.started_at - sent[arrival.event_id].committed_at for arrival in arrivals]
    assert max(lags) < machine.allows(LATEST)
    assert list(overtaken(arrivals, sent, machine.allows(SEEN_TOGETHER))) == []
    # Otherwise nothing was shown: some events must have been committed against the order of their numbers.
    assert out_of_order(arrivals, {event_id: event.seq for event_id, event in sent.items()}) != []


async def write_slowly(dsn: str, merchants: list[str], random: Random) -> list[Sent]:
    """Commit transactions of one to three events, each held open for about 10 ms."""
    sent: list[Sent] = []
    connection = await asyncpg.connect(dsn)
    try:
        for _ in range(60):
            async with connection.transaction():
                rows = []
                for _ in range(random.randint(1, 3)):
                    merchant_id = random.choice(merchants)
                    row = await connection.fetchrow(INSERT, merchant_id, "charge.created", "{}")
                    assert row is not None
                    rows.append((row["id"], row["seq"], merchant_id))
                    await asyncio.sleep(random.expovariate(1 / 0.005))
            committed_at = time.monotonic()
            sent += [Sent(*row, committed_at) for row in rows]
    finally:
        await connection.close()
    return sent


def overtaken(
    arrivals: Iterable[Arrival], sent: dict[str, Sent], seconds: float
) -> Iterator[tuple[Sent, Sent]]:
    """Yield events that a later one overtook though they had been visible for so long when it started."""
    started: defaultdict[str, list[tuple[Sent, float]]] = defaultdict(list)
    for firsts in first_arrivals(arrivals).values():
        for arrival in firsts:
            started[arrival.merchant_id].append((sent[arrival.event_id], arrival.started_at))
    for firsts_of_merchant in started.values():
        for (former, former_at), (latter, _) in combinations(firsts_of_merchant, 2):
            if latter.seq < former.seq and latter.committed_at + seconds < former_at:
                yield latter, former


async def test_event_that_comes_while_its_lane_is_locked_for_a_moment_does_not_wait_for_the_sweep(
    installation: Installation,
) -> None:
    merchants = [f"m{number}" for number in range(5)]
    await installation.configure(*merchants, "witness")
    # The sweep rests at least half a second after each round, longer than what we allow.
    await installation.start()
    lags = []
    for merchant_id in merchants:
        async with installation.owner.transaction():
            # As a claim of retries does, or an outcome being recorded.
            await installation.owner.execute(LOCK, merchant_id)
            await installation.emit(merchant_id)
            witness = await installation.emit("witness")
            await installation.settled(witness.id, "delivered", 1)
        released_at = time.monotonic()
        [arrival] = await installation.arrived(1, merchant_id)
        lags.append(arrival.started_at - released_at)
    assert sorted(lags)[2] < 0.1, lags
