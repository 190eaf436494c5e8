"""Endpoints of merchants that have several, or get a second: added and removed while events flow."""

from collections.abc import Sequence

from lab.chaos.evidence import Repeats
from lab.chaos.hit import Hit
from lab.chaos.kinds import Track, fault
from lab.chaos.merchants import FURTHER
from lab.chaos.testbed import Testbed

CHANGED = 3
"""Merchants whose endpoints change at once."""
ALONE = 15.0
"""Seconds for which events may wait once number 1 is alone: what it owes in order goes first."""


@fault("endpoints added and removed", Track.OPERATORS, Repeats.NONE)
async def add_endpoints(testbed: Testbed, hit: Hit) -> None:
    """Give merchants one more for a while: to some it is their second."""
    with testbed.borrow(CHANGED) as merchants:
        hit.touches(merchants)
        hit.lingers = ALONE
        added: list[str] = []
        try:
            await _add(testbed, merchants, added)
            await testbed.wait(testbed.random.uniform(0.2, 3))
        finally:
            await testbed.remove_endpoints(added)
        hit.note = ", ".join(added)


@fault("all endpoints but the first removed and added again", Track.OPERATORS, Repeats.NONE)
async def leave_one(testbed: Testbed, hit: Hit) -> None:
    """Leave merchants with number 1 alone for a while, for so long at times that they are direct again."""
    routed = [name for name, merchant in testbed.cast.items() if merchant.further]
    with testbed.borrow(CHANGED, routed) as merchants:
        hit.touches(merchants)
        hit.lingers = ALONE
        removed, added = testbed.book.further(merchants), list[str]()
        try:
            await testbed.remove_endpoints(removed)
            await testbed.wait(testbed.random.choice((0.0, 0.5, 3.0)))
        finally:
            await _add(testbed, merchants, added)
        hit.note = f"{', '.join(removed)}, then {', '.join(added)}"


async def _add(testbed: Testbed, merchants: Sequence[str], added: list[str]) -> None:
    for merchant_id in merchants:
        added.append(await testbed.add_endpoint(merchant_id, testbed.random.choice(FURTHER)))
