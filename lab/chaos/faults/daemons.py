"""What is done to the daemons themselves: killed, stopped, frozen, stalled, without clock or files."""

import resource
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from lab.chaos.evidence import Repeats
from lab.chaos.fleet import Victim
from lab.chaos.hit import Hit
from lab.chaos.kinds import NotHitError, Track, fault
from lab.chaos.repetitions import ASKED_TO_STOP
from lab.chaos.testbed import Testbed
from lab.chaos.victim import Point

PATIENCE = 4.0
"""Seconds for a daemon to pass a point."""
CROSSING = 0.5
"""Seconds for an order that is called off to be carried out all the same."""


def _pick(testbed: Testbed) -> Victim:
    living = testbed.fleet.living()
    if not living:
        raise NotHitError("nobody is alive")
    return testbed.random.choice(living)


@asynccontextmanager
async def _mortal(testbed: Testbed, *victims: Victim) -> AsyncIterator[None]:
    """Let daemons die meanwhile; those that did are started anew a moment later, until they work."""
    for victim in victims:
        victim.may_die = True
    try:
        yield
        await testbed.wait(testbed.random.uniform(0, 0.5))
    finally:
        for victim in victims:
            victim.may_die = False
            if not victim.alive:
                victim.end()
                await victim.start()


def _kill_at(point: Point) -> Callable[[Testbed, Hit], Awaitable[None]]:
    async def kill(testbed: Testbed, hit: Hit) -> None:
        victim = _pick(testbed)
        async with _mortal(testbed, victim):
            victim.order(f"kill {point}")
            if not await victim.died(PATIENCE):
                victim.order("disarm")
                if not await victim.died(CROSSING):
                    raise NotHitError(f"it did not pass {point}")
            hit.begins()
            hit.strikes_at_once(victim)
            hit.note = victim.name

    return kill


for _point, _where in (
    (Point.BEFORE_CLAIM, "before a claim"),
    (Point.CLAIMED, "after a claim, before the request"),
    (Point.CONNECTED, "connected, nothing sent"),
    (Point.SENT, "request sent, no answer"),
    (Point.ANSWERED, "answered, outcome not written"),
    (Point.RECORDED, "after the commit of an outcome"),
):
    fault(f"kill -9 {_where}", Track.DAEMONS, Repeats.EXPOSED)(_kill_at(_point))


async def _kill(testbed: Testbed, hit: Hit, victims: Sequence[Victim]) -> None:
    async with _mortal(testbed, *victims):
        for victim in victims:
            victim.send(signal.SIGKILL)
        for victim in victims:
            await victim.died(PATIENCE)
        hit.strikes_at_once(*victims)
        hit.note = ", ".join(victim.name for victim in victims)


@fault("kill -9 at any moment", Track.DAEMONS, Repeats.EXPOSED)
async def kill_any(testbed: Testbed, hit: Hit) -> None:
    await _kill(testbed, hit, [_pick(testbed)])


@fault("kill -9 of all daemons", Track.DAEMONS, Repeats.EXPOSED)
async def kill_all(testbed: Testbed, hit: Hit) -> None:
    hit.stops_all = True
    await _kill(testbed, hit, testbed.fleet.living())


@fault(ASKED_TO_STOP, Track.DAEMONS, Repeats.EXPOSED)
async def terminate(testbed: Testbed, hit: Hit) -> None:
    """Ask one to stop. It costs nothing unless the database is away when the grace ends."""
    await _stop(testbed, hit, "SIGTERM", is_impatient=False)


@fault("SIGTERM twice", Track.DAEMONS, Repeats.EXPOSED)
async def terminate_twice(testbed: Testbed, hit: Hit) -> None:
    await _stop(testbed, hit, "SIGTERM and SIGINT", is_impatient=True)


