"""The four phases through which each server goes, and the row of the table that they make."""

import asyncio
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from benchmarks.bodies import body
from benchmarks.contest import percentile
from benchmarks.rig import names
from benchmarks.servers.server import Publish, Server
from webhook_dispatcher.local.arrivals import Arrival
from webhook_dispatcher.local.receiver import Receiver

SIZE = 1_000
IN_ORDER = 20
"""Merchants of the phase in which the worker is killed."""
PATIENCE = 120.0
HEAD = [
    "| | end to end /s | drain /s | lag p50, p99 ms | CPU µs an event | missing | repeated | out of order |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
]
_NUMBER = re.compile(rb'"number\\*": ?(\d+)')


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured. rate, seconds: of the lag; kills: of the worker, to see what becomes of order."""

    events: int = 10_000
    merchants: int = 500
    publishers: int = 32
    rate: int = 100
    seconds: float = 20.0
    kills: int = 4


@dataclass(slots=True)
class Traffic:
    """What was sent and what arrived since the last reset, by the events' numbers."""

    sent_at: dict[int, float] = field(default_factory=dict)
    arrived: list[tuple[int, str, float]] = field(default_factory=list)
    arrived_at: dict[int, float] = field(default_factory=dict)

    def reset(self) -> None:
        """Forget it all."""
        self.sent_at, self.arrived, self.arrived_at = {}, [], {}

    def take(self, arrival: Arrival) -> None:
        """Note a request; it is told of twice, when it begins and when it ends."""
        found = _NUMBER.search(arrival.body)
        if arrival.ended_at is None and found is not None:
            number = int(found[1])
            self.arrived.append((number, arrival.merchant_id, arrival.started_at))
            self.arrived_at.setdefault(number, arrival.started_at)

    async def publish(self, publish: Publish, merchant: str, number: int) -> None:
        """Publish one event."""
        text = body(SIZE, number)
        self.sent_at[number] = time.monotonic()
        await publish(merchant, f'{{"number": {number}, {text[1:]}')

    async def settle(self) -> None:
        """Wait until all has arrived, or nothing more does."""
        count, since = -1, time.monotonic()
        while len(self.arrived_at) < len(self.sent_at) and time.monotonic() < since + PATIENCE:
            if len(self.arrived_at) != count:
                count, since = len(self.arrived_at), time.monotonic()
            await asyncio.sleep(0.05)

    def out_of_order(self) -> int:
        """Count first arrivals that came after a later one of the same merchant."""
        latest: defaultdict[str, int] = defaultdict(lambda: -1)
        wrong = 0
        for number, merchant, at in self.arrived:
            if self.arrived_at[number] == at:
                wrong += number < latest[merchant]
                latest[merchant] = max(latest[merchant], number)
        return wrong


async def measure(server: Server, plan: Plan) -> str:
    """Take a server through all phases, and return its row."""
    traffic = Traffic()
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(Receiver(keep=False, on_arrival=traffic.take))
        merchants = names(plan.merchants)
        await server.register({merchant: receiver.url(merchant) for merchant in merchants})
        publishers = [await server.connect(stack) for _ in range(max(plan.publishers, IN_ORDER))]
        course = Course(server, traffic, publishers, merchants, plan)
        await course.end_to_end(plan.merchants)
        end_to_end, cpu = await course.end_to_end(plan.events)
        drained, cpu_drained = await course.drain()
        lags = await course.lags()
        missing, repeated, wrong = await course.killed()
    cells = (
        f"{server.name} {server.version}",
        f"{end_to_end:,.0f}",
        f"{drained:,.0f}",
        f"{statistics.median(lags):.1f}, {percentile(lags, 0.99):.1f}",
        f"{cpu:,.0f}, {cpu_drained:,.0f}",
        *(str(count) for count in (missing, repeated, wrong)),
    )
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True)
class Course:
    """The phases, on one server."""

    server: Server
    traffic: Traffic
    publishers: Sequence[Publish]
    merchants: Sequence[str]
    plan: Plan

    async def end_to_end(self, events: int) -> tuple[float, float]:
        """Publish while the worker delivers; return events a second and µs an event."""
        cpu = await self._quiet()
        self.traffic.reset()
        await self._publish(events)
        await self.traffic.settle()
        first, last = min(self.traffic.sent_at.values()), max(self.traffic.arrived_at.values())
        return len(self.traffic.arrived_at) / (last - first), 1e6 * (await self._quiet() - cpu) / events

    async def drain(self) -> tuple[float, float]:
        """Publish while there is no worker, and start it."""
        await asyncio.to_thread(self.server.end_worker, by_kill=False)
        self.traffic.reset()
        await self._publish(self.plan.events)
        cpu = await self._quiet()
        await asyncio.to_thread(self.server.start_worker)
        await self.traffic.settle()
        moments = self.traffic.arrived_at.values()
        rate = (len(moments) - 1) / (max(moments) - min(moments))
        return rate, 1e6 * (await self._quiet() - cpu) / self.plan.events

    async def lags(self) -> list[float]:
        """Publish at a steady rate; return milliseconds from publish to arrival."""
        self.traffic.reset()
        start, turns = time.monotonic(), iter(range(int(self.plan.rate * self.plan.seconds)))

        async def work(publish: Publish) -> None:
            for turn in turns:
                await asyncio.sleep(start + turn / self.plan.rate - time.monotonic())
                await self.traffic.publish(publish, self.merchants[turn % len(self.merchants)], turn)

        await asyncio.gather(*map(work, self.publishers[: self.plan.publishers]))
        await self.traffic.settle()
        sent = self.traffic.sent_at
        return [1000 * (at - sent[number]) for number, at in self.traffic.arrived_at.items()]

    async def killed(self) -> tuple[int, int, int]:
        """Publish in turn while the worker is killed; count what is missing, repeated, out of order."""
        self.traffic.reset()
        over = asyncio.Event()
        numbers = iter(range(10**9))

        async def work(publish: Publish, merchant: str) -> None:
            while not over.is_set():
                await self.traffic.publish(publish, merchant, next(numbers))
                await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as group:
            for publish, merchant in zip(self.publishers, self.merchants[:IN_ORDER], strict=False):
                group.create_task(work(publish, merchant))
            for _ in range(self.plan.kills):
                await asyncio.sleep(3)
                await asyncio.to_thread(self.server.end_worker, by_kill=True)
                await asyncio.sleep(2)
                await asyncio.to_thread(self.server.start_worker)
            over.set()
        await self.traffic.settle()
        arrived = len(self.traffic.arrived_at)
        missing, repeated = len(self.traffic.sent_at) - arrived, len(self.traffic.arrived) - arrived
        return missing, repeated, self.traffic.out_of_order()

    async def _publish(self, events: int) -> None:
        numbers = iter(range(events))

        async def work(publish: Publish, numbers: Iterator[int]) -> None:
            for number in numbers:
                await self.traffic.publish(publish, self.merchants[number % len(self.merchants)], number)

        await asyncio.gather(*(work(publish, numbers) for publish in self.publishers[: self.plan.publishers]))

    async def _quiet(self) -> float:
        """Wait until the server has nothing left to write, at most ten seconds; return what it has used."""
        used = await asyncio.to_thread(self.server.cpu_seconds)
        for _ in range(10):
            await asyncio.sleep(1)
            before, used = used, await asyncio.to_thread(self.server.cpu_seconds)
            if used - before < 0.15:
                break
        return used
