"""What is done to the daemons' connections to the database."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from lab.chaos.evidence import Repeats
from lab.chaos.faults.hold import named, one_living, one_or_all_living
from lab.chaos.fleet import Victim
from lab.chaos.hit import Hit
from lab.chaos.kinds import NotHitError, Track, fault
from lab.chaos.testbed import Testbed
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
async def cut(testbed: Testbed, hit: Hit) -> None:
    """Reset what one daemon has open, or what all have."""
    victims = one_or_all_living(testbed)
    hit.strikes(*victims)
    for victim in victims:
        victim.link.cut()
    hit.note = named(victims)


@fault("database blackholed", Track.SURROUNDINGS, Repeats.EXPOSED)
async def blackhole(testbed: Testbed, hit: Hit) -> None:
    """Swallow all that one daemon and the database say to each other, for longer than a lease."""
    victim = one_living(testbed)
    hit.note = victim.name
    with _mended([victim]):
        victim.link.blackhole()
        hit.strikes(victim)
        await testbed.wait(testbed.lease * 1.2)


@fault("database refuses one daemon", Track.SURROUNDINGS, Repeats.EXPOSED)
async def refuse(testbed: Testbed, hit: Hit) -> None:
    """Reset what one daemon has open, and whatever it opens for a while."""
    victim = one_living(testbed)
    seconds = testbed.random.uniform(0.5, 3)
    hit.note = f"{victim.name} for {seconds:.1f} s"
    with _mended([victim]):
        victim.link.refuse()
        victim.link.cut()
        hit.strikes(victim)
        await testbed.wait(seconds)


@fault("slow link", Track.SURROUNDINGS, Repeats.EXPOSED)
async def slow(testbed: Testbed, hit: Hit) -> None:
    """Delay each piece of what is said, both ways."""
    victims = one_or_all_living(testbed)
    delay = testbed.random.uniform(0.1, 0.2)
    hit.note = f"{named(victims)} by {delay * 1000:.0f} ms"
    with _mended(victims):
        for victim in victims:
            victim.link.slow(delay)
        hit.strikes(*victims)
        await testbed.wait(2)


@fault("database's certificate and root exchanged", Track.SURROUNDINGS, Repeats.EXPOSED)
async def exchange_certificate(testbed: Testbed, hit: Hit) -> None:
    """Reset what daemons have open by TLS; the server is another authority's then, whose root comes later."""
    victims = [victim for victim in testbed.fleet.living() if victim.link.tls is not None]
    seconds = testbed.random.uniform(0.5, 3)
    hit.note = f"{named(victims)}, the root {seconds:.1f} s later"
    hit.strikes(*victims)
    for victim in victims:
        victim.link.exchange_certificate()
        victim.link.cut()
    try:
        await testbed.wait(seconds)
    finally:
        for victim in victims:
            victim.link.publish_root()


@fault("half-open connections", Track.SURROUNDINGS, Repeats.EXPOSED)
async def half_open(testbed: Testbed, hit: Hit) -> None:
    """Reset what one daemon has open; the server goes on believing in those sessions, with their locks."""
    victim = one_living(testbed)
    hit.note = victim.name
    with _mended([victim]):
        victim.link.half_open()
        victim.link.cut()
        hit.strikes(victim)
        await testbed.wait(testbed.lease * 1.2)


@fault("reply to a record lost", Track.SURROUNDINGS, Repeats.NONE)
async def lose_record(testbed: Testbed, hit: Hit) -> None:
    """Lose the word that outcomes are committed."""
    await _lose(testbed, hit, RECORD, "record")


@fault("reply to a claim lost", Track.SURROUNDINGS, Repeats.NONE)
async def lose_claim(testbed: Testbed, hit: Hit) -> None:
    """Lose the word that lanes are leased, or that due rows are claimed."""
    which = testbed.random.randrange(2)
    await _lose(testbed, hit, CLAIMS[which], ("lanes", "retries")[which])


async def _lose(testbed: Testbed, hit: Hit, statement: str, name: str) -> None:
    victim = one_living(testbed)
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
