"""Scenario: drains of backlogs of other shapes, and to slower receivers."""

from collections.abc import Callable
from functools import partial

from benchmarks.bodies import SMALLEST
from benchmarks.contest import Figure, Run, Section, by_turns
from benchmarks.drains import ours
from benchmarks.sets import Bench

BACKLOGS = ((100, 1_000), (5_000, SMALLEST), (5_000, 2_000), (5_000, 20_000), (1_000, 200_000))
"""Merchants, and bytes of an object."""
ONCE = 200_000
"""Merchants that are owed one event each."""
SLOW_MERCHANTS = 1_000
DELAYS = (50, 500)
"""Milliseconds that slow receivers take."""


def shapes(bench: Bench) -> Section:
    """Drain each once."""
    rig = bench.rig
    contestants: dict[str, Callable[[], Run]] = {}
    events = bench.events(20_000)
    for merchants, size in BACKLOGS:
        number = events if size < 20_000 else events * 10_000 // size
        template = rig.template(rig.receiver.url(), merchants)
        contestants[f"{merchants:,} merchants, {size:,} bytes"] = partial(
            ours, rig, template, number, merchants, size
        )
    once = bench.events(ONCE)
    template = rig.make_template("once", rig.receiver.url(), once)
    contestants[f"{once:,} merchants, one event each"] = partial(ours, rig, template, once, once)
    for delay in DELAYS:
        contestants[_slow(delay)] = partial(_drain_to_slow_receiver, bench, delay)
    runs = by_turns(1, contestants, bench.tell)
    rig.execute(f"DROP DATABASE {template}")
    each = _each(bench)
    # Each merchant's first request has waited for nobody.
    limits = {delay: 1000 * SLOW_MERCHANTS * each // (delay * (each - 1)) for delay in DELAYS}
    return Section(
        "Drain: other shapes",
        f"One run each. The limit of slow receivers: each merchant has one request in flight, of {each}.",
        runs,
        [
            Figure(f"receiver at {delay} ms ÷ its limit of {limit:,}/s", runs.median(_slow(delay)) / limit)
            for delay, limit in limits.items()
        ],
    )


def _slow(delay: int) -> str:
    return f"{SLOW_MERCHANTS:,} merchants, receiver at {delay} ms"


def _each(bench: Bench) -> int:
    return max(2, bench.events(20))


def _drain_to_slow_receiver(bench: Bench, delay: int) -> Run:
    rig = bench.rig
    with rig.another_receiver("--delay-ms", str(delay)) as slow:
        template = rig.template(slow.url(), SLOW_MERCHANTS)
        return ours(rig, template, _each(bench) * SLOW_MERCHANTS, SLOW_MERCHANTS)
