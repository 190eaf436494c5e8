"""What all parts of the daemon's work share: clocks, metrics, health, the memory budget, the pause."""

from dataclasses import dataclass
from typing import Self

from webhook_dispatcher.dispatch.blocked import BlockedRows
from webhook_dispatcher.dispatch.health.lanes import LaneHealth
from webhook_dispatcher.dispatch.health.outage import Outage
from webhook_dispatcher.dispatch.health.own_faults import OwnFaults
from webhook_dispatcher.dispatch.lane_session import MemoryBudget
from webhook_dispatcher.dispatch.right_of_way import RightOfWay
from webhook_dispatcher.dispatch.sent_lately import SentLately
from webhook_dispatcher.domain.clock import Clock, DatabaseClock
from webhook_dispatcher.telemetry.metrics import Metrics


class OperatorPause:
    """The operators' pause of everything, as control.recalls has last read it; nobody else sets it."""

    def __init__(self) -> None:
        self.is_on = False

    def set(self, is_on: bool) -> None:
        """Begin it, or end it."""
        self.is_on = is_on


@dataclass(frozen=True, slots=True)
class Instruments:
    """One of each for the whole process."""

    clock: Clock
    database_clock: DatabaseClock
    memory: MemoryBudget
    own_faults: OwnFaults
    metrics: Metrics
    outage: Outage
    blocked: BlockedRows
    health: LaneHealth
    pause: OperatorPause
    sent_lately: SentLately
    right_of_way: RightOfWay

    @classmethod
    def of(cls, clock: Clock, metrics: Metrics) -> Self:
        """Make them all from the clock they go by."""
        database_clock = DatabaseClock(clock)
        own_faults = OwnFaults(clock, database_clock, metrics)
        return cls(
            clock,
            database_clock,
            MemoryBudget(),
            own_faults,
            metrics,
            Outage(clock),
            BlockedRows(clock, metrics),
            LaneHealth(clock, own_faults.held, own_faults.has_worked),
            OperatorPause(),
            SentLately(clock),
            RightOfWay(),
        )
