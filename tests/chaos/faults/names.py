"""What is done to the daemons' name server."""

from tests.chaos.evidence import Repeats
from tests.chaos.faults.hold import hold_over_all
from tests.chaos.hit import Hit
from tests.chaos.kinds import Track, fault
from tests.chaos.stage import Stage


@fault("name server down", Track.OPERATORS, Repeats.NONE)
async def lose_names(stage: Stage, hit: Hit) -> None:
    """Answer no look-up, or each with a failure. Kept connections go on; claiming may be paused for all."""
    is_silent = stage.random.random() < 0.5
    hit.note = "silent" if is_silent else "SERVFAIL"
    hit.stops_all = True
    try:
        if is_silent:
            stage.names.be_silent()
        else:
            stage.names.fail()
        await hold_over_all(stage, hit, stage.random.uniform(1, 3))
    finally:
        stage.names.heal()
