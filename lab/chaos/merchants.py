"""Who receives in a run: most answer quickly, some slowly; some fail, some hang, a few are flooded.

A quarter of them share a host. Each of the others is at an address in a network of its own. Of a third,
order is kept by charge. A third has two or three endpoints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random


@dataclass(frozen=True, slots=True)
class Further:
    """An endpoint of a merchant's beside number 1: its filter and order, as a Merchant's are."""

    types: Sequence[str] | None
    at_once: int | None


@dataclass(frozen=True, slots=True)
class Merchant:
    """One merchant.

    share: of the events, as a weight. behaviours: as Behaviour.parse reads them, in turn and again; empty
    answers 200 at once. is_named: reached by a name, the others by address. address: its own, or that of a
    host that it shares with others; such a merchant has a name, and is reached by https. types: its
    endpoint's filter; None: it wants all. at_once: where order is kept by charge, how many of its events may
    be under way. further: its endpoints beside number 1.
    """

    share: float
    behaviours: Sequence[Mapping[str, float | bool]]
    is_named: bool
    address: str
    types: Sequence[str] | None = None
    at_once: int | None = None
    further: Sequence[Further] = ()

    @property
    def is_by_charge(self) -> bool:
        """Tell whether one of its endpoints keeps order by charge."""
        return bool(self.at_once) or any(one.at_once for one in self.further)

    @property
    def is_hosted(self) -> bool:
        """Tell whether it shares a host."""
        return self.address == SHARED_ADDRESS

    @property
    def is_hopeless(self) -> bool:
        """Tell whether it accepts nothing, ever."""
        return bool(self.behaviours) and all(map(_fails, self.behaviours))

    @property
    def is_sound(self) -> bool:
        """Tell whether it accepts everything."""
        return not any(map(_fails, self.behaviours))


def other_address(address: str) -> str:
    """Return where a merchant's name may move, and back: each that has an address to itself has two."""
    first, second, *rest = address.split(".")
    return ".".join((first, {"1": "2", "2": "1"}[second], *rest))


def _fails(behaviour: Mapping[str, float | bool]) -> bool:
    return not behaviour.keys().isdisjoint(("status", "hangs", "disconnects"))


SHARED_ADDRESS = "127.200.0.1"
PLATFORM_ADDRESS = "127.201.0.1"


WANTED = ("charge.created", "charge.succeeded")
FILTERED = 3
"""Of so many merchants one wants these types alone."""
FURTHER = [
    Further(None, None),
    Further(WANTED[:1], 3),
    Further(("charge.succeeded", "charge.split_completed"), None),
    Further(None, 4),
    Further(WANTED, None),
]
"""What endpoints beside number 1 are like."""
FLOODED = 50
"""Of so many merchants one is flooded."""
FLOOD_DELAY = 0.15
FLOOD_USE = 0.5
"""The part of its time that a flooded merchant needs for its requests; under faults it has a backlog."""


def make_merchants(count: int, rate: float, random: Random) -> dict[str, Merchant]:
    """Make so many for a load of `rate` events/s; a tenth takes its time, a few are flooded."""
    merchants = _ordinary(count, random)
    for name in list(merchants)[2::FILTERED]:
        merchants[name] = replace(merchants[name], types=WANTED)
    flooded = list(merchants)[1::FLOODED]
    part = FLOOD_USE / FLOOD_DELAY / rate
    rest = sum(merchant.share for name, merchant in merchants.items() if name not in flooded)
    share = rest * part / max(0.1, 1 - part * len(flooded))
    flood = [{"delay": FLOOD_DELAY}]
    for number, name in list(enumerate(merchants))[1::3]:
        merchants[name] = replace(merchants[name], at_once=2 + number % 7)
    for number, name in enumerate(merchants):
        if number % 9 < 3:  # a third, with each sort of number 1
            merchants[name] = replace(merchants[name], further=FURTHER[number % 4 :][: 1 + number % 2])
    return merchants | {name: replace(merchants[name], share=share, behaviours=flood) for name in flooded}


def _ordinary(count: int, random: Random) -> dict[str, Merchant]:
    merchants = {}
    for number in range(count):
        name = f"m{number:03}"
        delay = random.uniform(0.001, 0.05)
        is_named, address = number % 4 == 0, f"127.1.{number}.1"
        match number % 20:
            case 0 | 1:
                slow = random.uniform(0.05, 0.2)
                merchants[name] = Merchant(6.0, [{"delay": slow}], is_named, address)
            case 2:
                merchants[name] = Merchant(3.0, [], is_named, address)
            case 3 | 4:
                fails = [{"status": 500, "delay": delay}, {"delay": delay}, {"delay": delay}]
                merchants[name] = Merchant(1.0, fails, is_named, address)
            case 5:
                merchants[name] = Merchant(0.5, [{"disconnects": True}, {}, {}], is_named, address)
            case 6:
                merchants[name] = Merchant(0.3, [{"status": 503, "delay": delay}], is_named, address)
            case 7:
                merchants[name] = Merchant(0.3, [{"hangs": True}, {}, {}, {}], is_named, address)
            case 8 if number < 20:
                merchants[name] = Merchant(0.05, [{"hangs": True}], is_named, address)
            case 9 | 11 | 13 | 15 | 17:
                merchants[name] = Merchant(1.0, [{"delay": delay}], True, SHARED_ADDRESS)
            case _:
                merchants[name] = Merchant(1.0, [{"delay": delay}], is_named, address)
    return merchants
