"""All metrics, in a registry of their own; no label ever holds a merchant, a URL or an id.

Source: contract 6. Children with labels known beforehand exist from the start: the first increase counts too.
Each gauge says how it is combined over the processes of a supervisor (telemetry/merging.py).
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from itertools import product

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook_dispatcher.domain.command import COMMANDS, HANDLED_STATUSES
from webhook_dispatcher.domain.event import (
    EVENT_TYPES,
    NOTICE_TYPES,
    FailedReason,
    State,
    Trigger,
    is_own_type,
)
from webhook_dispatcher.domain.verdict import Outcome

ATTEMPT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 9.0, 10.0, 11.0)
LAG_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 3600.0, 86400.0)
STATEMENT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
OWN_FAULTS = ("local", "signer", "fleet", "clock")
MAX_OWN_TYPES = 100
"""Types of one's own that are labels; others are `unknown`."""
SHARD = "shard"
"""The label of what is measured in a database, where databases have names."""


class ProcessState(StrEnum):
    """How a process is."""

    READY = "ready"
    NOT_READY = "not_ready"
    AWAY = "away"


class Metrics:
    """One attribute per metric, named without the `webhook_` prefix.

    attempts_by: the counter and the histogram of attempts of each outcome and trigger.
    deliveries_by: the counter of deliveries of each state, reason (None: it did not fail) and event type.
    shard: the database's name, if it has one; what is measured in the database carries it as a label.
    """

    def __init__(
        self, version: str, registry: CollectorRegistry | None = None, shard: str | None = None
    ) -> None:
        # The *_created series are not in the contract, and double what is scraped.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry or CollectorRegistry()
        self._attempts()
        self._deliveries()
        self._owed(shard)
        self._database()
        self._process(version)

    def _attempts(self) -> None:
        self.attempts = self._counter("attempts", "Attempts that ended.", "outcome", "trigger")
        self.attempt_duration = self._histogram(
            "attempt_duration_seconds",
            "From the start of an attempt to its outcome.",
            ATTEMPT_BUCKETS,
            "outcome",
        )
        self.attempts_in_flight = self._gauge("attempts_in_flight", "Attempts in flight now.", "livesum")
        outcomes = [str(outcome) for outcome in Outcome]
        _create(self.attempts, product(outcomes, Trigger))
        _create(self.attempt_duration, product(outcomes))
        # Looked up once: naming the labels each time costs more than counting.
        self.attempts_by = {
            (outcome, trigger): (
                self.attempts.labels(outcome, trigger),
                self.attempt_duration.labels(outcome),
            )
            for outcome, trigger in product(Outcome, Trigger)
        }

    def _deliveries(self) -> None:
        self.deliveries = self._counter(
            "deliveries",
            "Deliveries that came to their end; `reason` is why they failed, and empty where they did not. "
            "Types of your own are labels up to the hundredth, others `unknown`.",
            "state",
            "type",
            "reason",
        )
        self.delivery_lag = self._histogram(
            "delivery_lag_seconds",
            "From an event's `created_at` to the start of its first attempt.",
            LAG_BUCKETS,
        )
        self.dispatch_lag = self._histogram(
            "dispatch_lag_seconds",
            "The part of it for which nothing of the merchant's own kept the event.",
            LAG_BUCKETS,
        )
        self.deliveries_by = _DeliveriesBy(self.deliveries)
        self.unwanted_events = self._counter(
            "unwanted_events", "Events that no endpoint's filter let through."
        )
        self.routed_events = self._counter(
            "routed_events", "Events of merchants with several endpoints, written for each that wants them."
        )
        self.notices = self._counter("notices", "Notices written for the platform.", "type")
        _create(self.notices, product(NOTICE_TYPES))

    def _owed(self, shard: str | None) -> None:
        """Make the gauges of one database: its processes measure the same, so the newest figure counts."""
        self.pending = self._measured("pending", "Deliveries not attempted yet, in the database.", shard)
        self.pending_retry = self._measured(
            "pending_retry", "Deliveries waiting for a retry, in the database.", shard
        )
        self.oldest_pending_age = self._measured(
            "oldest_pending_age_seconds", "Age of the oldest delivery not attempted yet.", shard
        )
        self.oldest_due_retry_age = self._measured(
            "oldest_due_retry_age_seconds", "How long the oldest due retry has been due.", shard
        )
        self.suspended_merchants = self._measured(
            "suspended_merchants", "Endpoints that are tried once an interval, in the database.", shard
        )
        self.failing_merchants = self._measured(
            "failing_merchants",
            "Endpoints that have accepted nothing for five minutes, and are not suspended.",
            shard,
        )
        self.lost_events = self._measured(
            "lost_events",
            "Events that were sent and that the database lacks since another server took over, of a day.",
            shard,
        )
        self.paused = self._measured("paused", "1 while operators have paused everything.", shard)

    def _database(self) -> None:
        self.claim_duration = self._histogram(
            "claim_duration_seconds", "One claim: leasing lanes and reading what they owe.", STATEMENT_BUCKETS
        )
        self.record_duration = self._histogram(
            "record_duration_seconds", "One batch of outcomes, to its commit.", STATEMENT_BUCKETS
        )
        self.database_errors = self._counter(
            "database_errors", "Statements that failed, by what they were for.", "operation"
        )
        self.control_commands = self._counter(
            "control_commands", "Control commands handled.", "command", "status"
        )
        _create(self.control_commands, product(COMMANDS, HANDLED_STATUSES))

    def _process(self, version: str) -> None:
        self.lanes_leased = self._gauge("lanes_leased", "Lanes that this daemon holds now.", "livesum")
        # A suspect is a slow lane: the metric's name is public, and stays.
        self.suspect_lanes = self._gauge(
            "suspect_lanes",
            "Of the lanes held, the slow ones: their latest attempt took more than a second.",
            "livesum",
        )
        self.leases_lost = self._counter(
            "leases_lost",
            "Leases that another process took while they were held, or that a restart of the server ended.",
        )
        self.event_loop_lag = self._gauge(
            "event_loop_lag_seconds", "How late the event loop last ran a timer.", "livemax"
        )
        self.own_fault = self._gauge(
            "own_fault", "1 while a fault of our own lasts, by its kind.", "livemax", "kind"
        )
        self.merchants_held_back = self._gauge(
            "merchants_held_back",
            "Merchants held back, since how they fail is our fault, or nearly all fail so and it may be.",
            "livesum",
        )
        for kind in OWN_FAULTS:
            self.own_fault.labels(kind).set(0)
        self.build_info = self._gauge("build_info", "1, labelled with the version.", "livemax", "version")
        self.build_info.labels(version).set(1)

        self.unopened_secrets = self._gauge(
            "unopened_secrets",
            "Merchants whose deliveries wait because their stored secret does not open.",
            "livemax",
        )
        self.blocked_rows = self._gauge(
            "blocked_rows",
            "Rows that a daemon cannot deliver and leaves where they are, with their lanes, by the reason.",
            "livemax",
            "reason",
        )

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, labels, namespace="webhook", registry=self.registry)

    def _gauge(self, name: str, meaning: str, mode: str, *labels: str) -> Gauge:
        return Gauge(
            name,
            meaning,
            labels,
            namespace="webhook",
            registry=self.registry,
            multiprocess_mode=mode,  # type: ignore[arg-type]  # a literal in the library's stub
        )

    def _measured(self, name: str, meaning: str, shard: str | None) -> Gauge:
        if shard is None:
            return self._gauge(name, meaning, "livemostrecent")
        return self._gauge(name, meaning, "livemostrecent", SHARD).labels(shard)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, meaning, labels, namespace="webhook", registry=self.registry, buckets=buckets)


