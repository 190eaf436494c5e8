"""What is done to the daemons' name server."""

from lab.chaos.evidence import Repeats
from lab.chaos.faults.hold import hold_over_all
from lab.chaos.hit import Hit
from lab.chaos.kinds import Track, fault
from lab.chaos.testbed import Testbed


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
