"""What many merchants do at once: those of a group fail all of a sudden, and in the same way.

During some of these faults nothing else is done, nor was for a while before: then the run's own measure shows
whether others were held up (lab/chaos/isolation.py).
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from lab.chaos.evidence import Repeats
from lab.chaos.faults.asking import PATIENCE
from lab.chaos.hit import Hit
from lab.chaos.injections import ALLOWANCE
from lab.chaos.kinds import NotHitError, Track, fault
from lab.chaos.receiver import SharedHost
from lab.chaos.run import SWEEP
from lab.chaos.testbed import Testbed
from lab.chaos.writers import AWAY

MIN_COLLUDERS = 20
COLLUDING_SHARE = 0.4
"""The part of all merchants that colludes."""
BURST = 2
"""Events that each of a group gets at once: failures of first attempts are what says something."""
MANY = 10
"""The same, where a group is small."""
MEASURED = 6.0
"""Seconds for which a group accepts what it gets, and then for which it fails."""
HANGING = 10
"""Merchants of whom endpoints hang at once, and others go on."""
MOVERS = 5
"""Merchants whose names move at once."""
FOLLOWED = 12.0
"""Seconds for which they get events then: twice as long as a connection is kept."""
LEFT_BEHIND: Mapping[str, Mapping[str, float | bool]] = {
    "as before": {},
    "with 503": {"status": 503},
    "nothing": {"hangs": True},
}
FORSAKEN = 4
"""Merchants that fail for so long that they are suspended."""
FIRST_EVENTS, MORE_EVENTS = 25, 3
"""Events that each of them gets at once, more than it takes to be suspended, and then every few seconds."""
MORE_EVERY = 2.0
SUSPENDED_WITHIN = 45.0
"""Seconds in which that must happen, other faults of the time included."""
TRIED = 3.5
"""Intervals for which they fail all the same."""
SUSPENDED = """
SELECT DISTINCT webhook.merchant_of(merchant_id) AS merchant_id FROM webhook.lane
WHERE suspended_at IS NOT NULL AND webhook.merchant_of(merchant_id) = ANY($1)
"""
ANSWERS: Mapping[str, Mapping[str, float | bool]] = {
    "answer 503": {"status": 503},
    "answer 401": {"status": 401},
    "hang": {"hangs": True},
}
WAYS = {
    "refuses": SharedHost.REFUSES,
    "has an untrusted certificate": SharedHost.UNTRUSTED,
    "has an expired certificate": SharedHost.EXPIRED,
}

Change = Callable[[], None]


async def maybe_alone(testbed: Testbed, hit: Hit, stack: AsyncExitStack) -> None:
    """Now and then let nothing else be done until a stack is left; wait until others' effects are over."""
    if testbed.random.random() < testbed.scale.alone:
        await stack.enter_async_context(testbed.quiet.alone())
        await testbed.wait(testbed.lease + SWEEP + ALLOWANCE)
        hit.stands_alone()


async def _fail(
    testbed: Testbed,
    hit: Hit,
    merchants: Sequence[str],
    begin: Change,
    end: Change,
    each: int = BURST,
    seconds: float = MEASURED,
    touched: Sequence[str] | None = None,
) -> None:
    """Let a group get and accept events, so many each at once, then get and refuse them.

    touched: some of its endpoints, if the others are to go on.
    """
    async with AsyncExitStack() as stack:
        await maybe_alone(testbed, hit, stack)
        hit.note = f"{len(merchants)} merchants{'' if hit.alone_since is None else ', and nothing else'}"
        await _keep_busy(testbed, hit, merchants, each)
        hit.begins()
        hit.touches(merchants if touched is None else touched)
        testbed.heartbeat.worst()
        begin()
        try:
            await _keep_busy(testbed, hit, merchants, each, seconds)
        finally:
            end()
            hit.slowness = testbed.heartbeat.worst()


async def _keep_busy(
    testbed: Testbed, hit: Hit, merchants: Sequence[str], each: int, seconds: float = MEASURED
) -> None:
    while seconds > 0 and not testbed.stopped.is_set():
        await _write(testbed, hit, merchants, each)
        await testbed.wait(MEASURED / 2)
        seconds -= MEASURED / 2


async def _write(testbed: Testbed, hit: Hit, merchants: Sequence[str], each: int) -> None:
    try:
        await testbed.writers.write_burst(merchants, each)
    except AWAY as error:
        hit.note += f"; events were not written ({type(error).__name__})"


def _colluding(behaviour: Mapping[str, float | bool]) -> Callable[[Testbed, Hit], Awaitable[None]]:
    async def collude(testbed: Testbed, hit: Hit) -> None:
        count = max(MIN_COLLUDERS, round(len(testbed.merchants) * COLLUDING_SHARE))
        merchants = testbed.random.sample(testbed.merchants, count)
        await _fail(
            testbed,
            hit,
            merchants,
            lambda: testbed.behave(merchants, behaviour),
            lambda: testbed.behave_as_ever(merchants),
        )

    return collude


def _hosted_behaving(behaviour: Mapping[str, float | bool]) -> Callable[[Testbed, Hit], Awaitable[None]]:
    async def die(testbed: Testbed, hit: Hit) -> None:
        merchants = testbed.hosted
        await _fail(
            testbed,
            hit,
            merchants,
            lambda: testbed.behave(merchants, behaviour),
            lambda: testbed.behave_as_ever(merchants),
        )

    return die