class _DeliveriesBy(dict[tuple[State, FailedReason | None, str], Counter]):
    """The counter of each end and event type: ours, the first of one's own, and `unknown` for all others."""

    def __init__(self, deliveries: Counter) -> None:
        self._deliveries = deliveries
        self._own: set[str] = set()
        ends = [(State.DELIVERED, None), *((State.FAILED, reason) for reason in FailedReason)]
        super().__init__(
            {
                (state, reason, event_type): self._counter_of(state, reason, event_type)
                for (state, reason), event_type in product(ends, EVENT_TYPES)
            }
        )

    def __missing__(self, labels: tuple[State, FailedReason | None, str]) -> Counter:
        state, reason, event_type = labels
        if is_own_type(event_type) and len(self._own | {event_type}) <= MAX_OWN_TYPES:
            self._own.add(event_type)
        else:
            event_type = "unknown"
        return self._counter_of(state, reason, event_type)

    def _counter_of(self, state: State, reason: FailedReason | None, event_type: str) -> Counter:
        return self._deliveries.labels(state, event_type, reason or "")


class ProcessMetrics:
    """How the processes behind one address are, be it a supervisor's or a single one's.

    shards: the names of the databases; None for one without a name.
    count: tells how many processes of a database are in a state.
    started_at: when what serves this began, in seconds since 1970.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        shards: Iterable[str | None],
        count: Callable[[str | None, ProcessState], int],
        started_at: float,
    ) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        names = list(shards)
        labels = [SHARD] if any(names) else []
        self.processes = Gauge(
            "processes",
            "Processes, by how they are: `ready`, `not_ready` or `away`.",
            [*labels, "state"],
            namespace="webhook",
            registry=registry,
        )
        self.process_restarts = Counter(
            "process_restarts",
            "Processes that a supervisor started again.",
            labels,
            namespace="webhook",
            registry=registry,
        )
        self.ready = Gauge(
            "ready",
            "1 while a process can deliver from the database, as `/readyz` says.",
            labels,
            namespace="webhook",
            registry=registry,
        )
        self.start_time = Gauge(
            "start_time_seconds",
            "When what serves this began, in seconds since 1970.",
            namespace="webhook",
            registry=registry,
        )
        self.start_time.set(started_at)
        for name in names:
            self._show(name, count)

    def _show(self, shard: str | None, count: Callable[[str | None, ProcessState], int]) -> None:
        self._restarts_of(shard)
        for state in ProcessState:
            own = {"state": str(state)} | ({SHARD: shard} if shard else {})
            self.processes.labels(**own).set_function(partial(count, shard, state))
        ready = self.ready if shard is None else self.ready.labels(shard)
        ready.set_function(lambda: min(1, count(shard, ProcessState.READY)))

    def count_restart(self, shard: str | None) -> None:
        """Count a process that is started again."""
        self._restarts_of(shard).inc()

    def _restarts_of(self, shard: str | None) -> Counter:
        return self.process_restarts if shard is None else self.process_restarts.labels(shard)


def _create(metric: Counter | Histogram, label_values: Iterable[tuple[str, ...]]) -> None:
    for values in label_values:
        metric.labels(*values)
