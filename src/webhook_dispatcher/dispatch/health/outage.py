"""Outage recovery: when lanes and retries may be claimed again after the database was away."""

from collections.abc import Awaitable, Callable

from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StorageError, StorageUnavailable

HEAD_START = 1.0
"""Seconds for which nothing is claimed when the database is back."""
SHORT_OUTAGE = 0.5
"""Seconds; a failure that lasts no longer than this needs no head start: leases last longer."""


class Outage:
    """Whether the database is away, and a head start for the recorders of all daemons once it is back.

    Leases may have lapsed during an outage. If another daemon claimed such a lane before its holder has
    written the last outcome, that event would be sent again. So nothing is claimed for HEAD_START seconds.

    is_on: `may_claim` must be asked before claiming. Set by a failure and by the end of an outage; cleared by
        `may_claim`.
    trouble: why nothing can be claimed, for operators; empty when it can.
    """

    def __init__(self, clock: Clock) -> None:
        self.is_on = False
        self.trouble = ""
        self._clock = clock
        self._since: float | None = None
        self._head_start_until = 0.0

    def failed(self, started: float, error: StorageError) -> None:
        """Learn that a statement failed. started: clock reading in seconds when it did."""
        self.is_on = True
        if not isinstance(error, StorageUnavailable):
            self.trouble = f"the database refuses claims: {error}"
            return
        self.trouble = f"the database does not answer: {error}"
        if self._since is None:
            self._since = started

    def came_back(self) -> None:
        """Begin the head start: the database is back."""
        self.is_on = True
        self._head_start_until = self._clock.elapsed() + HEAD_START

    async def may_claim(self, check_writable: Callable[[], Awaitable[None]]) -> bool:
        """Tell whether to claim. After a failure this calls `check_writable`, and raises what that raises."""
        if self._since is not None:
            await check_writable()
            since, self._since = self._since, None  # another loop may have found out meanwhile
            if since is not None and self._clock.elapsed() - since > SHORT_OUTAGE:
                self.came_back()
        self.trouble = ""
        self.is_on = self._clock.elapsed() < self._head_start_until
        return not self.is_on