def _host_turning(
    how: SharedHost,
    whose: Callable[[Testbed], Sequence[str]] = lambda testbed: testbed.hosted,
    each: int = BURST,
) -> Callable[[Testbed, Hit], Awaitable[None]]:
    async def turn(testbed: Testbed, hit: Hit) -> None:
        await _fail(
            testbed,
            hit,
            whose(testbed),
            lambda: testbed.turn_shared_host(how),
            lambda: testbed.turn_shared_host(SharedHost.SOUND),
            each,
        )

    return turn


for _what, _behaviour in ANSWERS.items():
    fault(f"colluders {_what}", Track.MERCHANTS, Repeats.UNCOUNTED)(_colluding(_behaviour))
    fault(f"all of a shared host {_what}", Track.MERCHANTS, Repeats.UNCOUNTED)(_hosted_behaving(_behaviour))
for _what, _how in WAYS.items():
    fault(f"a shared host {_what}", Track.MERCHANTS, Repeats.UNCOUNTED)(_host_turning(_how))
# A few choose what costs us most, on a new connection for each request.
fault("handshakes and answers as dear as they may be", Track.MERCHANTS, Repeats.UNHEARD)(
    _host_turning(SharedHost.DEAR, lambda testbed: testbed.dear, MANY)
)


@fault("a shared host's certificate exchanged", Track.MERCHANTS, Repeats.NONE)
async def exchange_certificate(testbed: Testbed, hit: Hit) -> None:
    """Have another one of the same authority, for good: that excuses nobody."""
    testbed.turn_shared_host(SharedHost.SOUND)
    hit.note = "connections that there are keep theirs"


@fault("the names of a shared host are gone", Track.MERCHANTS, Repeats.UNCOUNTED)
async def lose_names(testbed: Testbed, hit: Hit) -> None:
    """Answer look-ups of its names with a failure; kept connections go on."""
    await _fail(
        testbed,
        hit,
        testbed.hosted,
        lambda: testbed.names.lose(testbed.hosted),
        lambda: testbed.names.lose(()),
    )


@fault("names move to other addresses", Track.MERCHANTS, Repeats.UNCOUNTED)
async def move_names(testbed: Testbed, hit: Hit) -> None:
    """Give names new addresses, for good; at the old ones somebody goes on answering, or nobody does."""
    answer = testbed.random.choice(list(LEFT_BEHIND))

    def begin() -> None:
        hit.moved = testbed.move(merchants, LEFT_BEHIND[answer])

    with testbed.borrow(min(MOVERS, len(testbed.movable)), list(testbed.movable)) as merchants:
        await _fail(testbed, hit, merchants, begin, lambda: None, MANY, FOLLOWED)
    hit.note += f"; the old addresses answer {answer}"


@fault("name servers of some are silent or truncate", Track.MERCHANTS, Repeats.UNCOUNTED)
async def withhold_names(testbed: Testbed, hit: Hit) -> None:
    """Answer no look-up of some names, and of others too largely, without TCP; each request takes one."""

    def begin() -> None:
        testbed.names.withhold(testbed.hosted[::2], testbed.hosted[1::2])
        testbed.turn_shared_host(SharedHost.CLOSES)

    try:
        await _fail(testbed, hit, testbed.hosted, begin, lambda: testbed.turn_shared_host(SharedHost.SOUND))
    finally:
        await testbed.names.find()


@fault("one of several endpoints hangs", Track.MERCHANTS, Repeats.UNCOUNTED)
async def hang_one(testbed: Testbed, hit: Hit) -> None:
    """Let an endpoint of each of some merchants hang; their others go on."""
    sound = [name for name, merchant in testbed.cast.items() if merchant.is_sound and merchant.further]
    with testbed.borrow(min(HANGING, len(sound)), sound) as merchants:
        names = testbed.book.further(merchants)
        await _fail(
            testbed,
            hit,
            merchants,
            lambda: testbed.behave(names, {"hangs": True}),
            lambda: testbed.behave_as_ever(names),
            MANY,
            touched=names,
        )


@fault("merchants fail until they are suspended", Track.MERCHANTS, Repeats.NONE, needs="suspension")
async def forsake(testbed: Testbed, hit: Hit) -> None:
    """Let a few fail for longer than is borne with, be tried while they are suspended, and then accept again.

    It touches nobody: when they were suspended the judge knows, and nothing else excuses what they wait for.
    """
    sound = [name for name, merchant in testbed.cast.items() if merchant.is_sound]
    with testbed.borrow(FORSAKEN, sound) as merchants:
        testbed.behave(merchants, {"status": 503})
        try:
            suspended = await _until_suspended(testbed, hit, merchants)
            hit.note = f"{', '.join(suspended)} suspended{hit.note}"
            await testbed.wait(TRIED * testbed.scale.suspension_interval)
        finally:
            testbed.behave_as_ever(merchants)


async def _until_suspended(testbed: Testbed, hit: Hit, merchants: Sequence[str]) -> list[str]:
    """Keep them busy until all are suspended, or time is up; return who is."""
    ends = time.monotonic() + SUSPENDED_WITHIN
    await _write(testbed, hit, merchants, FIRST_EVENTS)
    while not testbed.stopped.is_set():
        rows = await testbed.server.fetch(SUSPENDED, merchants, patience=PATIENCE)
        if len(rows) == len(merchants) or (rows and time.monotonic() > ends):
            return sorted(row["merchant_id"] for row in rows)
        if time.monotonic() > ends:
            raise NotHitError(f"none of {', '.join(merchants)} was suspended in time")
        await _write(testbed, hit, merchants, MORE_EVENTS)
        await testbed.wait(MORE_EVERY)
    raise NotHitError("the run is over")
