"""What faults share: keeping one up, with notes about every daemon that lives through it."""

from lab.chaos.fleet import Victim
from lab.chaos.hit import Hit
from lab.chaos.kinds import NotHitError
from lab.chaos.testbed import Testbed

LOOK_EVERY = 0.1


async def hold_over_all(testbed: Testbed, hit: Hit, seconds: float) -> None:
    """Wait, and note all daemons as hit, those that are started meanwhile too."""
    while seconds > 0 and not testbed.stopped.is_set():
        hit.strikes(*testbed.fleet.living())
        await testbed.wait(min(LOOK_EVERY, seconds))
        seconds -= LOOK_EVERY
    hit.strikes(*testbed.fleet.living())


def one_living(testbed: Testbed) -> Victim:
    """Choose a daemon that runs."""
    living = testbed.fleet.living()
    if not living:
        raise NotHitError("nobody is alive")
    return testbed.random.choice(living)


def one_or_all_living(testbed: Testbed) -> list[Victim]:
    """Choose a daemon that runs, or all of them."""
    return testbed.fleet.living() if testbed.random.random() < 0.5 else [one_living(testbed)]


def named(victims: list[Victim]) -> str:
    """Name daemons for a note."""
    return ", ".join(victim.name for victim in victims)
