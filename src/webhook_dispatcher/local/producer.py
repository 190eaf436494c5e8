"""A stand-in for the charge service: several writers, each change of a charge in a transaction of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from uuid import UUID

import asyncpg

from webhook_dispatcher.local.charges import Charge

INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, $2, $3) RETURNING id, seq"
CHARGES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Written:
    """An event as committed."""

    id: UUID
    seq: int
    merchant_id: str
    type: str
    object: str


class Producer:
    """Writes events of several merchants; each writer has merchants of its own.

    merchants: how many shares of the events each gets.
    dsn: as the role `webhook_producer`.
    rate: events a second, all writers together; None writes as fast as it can.
    on_written: told after each commit.
    """

    def __init__(
        self,
        dsn: str,
        merchants: Mapping[str, int],
        *,
        on_written: Callable[[Written], None],
        writers: int = 3,
        rate: float | None = None,
        seed: int = 1,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._dsn = dsn
        self._merchants = dict(merchants)
        self._on_written = on_written
        self._writers = writers
        self._rate = rate
        self._seed = seed
        self._sleep = sleep

    async def run(self, total: int | None = None) -> None:
        """Write `total` events, or until cancelled."""
        names = list(self._merchants)
        groups = [group for start in range(self._writers) if (group := names[start :: self._writers])]
        quotas: Sequence[int | None] = [None] * len(groups)
        if total is not None:
            quotas = _divided(total, [sum(self._merchants[name] for name in group) for group in groups])
        async with asyncio.TaskGroup() as writers:
            for number, (group, quota) in enumerate(zip(groups, quotas, strict=True)):
                writers.create_task(self._write(group, quota, Random(self._seed * 1000 + number)))

    async def _write(self, merchants: Sequence[str], quota: int | None, random: Random) -> None:
        """Be one writer: pick a merchant, let one of its charges take a step, commit."""
        shares = [self._merchants[name] for name in merchants]
        mean = None
        if self._rate is not None:
            mean = sum(self._merchants.values()) / sum(shares) / self._rate
        open_charges: dict[str, list[Charge]] = {name: [] for name in merchants}
        unheard = list(merchants)
        connection = await asyncpg.connect(self._dsn, server_settings={"application_name": "producer"})
        try:
            while quota is None or quota > 0:
                # Each has its first event before chance decides.
                merchant_id = unheard.pop(0) if unheard else random.choices(merchants, shares)[0]
                await self._change(connection, merchant_id, open_charges[merchant_id], random)
                quota = None if quota is None else quota - 1
                if mean is not None:
                    await self._sleep(random.expovariate(1 / mean))
        finally:
            await connection.close(timeout=5)

    async def _change(
        self, connection: asyncpg.Connection, merchant_id: str, charges: list[Charge], random: Random
    ) -> None:
        if len(charges) < random.randrange(1, CHARGES_AT_ONCE + 1):
            charges.append(Charge(random, merchant_id, datetime.now(UTC)))
        charge = random.choice(charges)
        event_type, text = charge.step()
        if charge.is_over:
            charges.remove(charge)
        async with connection.transaction():
            # Here a charge service changes the charge itself, in the same transaction.
            row = await connection.fetchrow(INSERT, merchant_id, event_type, text)
        assert row is not None
        self._on_written(Written(row["id"], row["seq"], merchant_id, event_type, text))


async def write_one(dsn: str, merchant_id: str, random: Random) -> Written:
    """Write the first event of a new charge."""
    written: list[Written] = []
    producer = Producer(
        dsn, {merchant_id: 1}, on_written=written.append, writers=1, seed=random.randrange(2**31)
    )
    await producer.run(1)
    return written[0]


def _divided(total: int, shares: Sequence[int]) -> list[int]:
    """Divide a whole number in proportion, to the last one."""
    parts = [total * share // sum(shares) for share in shares]
    parts[0] += total - sum(parts)
    return parts
