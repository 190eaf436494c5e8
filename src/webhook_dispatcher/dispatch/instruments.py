"""What all parts of the daemon's work measure and watch with."""

from dataclasses import dataclass
from typing import Self

from webhook_dispatcher.dispatch.blocked import Blocked
from webhook_dispatcher.dispatch.bodies import Bodies
from webhook_dispatcher.dispatch.faults import Faults
from webhook_dispatcher.dispatch.pace import Absence
from webhook_dispatcher.dispatch.standing import Standings
from webhook_dispatcher.domain.clock import Clock, DatabaseClock
from webhook_dispatcher.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Instruments:
    """One of each for the whole process."""

    clock: Clock
    database_clock: DatabaseClock
    bodies: Bodies
    faults: Faults
    metrics: Metrics
    absence: Absence
    blocked: Blocked
    standings: Standings

    @classmethod
    def of(cls, clock: Clock, metrics: Metrics) -> Self:
        """Make them all from the clock they go by."""
        database_clock = DatabaseClock(clock)
        faults = Faults(clock, database_clock, metrics)
        standings = Standings(clock, faults.suspicions.holds)
        blocked = Blocked(clock, metrics)
        return cls(clock, database_clock, Bodies(), faults, metrics, Absence(clock), blocked, standings)
