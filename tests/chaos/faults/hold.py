"""What faults share: keeping one up, with notes about every daemon that lives through it."""

from tests.chaos.fleet import Victim
from tests.chaos.hit import Hit
from tests.chaos.kinds import NotHitError
from tests.chaos.stage import Stage

LOOK_EVERY = 0.1


async def hold_over_all(stage: Stage, hit: Hit, seconds: float) -> None:
    """Wait, and note all daemons as hit, those that are started meanwhile too."""
    while seconds > 0 and not stage.stopped.is_set():
        hit.strikes(*stage.fleet.living())
        await stage.wait(min(LOOK_EVERY, seconds))
        seconds -= LOOK_EVERY
    hit.strikes(*stage.fleet.living())


def one_living(stage: Stage) -> Victim:
    """Choose a daemon that runs."""
    living = stage.fleet.living()
    if not living:
        raise NotHitError("nobody is alive")
    return stage.random.choice(living)


def one_or_all_living(stage: Stage) -> list[Victim]:
    """Choose a daemon that runs, or all of them."""
    return stage.fleet.living() if stage.random.random() < 0.5 else [one_living(stage)]


def named(victims: list[Victim]) -> str:
    """Name daemons for a note."""
    return ", ".join(victim.name for victim in victims)
