"""The database's absence, and who may claim when it is back."""

from collections.abc import Awaitable, Callable

from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StorageError, StorageUnavailable

HEAD_START = 1.0
"""Seconds for which nothing is claimed when the database is back."""
SHORT_OUTAGE = 0.5
"""Seconds; what failed for no longer than this outlasts no lease that matters."""


class Outage:
    """The database's absence, and a head start for the recorders of all daemons when it is back.

    Leases may have lapsed meanwhile. Who claims such a lane before its holder has written the last outcome
    sends that event again; so nobody claims until everybody has had the time to write.

    is_on: claims ask `may_claim` first. Set by a failure and by the end of an outage, and cleared there.
    trouble: why nothing can be claimed, for operators; empty while that is possible.
    """

    def __init__(self, clock: Clock) -> None:
        self.is_on = False
        self.trouble = ""
        self._clock = clock
        self._since: float | None = None
        self._head_start_until = 0.0

    def failed(self, asked: float, error: StorageError) -> None:
        """Learn that the database did not do what it was asked at `asked`."""
        self.is_on = True
        if not isinstance(error, StorageUnavailable):
            self.trouble = f"the database refuses claims: {error}"
            return
        self.trouble = f"the database does not answer: {error}"
        if self._since is None:
            self._since = asked

    def came_back(self) -> None:
        """Begin the head start: the database is back."""
        self.is_on = True
        self._head_start_until = self._clock.elapsed() + HEAD_START

    async def may_claim(self, check_writable: Callable[[], Awaitable[None]]) -> bool:
        """Tell whether to claim. After a failure `check_writable` finds out, and what it raises is raised."""
        if self._since is not None:
            await check_writable()
            since, self._since = self._since, None  # another loop may have found out meanwhile
            if since is not None and self._clock.elapsed() - since > SHORT_OUTAGE:
                self.came_back()
        self.trouble = ""
        self.is_on = self._clock.elapsed() < self._head_start_until
        return not self.is_on
