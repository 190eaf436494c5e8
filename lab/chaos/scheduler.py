"""Who is hit when: for each track the kinds in shuffled rounds, one fault after the other."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence

from lab.chaos.evidence import Injection
from lab.chaos.hit import Hit
from lab.chaos.kinds import Kind, NotHitError, Track
from lab.chaos.testbed import Testbed
from lab.chaos.writers import AWAY

LONGEST_FAULT = 90.0
"""Seconds after which a fault that has not healed is an error of this program."""
RESTS = dict.fromkeys(Track, (0.1, 0.6)) | {Track.MERCHANTS: (5.0, 20.0)}
"""Seconds between two faults of a track. Some of the merchants' need the run for themselves."""


class Scheduler:
    """Injects faults until told to stop; the order of kinds is the seed's, the moments are the machine's.

    first_have_begun: set once each kind that comes before others was tried.
    """

    def __init__(
        self, testbed: Testbed, kinds: Sequence[Kind], tell: Callable[[str], None], first: Sequence[Kind] = ()
    ) -> None:
        self.injections: list[Injection] = []
        self.missed: Counter[str] = Counter()
        self._testbed = testbed
        self._kinds = kinds
        self._tell = tell
        self._first = frozenset(kind.name for kind in first)
        self._number = 0
        self.first_have_begun = asyncio.Event()
        self._to_come = set(self._first)
        self._note_begun("")

    async def run(self) -> None:
        """Run all tracks beside each other until the run is stopped; every fault is healed then."""
        async with asyncio.TaskGroup() as tracks:
            for track in Track:
                kinds = [kind for kind in self._kinds if kind.track is track]
                if kinds:
                    tracks.create_task(self._run_track(kinds, RESTS[track]))

    async def _run_track(self, kinds: list[Kind], rest: tuple[float, float]) -> None:
        random = self._testbed.random
        left = sorted(random.sample(kinds, len(kinds)), key=lambda kind: kind.name in self._first)
        while not self._testbed.stopped.is_set():
            if not left:
                left = random.sample(kinds, len(kinds))
            async with self._testbed.quiet.turn():
                if not self._testbed.stopped.is_set():
                    await self._inject(left.pop())
            await self._testbed.wait(random.uniform(*rest))

    def _note_begun(self, name: str) -> None:
        self._to_come.discard(name)
        if not self._to_come:
            self.first_have_begun.set()

    async def _inject(self, kind: Kind) -> None:
        self._note_begun(kind.name)
        self._number += 1
        hit = Hit(self._number, kind)
        began = time.monotonic()
        try:
            async with asyncio.timeout(LONGEST_FAULT):
                await kind.inject(self._testbed, hit)
        except NotHitError as error:
            self.missed[kind.name] += 1
            self._tell(f"{kind.name}: not this time: {error}")
            return
        except AWAY as error:
            if hit.is_blank:
                self.missed[kind.name] += 1
                self._tell(f"{kind.name}: not this time: {type(error).__name__}")
                return
            hit.note += f" (cut short by another fault: {type(error).__name__})"
        except Exception as error:  # noqa: BLE001
            # A fault that fails half-way has hit all the same; what it did is for the judge.
            self._testbed.complain(f"the fault {kind.name!r} failed: {error!r}")
            self._tell(f"{kind.name}: FAILED: {error!r}")
        injection = hit.done()
        self.injections.append(injection)
        self._tell(f"{kind.name}, {time.monotonic() - began:.1f} s: {injection.note}")
