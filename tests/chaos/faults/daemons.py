"""What is done to the daemons themselves: killed, stopped, frozen, stalled, without clock or files."""

import resource
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from tests.chaos.evidence import Repeats
from tests.chaos.fleet import Victim
from tests.chaos.hit import Hit
from tests.chaos.kinds import NotHitError, Track, fault
from tests.chaos.repetitions import ASKED_TO_STOP
from tests.chaos.stage import Stage
from tests.chaos.victim import Point

PATIENCE = 4.0
"""Seconds for a daemon to pass a point."""
CROSSING = 0.5
"""Seconds for an order that is called off to be carried out all the same."""


def _pick(stage: Stage) -> Victim:
    living = stage.fleet.living()
    if not living:
        raise NotHitError("nobody is alive")
    return stage.random.choice(living)


@asynccontextmanager
async def _mortal(stage: Stage, *victims: Victim) -> AsyncIterator[None]:
    """Let daemons die meanwhile; those that did are started anew a moment later, until they work."""
    for victim in victims:
        victim.may_die = True
    try:
        yield
        await stage.wait(stage.random.uniform(0, 0.5))
    finally:
        for victim in victims:
            victim.may_die = False
            if not victim.alive:
                victim.end()
                await victim.start()


def _kill_at(point: Point) -> Callable[[Stage, Hit], Awaitable[None]]:
    async def kill(stage: Stage, hit: Hit) -> None:
        victim = _pick(stage)
        async with _mortal(stage, victim):
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


async def _kill(stage: Stage, hit: Hit, victims: Sequence[Victim]) -> None:
    async with _mortal(stage, *victims):
        for victim in victims:
            victim.send(signal.SIGKILL)
        for victim in victims:
            await victim.died(PATIENCE)
        hit.strikes_at_once(*victims)
        hit.note = ", ".join(victim.name for victim in victims)


@fault("kill -9 at any moment", Track.DAEMONS, Repeats.EXPOSED)
async def kill_any(stage: Stage, hit: Hit) -> None:
    await _kill(stage, hit, [_pick(stage)])


@fault("kill -9 of all daemons", Track.DAEMONS, Repeats.EXPOSED)
async def kill_all(stage: Stage, hit: Hit) -> None:
    hit.stops_all = True
    await _kill(stage, hit, stage.fleet.living())


@fault(ASKED_TO_STOP, Track.DAEMONS, Repeats.EXPOSED)
async def terminate(stage: Stage, hit: Hit) -> None:
    """Ask one to stop. It costs nothing unless the database is away when the grace ends."""
    await _stop(stage, hit, "SIGTERM", is_impatient=False)


@fault("SIGTERM twice", Track.DAEMONS, Repeats.EXPOSED)
async def terminate_twice(stage: Stage, hit: Hit) -> None:
    await _stop(stage, hit, "SIGTERM and SIGINT", is_impatient=True)


async def _stop(stage: Stage, hit: Hit, by: str, *, is_impatient: bool) -> None:
    victim = _pick(stage)
    async with _mortal(stage, victim):
        hit.strikes(victim)
        victim.send(signal.SIGTERM)
        if is_impatient:
            await stage.wait(stage.random.uniform(0.01, 0.2))
            victim.send(signal.SIGINT)
        is_in_time = await victim.died(stage.grace + PATIENCE)
        hit.note = f"{victim.name}, exit {victim.exit_code}"
        if not is_in_time or victim.exit_code != 0:
            stage.complain(f"after {by}: {hit.note}", victim)


def _freeze_at(point: Point) -> Callable[[Stage, Hit], Awaitable[None]]:
    async def freeze(stage: Stage, hit: Hit) -> None:
        victim = _pick(stage)
        victim.order(f"freeze {point}")
        try:
            if not await victim.froze(PATIENCE):
                victim.order("disarm")
                if not await victim.froze(CROSSING):
                    raise NotHitError(f"it did not pass {point}")
            hit.begins()
            await _stay_frozen(stage, hit, victim)
        finally:
            victim.send(signal.SIGCONT)

    return freeze


async def _stay_frozen(stage: Stage, hit: Hit, victim: Victim) -> None:
    hit.strikes(victim)
    seconds = stage.lease * stage.random.choice((0.4, 1.2, 1.6))
    await stage.wait(seconds)
    victim.send(signal.SIGCONT)
    hit.note = f"{victim.name} for {seconds:.1f} s"
    # What it still does with old knowledge belongs to this fault.
    await stage.wait(stage.attempt_timeout)


for _point, _where in (
    (Point.CLAIMED, "before the request"),
    (Point.SENT, "request sent, no answer"),
    (Point.ANSWERED, "between answer and outcome"),
    (Point.RECORDED, "after the commit of an outcome"),
):
    fault(f"frozen {_where}", Track.DAEMONS, Repeats.EXPOSED)(_freeze_at(_point))


@fault("frozen at any moment", Track.DAEMONS, Repeats.EXPOSED)
async def freeze_any(stage: Stage, hit: Hit) -> None:
    victim = _pick(stage)
    victim.send(signal.SIGSTOP)
    try:
        await victim.froze(PATIENCE)
        await _stay_frozen(stage, hit, victim)
    finally:
        victim.send(signal.SIGCONT)


@fault("event loop stalled", Track.DAEMONS, Repeats.EXPOSED)
async def stall(stage: Stage, hit: Hit) -> None:
    victim = _pick(stage)
    seconds = stage.lease * stage.random.choice((0.2, 0.6, 1.2))
    hit.strikes(victim)
    victim.order(f"stall {seconds:.2f}")
    hit.note = f"{victim.name} for {seconds:.1f} s"
    await stage.wait(seconds + stage.attempt_timeout)


@fault("wall clock set wrong", Track.DAEMONS, Repeats.EXPOSED)
async def shift_clock(stage: Stage, hit: Hit) -> None:
    """Put one daemon's wall clock off by a minute to a day, for a while."""
    victim = _pick(stage)
    seconds = stage.random.choice((-86_400, -3_600, -60, 60, 3_600, 86_400))
    hit.strikes(victim)
    victim.order(f"clock {seconds}")
    try:
        await stage.wait(stage.random.uniform(0.5, 2.5))
    finally:
        victim.order("clock 0")
    hit.note = f"{victim.name} by {seconds:+} s"
    await stage.wait(stage.attempt_timeout)


@fault("file descriptors gone", Track.DAEMONS, Repeats.EXPOSED)
async def take_files(stage: Stage, hit: Hit) -> None:
    victim = _pick(stage)
    hit.strikes(victim)
    limits = resource.prlimit(victim.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, (8, limits[1]))
    hit.note = victim.name
    try:
        await stage.wait(stage.random.uniform(0.5, 2.5))
    finally:
        if victim.alive:
            resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, limits)
    await stage.wait(stage.attempt_timeout)
