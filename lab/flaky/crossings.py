"""The moments that runs of the suite cross: midnights, ends of months and years, changes to summer time.

A run's clock is the machine's plus a constant, by Debian's datefudge in LD_PRELOAD, which all that the tests
start inherits. Programs written in Go (Prometheus, a verifier of signatures) do not ask libc, and keep the
machine's clock. The monotonic clock and the times of files stay what they are.

Why not libfaketime 0.9.10: under it Python's time.sleep fails, since it moves absolute monotonic deadlines
too; and Postgres's lock_timeout does not expire, since a signal handler within poll sees the machine's clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class Crossing:
    """A moment to cross. at: ISO 8601, with an offset; zone: TZ of the run; what: what happens then."""

    at: str
    zone: str
    what: str

    @property
    def moment(self) -> datetime:
        """The moment, aware."""
        return datetime.fromisoformat(self.at)

    def __str__(self) -> str:
        """Say what happens, and when that is in UTC and in the zone."""
        in_utc, there = self.moment.astimezone(UTC), self.moment.astimezone(ZoneInfo(self.zone))
        return f"{self.what}: {in_utc:%Y-%m-%d %H:%M} UTC, {there:%Y-%m-%d %H:%M} {self.zone}"


# Midnights of UTC, by which the log is partitioned, and of the zone take turns. So do three zones: west of
# UTC; east of it, without summer time; and one whose offset is not a number of hours.
CROSSINGS = (
    Crossing("2028-03-01T00:00+00:00", "America/New_York", "29 February ends in UTC"),
    Crossing("2029-01-01T00:00+05:00", "Asia/Tashkent", "the year ends in the zone"),
    Crossing("2028-04-02T03:45+13:45", "Pacific/Chatham", "summer time ends in the zone"),
    Crossing("2028-03-01T00:00-05:00", "America/New_York", "29 February ends in the zone"),
    Crossing("2029-01-01T00:00+00:00", "Asia/Tashkent", "the year ends in UTC"),
    Crossing("2028-05-01T00:00+12:45", "Pacific/Chatham", "a month ends in the zone"),
    Crossing("2028-03-12T02:00-05:00", "America/New_York", "summer time begins in the zone"),
    Crossing("2028-02-29T00:00+00:00", "Asia/Tashkent", "29 February begins in UTC"),
    Crossing("2028-09-24T02:45+12:45", "Pacific/Chatham", "summer time begins in the zone"),
    Crossing("2028-11-05T02:00-04:00", "America/New_York", "summer time ends in the zone"),
)


def crossing_of(number: int) -> Crossing:
    """Return what a run crosses; runs are counted from 1."""
    return CROSSINGS[(number - 1) % len(CROSSINGS)]


def time_before(number: int, runs: int, at_least: timedelta, first_took: timedelta) -> timedelta:
    """Return how long before its crossing a run begins: over the runs it moves through the whole suite."""
    return max(at_least, first_took * (number - 1) / runs)


def library() -> Path | None:
    """Return where datefudge is, if it is installed."""
    return next(Path("/usr/lib").glob("*/datefudge/datefudge.so"), None)


def clock_set(before: timedelta, crossing: Crossing, datefudge: Path, now: datetime) -> Mapping[str, str]:
    """Return the environment in which it is so long before the crossing now."""
    back = now - (crossing.moment - before)
    return {
        "LD_PRELOAD": str(datefudge),
        "DATEFUDGE": str(round(back.total_seconds())),
        "TZ": crossing.zone,
    }
