"""What is done to the daemons' connections to the database."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.evidence import Repeats
from tests.chaos.faults.hold import named, one_living, one_or_all_living
from tests.chaos.fleet import Victim
from tests.chaos.hit import Hit
from tests.chaos.kinds import NotHitError, Track, fault
from tests.chaos.stage import Stage
from webhook_dispatcher.storage.statements import load

PATIENCE = 4.0
"""Seconds for a daemon to run a statement."""
RECORD = load("recording")["record"].text
CLAIMS = (load("claiming")["lease_lanes"].text, load("retrying")["claim_retries"].text)


@contextmanager
def _mended(victims: list[Victim]) -> Iterator[None]:
    try:
        yield
    finally:
        for victim in victims:
            victim.link.restore()


@fault("database connections cut", Track.SURROUNDINGS, Repeats.NONE)
async def cut(stage: Stage, hit: Hit) -> None:
    """Reset what one daemon has open, or what all have."""
    victims = one_or_all_living(stage)
    hit.strikes(*victims)
    for victim in victims:
        victim.link.cut()
    hit.note = named(victims)


@fault("database blackholed", Track.SURROUNDINGS, Repeats.EXPOSED)
async def blackhole(stage: Stage, hit: Hit) -> None:
    """Swallow all that one daemon and the database say to each other, for longer than a lease."""
    victim = one_living(stage)
    hit.note = victim.name
    with _mended([victim]):
        victim.link.blackhole()
        hit.strikes(victim)
        await stage.wait(stage.lease * 1.2)


@fault("database refuses one daemon", Track.SURROUNDINGS, Repeats.EXPOSED)
async def refuse(stage: Stage, hit: Hit) -> None:
    """Reset what one daemon has open, and whatever it opens for a while."""
    victim = one_living(stage)
    seconds = stage.random.uniform(0.5, 3)
    hit.note = f"{victim.name} for {seconds:.1f} s"
    with _mended([victim]):
        victim.link.refuse()
        victim.link.cut()
        hit.strikes(victim)
        await stage.wait(seconds)


@fault("slow link", Track.SURROUNDINGS, Repeats.EXPOSED)
async def slow(stage: Stage, hit: Hit) -> None:
    """Delay each piece of what is said, both ways."""
    victims = one_or_all_living(stage)
    delay = stage.random.uniform(0.1, 0.2)
    hit.note = f"{named(victims)} by {delay * 1000:.0f} ms"
    with _mended(victims):
        for victim in victims:
            victim.link.slow(delay)
        hit.strikes(*victims)
        await stage.wait(2)


@fault("half-open connections", Track.SURROUNDINGS, Repeats.EXPOSED)
async def half_open(stage: Stage, hit: Hit) -> None:
    """Reset what one daemon has open; the server goes on believing in those sessions, with their locks."""
    victim = one_living(stage)
    hit.note = victim.name
    with _mended([victim]):
        victim.link.half_open()
        victim.link.cut()
        hit.strikes(victim)
        await stage.wait(stage.lease * 1.2)


@fault("reply to a record lost", Track.SURROUNDINGS, Repeats.NONE)
async def lose_record(stage: Stage, hit: Hit) -> None:
    """Lose the word that outcomes are committed."""
    await _lose(stage, hit, RECORD, "record")


@fault("reply to a claim lost", Track.SURROUNDINGS, Repeats.NONE)
async def lose_claim(stage: Stage, hit: Hit) -> None:
    """Lose the word that lanes are leased, or that due rows are claimed."""
    which = stage.random.randrange(2)
    await _lose(stage, hit, CLAIMS[which], ("lanes", "retries")[which])


async def _lose(stage: Stage, hit: Hit, statement: str, name: str) -> None:
    victim = one_living(stage)
    lost = victim.link.lose_next_reply(statement)
    try:
        async with asyncio.timeout(PATIENCE):
            await lost
    except TimeoutError:
        raise NotHitError(f"{victim.name} did not commit one") from None
    finally:
        lost.cancel()
    hit.begins()
    hit.strikes(victim)
    hit.note = f"{victim.name}, {name}"