async def _stop(testbed: Testbed, hit: Hit, by: str, *, is_impatient: bool) -> None:
    victim = _pick(testbed)
    async with _mortal(testbed, victim):
        hit.strikes(victim)
        victim.send(signal.SIGTERM)
        if is_impatient:
            await testbed.wait(testbed.random.uniform(0.01, 0.2))
            victim.send(signal.SIGINT)
        is_in_time = await victim.died(testbed.grace + PATIENCE)
        hit.note = f"{victim.name}, exit {victim.exit_code}"
        if not is_in_time or victim.exit_code != 0:
            testbed.complain(f"after {by}: {hit.note}", victim)


def _freeze_at(point: Point) -> Callable[[Testbed, Hit], Awaitable[None]]:
    async def freeze(testbed: Testbed, hit: Hit) -> None:
        victim = _pick(testbed)
        victim.order(f"freeze {point}")
        try:
            if not await victim.froze(PATIENCE):
                victim.order("disarm")
                if not await victim.froze(CROSSING):
                    raise NotHitError(f"it did not pass {point}")
            hit.begins()
            await _stay_frozen(testbed, hit, victim)
        finally:
            victim.send(signal.SIGCONT)

    return freeze


async def _stay_frozen(testbed: Testbed, hit: Hit, victim: Victim) -> None:
    hit.strikes(victim)
    seconds = testbed.lease * testbed.random.choice((0.4, 1.2, 1.6))
    await testbed.wait(seconds)
    victim.send(signal.SIGCONT)
    hit.note = f"{victim.name} for {seconds:.1f} s"
    # What it still does with old knowledge belongs to this fault.
    await testbed.wait(testbed.attempt_timeout)


for _point, _where in (
    (Point.CLAIMED, "before the request"),
    (Point.SENT, "request sent, no answer"),
    (Point.ANSWERED, "between answer and outcome"),
    (Point.RECORDED, "after the commit of an outcome"),
):
    fault(f"frozen {_where}", Track.DAEMONS, Repeats.EXPOSED)(_freeze_at(_point))


@fault("frozen at any moment", Track.DAEMONS, Repeats.EXPOSED)
async def freeze_any(testbed: Testbed, hit: Hit) -> None:
    victim = _pick(testbed)
    victim.send(signal.SIGSTOP)
    try:
        await victim.froze(PATIENCE)
        await _stay_frozen(testbed, hit, victim)
    finally:
        victim.send(signal.SIGCONT)


@fault("event loop stalled", Track.DAEMONS, Repeats.EXPOSED)
async def stall(testbed: Testbed, hit: Hit) -> None:
    victim = _pick(testbed)
    seconds = testbed.lease * testbed.random.choice((0.2, 0.6, 1.2))
    hit.strikes(victim)
    victim.order(f"stall {seconds:.2f}")
    hit.note = f"{victim.name} for {seconds:.1f} s"
    await testbed.wait(seconds + testbed.attempt_timeout)


@fault("wall clock set wrong", Track.DAEMONS, Repeats.EXPOSED)
async def shift_clock(testbed: Testbed, hit: Hit) -> None:
    """Put one daemon's wall clock off by a minute to a day, for a while."""
    victim = _pick(testbed)
    seconds = testbed.random.choice((-86_400, -3_600, -60, 60, 3_600, 86_400))
    hit.strikes(victim)
    victim.order(f"clock {seconds}")
    try:
        await testbed.wait(testbed.random.uniform(0.5, 2.5))
    finally:
        victim.order("clock 0")
    hit.note = f"{victim.name} by {seconds:+} s"
    await testbed.wait(testbed.attempt_timeout)


@fault("file descriptors gone", Track.DAEMONS, Repeats.EXPOSED)
async def take_files(testbed: Testbed, hit: Hit) -> None:
    victim = _pick(testbed)
    hit.strikes(victim)
    limits = resource.prlimit(victim.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, (8, limits[1]))
    hit.note = victim.name
    try:
        await testbed.wait(testbed.random.uniform(0.5, 2.5))
    finally:
        if victim.alive:
            resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, limits)
    await testbed.wait(testbed.attempt_timeout)
