"""What is done to the daemons' name server, and to the file that names it."""

from lab.chaos.evidence import Repeats
from lab.chaos.faults.hold import hold_over_all
from lab.chaos.hit import Hit
from lab.chaos.kinds import Track, fault
from lab.chaos.testbed import Testbed

READ_WITHIN = 1.0
"""Seconds: a daemon reads it a moment after a look-up has begun (transport/resolver.py)."""


@fault("name server down", Track.OPERATORS, Repeats.NONE)
async def lose_names(testbed: Testbed, hit: Hit) -> None:
    """Answer no look-up, or each with a failure. Kept connections go on; claiming may be paused for all."""
    is_silent = testbed.random.random() < 0.5
    hit.note = "silent" if is_silent else "SERVFAIL"
    hit.stops_all = True
    try:
        if is_silent:
            testbed.names.be_silent()
        else:
            testbed.names.fail()
        await hold_over_all(testbed, hit, testbed.random.uniform(1, 3))
    finally:
        testbed.names.heal()


@fault("resolv.conf replaced", Track.OPERATORS, Repeats.NONE, needs="resolv.conf")
async def replace_configuration(testbed: Testbed, hit: Hit) -> None:
    """Let the name server fall silent, and another be named a moment later; no look-up succeeds meanwhile."""
    assert testbed.resolv_conf is not None
    is_another_file = testbed.random.random() < 0.5
    hit.note = "by another file" if is_another_file else "written anew"
    hit.stops_all = True
    await testbed.names.leave()
    await hold_over_all(testbed, hit, testbed.random.uniform(0, 1))
    change = testbed.resolv_conf.replace if is_another_file else testbed.resolv_conf.rewrite
    change(testbed.names.address)
    await hold_over_all(testbed, hit, READ_WITHIN)
