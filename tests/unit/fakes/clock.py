"""A clock that stands still, and its database's."""

from datetime import UTC, datetime

from tests.unit.builders import NOW


class FakeClock:
    """Stands still until told otherwise; its database is at the same instant."""

    def __init__(self) -> None:
        self.moment = 1000.0
        self.wall = NOW.timestamp()

    def elapsed(self) -> float:
        return self.moment

    def unix(self) -> float:
        return self.wall

    def advance(self, seconds: float) -> None:
        self.moment += seconds
        self.wall += seconds

    @property
    def now(self) -> datetime:
        """Return the database's time."""
        return datetime.fromtimestamp(self.wall, UTC)
