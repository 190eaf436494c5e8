"""Goes round all lanes that are owed something, to find what the tail cannot see.

The tail misses very late commits, lanes that another daemon left, and everything older than this process.
The sweep limits its load on the database (pace.Interval), but goes on at once while the dispatcher has slots
left and finds news.
"""

import structlog

from webhook_dispatcher.dispatch.dispatcher import Dispatcher
from webhook_dispatcher.dispatch.health.own_faults import OwnFaults
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Backoff, Interval, Stop
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.domain.claim import HandedOn
from webhook_dispatcher.domain.clock import DatabaseClock
from webhook_dispatcher.domain.errors import StorageError
from webhook_dispatcher.domain.ports import Claims, LongestWaits, Upkeep

SWEEP_PAGE = 1_000
"""Lanes read in one statement."""
SWEEP_INTERVAL = Interval(0.5, limits_load=True)
MEND_INTERVAL = Interval(15.0, limits_load=True)
STRAYS_INTERVAL = Interval(5.0, limits_load=True)
MAX_STRAYS = 400
MAX_STRAY_BYTES = 2 * 1024 * 1024
"""Retries moved in one statement, and the bytes of them beyond which no further one is taken."""
STRAYS_REST_FACTOR = 4
"""A step that took a second is followed by this many of rest: others need the lanes that it locks."""
CORRECTION_INTERVAL = Interval(5.0)
CORRECTION_ROUNDS = 2
"""Rounds made after the clock was set: the second finds what somebody held in the first."""

_log = structlog.get_logger()


class Sweep:
    """Tells the dispatcher which lanes are owed something, a page of them in each step.

    _after: the last lane of the page before, where that was full; "" at the beginning of a round.
    """

    def __init__(self, claims: Claims, dispatcher: Dispatcher) -> None:
        self._claims = claims
        self._dispatcher = dispatcher
        self._after = ""

    async def step(self) -> bool:
        """Read a page. True (read on at once): it was full, brought news, and the dispatcher wants more."""
        lanes = await self._claims.sweep(self._after, SWEEP_PAGE)
        if not self._after:
            self._dispatcher.begin_sweep()
        news = sum(map(self._dispatcher.notice_swept, lanes))
        is_full = len(lanes) == SWEEP_PAGE
        self._after = lanes[-1].lane if is_full else ""
        return is_full and news > 0 and self._dispatcher.wants_more


class Mending:
    """Corrects lanes whose `retry_at` is later than their first due row, a page of them in each step.

    Only an operator's edit of the tables does that; the rows would not be found in time. And a merchant that
    is routed though one endpoint alone is left gets its own lane back: whoever routes does that, but nobody
    may have anything to route. _after: as in Sweep.
    """

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._after = ""

    async def step(self) -> None:
        """Correct those on the next page, and all routed in vain; older programs may be served then."""
        lanes = await self._claims.mend_retries(self._after, SWEEP_PAGE)
        self._after = lanes[-1][0] if len(lanes) == SWEEP_PAGE else ""
        for merchant_id in await self._claims.find_alone():
            await self._claims.become_direct(merchant_id)
        await self._claims.serve_unrouted()


class Strays:
    """Moves retries that number 1 has left behind to where it is, some of them in each step.

    It leaves them where a second endpoint is added, or the last but one removed: there may be a million. One
    that is due is handed on by whoever claims it, too, but few of a lane at a time.

    _moved: since nothing could be moved.
    """

    def __init__(self, claims: Claims, instruments: Instruments, stop: Stop) -> None:
        self._claims = claims
        self._unreadable = Unreadable(claims, instruments)
        self._blocked = instruments.blocked
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._stop = stop
        self._backoff = Backoff()
        self._rows = MAX_STRAYS
        self._moved = 0

    async def step(self) -> bool:
        """Move some, and rest; longer where they are locked. False: there are none."""
        started = self._clock.elapsed()
        try:
            strays = await self._claims.find_strays(self._rows, MAX_STRAY_BYTES, self._blocked.seqs())
            fates = await self._unreadable.hand_on(strays, self._database_clock.now())
        except StorageError:
            self._rows = max(1, self._rows // 2)  # one that takes too long would do so again and again
            raise
        self._rows = min(MAX_STRAYS, 2 * self._rows)
        if moved := list(fates.values()).count(HandedOn.MOVED):
            self._moved += moved
            self._backoff.reset()
            await self._stop.wait_at_most(STRAYS_REST_FACTOR * (self._clock.elapsed() - started))
            return True
        if self._moved:
            _log.info("retries.handed_on", count=self._moved)
            self._moved = 0
        if strays:
            await self._stop.wait_at_most(self._backoff.next())
        return bool(strays)


class ClockCorrection:
    """After the database's clock was set, corrects instants that lie further ahead than they can.

    They were written while it was ahead, or before it was set back: leases, claims, rests and retries would
    wait until it has come so far. Only once this machine's clock agrees with it: else it may be wrong just
    now. Who starts later does not know that it was set.

    _corrected_for: when it was set, as far as all is corrected. _rounds: made since. _after: as in Sweep.
    """

    def __init__(
        self, upkeep: Upkeep, database_clock: DatabaseClock, own_faults: OwnFaults, waits: LongestWaits
    ) -> None:
        self._upkeep = upkeep
        self._database_clock = database_clock
        self._own_faults = own_faults
        self._waits = waits
        self._corrected_for = self._begun_for = database_clock.stepped_at
        self._rounds = 0
        self._after = ""

    async def step(self) -> bool:
        """Correct a page, if there is anything to correct. True: the round goes on."""
        stepped_at = self._database_clock.stepped_at
        if stepped_at == self._corrected_for or not self._own_faults.compare_clocks():
            return False
        if stepped_at != self._begun_for:
            self._begun_for, self._rounds, self._after = stepped_at, 0, ""
        if not self._after:
            await self._upkeep.correct_others(self._waits)
        page = await self._upkeep.correct_lanes(self._after, SWEEP_PAGE, self._waits)
        if page.lanes or page.retries:
            _log.warning("clock.corrected", lanes=page.lanes, retries=page.retries)
        self._after = page.last_lane or ""
        if not self._after:
            self._rounds += 1
        if self._rounds == CORRECTION_ROUNDS:
            self._corrected_for = stepped_at
        return bool(self._after)
