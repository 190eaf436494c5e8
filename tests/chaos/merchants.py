"""Who receives in a run: most answer quickly, some slowly; some fail, some hang, a few are flooded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Merchant:
    """One merchant.

    share: of the events, as a weight. behaviours: as Behaviour.parse reads them, in turn and again; empty
    answers 200 at once. is_named: reached by a name, the others by address.
    """

    share: float
    behaviours: Sequence[Mapping[str, float | bool]]
    is_named: bool


FLOODED = 50
"""Of so many merchants one is flooded."""
FLOOD_DELAY = 0.15
FLOOD_USE = 0.5
"""The part of its time that a flooded merchant needs for its requests; under faults it has a backlog."""


def make_merchants(count: int, rate: float, random: Random) -> dict[str, Merchant]:
    """Make so many for a load of `rate` events/s; a tenth takes its time, a few are flooded."""
    merchants = _ordinary(count, random)
    flooded = list(merchants)[1::FLOODED]
    part = FLOOD_USE / FLOOD_DELAY / rate
    rest = sum(merchant.share for name, merchant in merchants.items() if name not in flooded)
    share = rest * part / max(0.1, 1 - part * len(flooded))
    flood = Merchant(share, [{"delay": FLOOD_DELAY}], is_named=False)
    return merchants | dict.fromkeys(flooded, flood)


def _ordinary(count: int, random: Random) -> dict[str, Merchant]:
    merchants = {}
    for number in range(count):
        name = f"m{number:03}"
        delay = random.uniform(0.001, 0.05)
        is_named = number % 4 == 0
        match number % 20:
            case 0 | 1:
                slow = random.uniform(0.05, 0.2)
                merchants[name] = Merchant(6.0, [{"delay": slow}], is_named)
            case 2:
                merchants[name] = Merchant(3.0, [], is_named)
            case 3 | 4:
                fails = [{"status": 500, "delay": delay}, {"delay": delay}, {"delay": delay}]
                merchants[name] = Merchant(1.0, fails, is_named)
            case 5:
                merchants[name] = Merchant(0.5, [{"disconnects": True}, {}, {}], is_named)
            case 6:
                merchants[name] = Merchant(0.3, [{"status": 503, "delay": delay}], is_named)
            case 7:
                merchants[name] = Merchant(0.3, [{"hangs": True}, {}, {}, {}], is_named)
            case 8 if number < 20:
                merchants[name] = Merchant(0.05, [{"hangs": True}], is_named)
            case _:
                merchants[name] = Merchant(1.0, [{"delay": delay}], is_named)
    return merchants
