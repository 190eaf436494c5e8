"""A run as it should have gone, told piece by piece, for tests of the judge."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lab.chaos.evidence import (
    Attempted,
    Command,
    Delivery,
    Event,
    Evidence,
    Injection,
    Life,
    Limits,
    NoticeRow,
    Phase,
    Repeats,
    Suspension,
)
from lab.chaos.judge import judge
from lab.chaos.labels import label, merchant_of, number_of
from lab.chaos.routes import spread
from lab.chaos.verdict import What
from webhook_dispatcher.local.arrivals import Arrival, Signature

SCHEDULE = (0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0)
LIMITS = Limits(
    lease=2.5, attempt_timeout=0.8, sweep=1.0, attempts=8, suspend_after=12.0, suspension_interval=6.0
)


class EvidenceBuilder:
    """Events, requests, records and faults; each call adds one. Times are seconds since the run's begin."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.arrivals: list[Arrival] = []
        self.rows: dict[str, list[Attempted]] = {}
        self.ends: dict[str, tuple[str, str | None]] = {}
        self.injections: list[Injection] = []
        self.cancelled: set[str] = set()
        self.by_hand: Counter[str] = Counter()
        self.schedule: Sequence[float] = ()
        self.commands: list[Command] = []
        self.finished: dict[str, float] = {}
        self.withdrawn: set[int] = set()
        self.in_force: set[int] = set()
        self.suspensions: list[Suspension] = []
        self.notices: list[NoticeRow] = []
        self.told_after: float | None = None
        self.absent: list[Event] = []
        self.traced: set[str] = set()
        self.unheard: set[tuple[str, str]] = set()
        self.given_up: dict[str, float] = {}
        self.filters: dict[str, set[frozenset[str]]] = {}
        self.unwanted: set[str] = set()
        self.routed: dict[str, int] = {}
        self.lives: dict[str, list[Life]] = {}
        self.gaps: dict[str, list[Life]] = {}
        self.by_charge: set[str] = set()
        self.endpoint_ids: dict[str, str] = {}

    def event(
        self, name: str, at: float, merchant: str = "m1", took: float = 0.01, unsure: bool = False,
        charge: str | None = None,
    ) -> None:  # fmt: skip
        """Commit an event; `unsure`: the answer to its COMMIT was lost."""
        seq = len(self.events) + 1
        self.events[name] = Event(
            name,
            seq,
            merchant,
            "charge.created",
            f'{{"n": {seq}.0}}',
            at,
            None if unsure else at + took,
            charge,
        )
        self.rows[name] = []
        self.ends[name] = ("delivered", None)

    def request(
        self, name: str, at: float, status: int | None = 200, daemon: str = "d1.1", took: float = 0.02
    ) -> Arrival:
        """Let a request arrive that is not recorded; `d.2` is event `d` at endpoint 2."""
        event = self.events[merchant_of(name)]
        merchant = label(event.merchant_id, number_of(name))
        number = 1 + sum((one.merchant_id, one.event_id) == (merchant, event.id) for one in self.arrivals)
        frame = f'{{"id":"{event.id}","type":"{event.type}","createdAt":"2026-11-20T08:15:30.123Z",'
        body = f'{frame}"data":{{"object":{event.object}}}}}'.encode()
        arrival = _arrival(merchant, event.id, event.type, at, body, daemon, took)
        arrival.attempt, arrival.status = number, status
        self.arrivals.append(arrival)
        return arrival

    def record(
        self, name: str, at: float, status: int | None = 200, trigger: str = "schedule", took: float = 0.03,
        outcome: str = "", attempt: int = 0,
    ) -> None:  # fmt: skip
        """Record an attempt."""
        rows = self.rows[name]
        seen = outcome or ("timeout" if status is None else "delivered" if status < 300 else "status")
        rows.append(Attempted(attempt or len(rows) + 1, trigger, at, took, status, seen))

    def attempt(
        self, name: str, at: float, status: int | None = 200, daemon: str = "d1.1", took: float = 0.02,
        trigger: str = "schedule",
    ) -> Arrival:  # fmt: skip
        """Let a request arrive and be recorded."""
        self.record(name, at - 0.003, status, trigger, took + 0.006)
        return self.request(name, at, status, daemon, took)

    def sent(
        self, name: str, begun_at: float, at: float, merchant: str = "m1", committing: float = 0.01,
        **about: Any,
    ) -> Arrival:  # fmt: skip
        """Commit an event, and let its request arrive and be recorded; about: what else of the attempt."""
        self.event(name, begun_at, merchant, committing)
        return self.attempt(name, at, **about)

    def attempt_each(self, names: str, at: float, every: float = 0.1) -> None:
        """Let a request of each of these events arrive, one after the other, and be recorded."""
        for number, name in enumerate(names):
            self.attempt(name, at + number * every)

    def fail(self, name: str, reason: str, at: float | None = None) -> None:
        """Let a delivery end as failed."""
        self.ends[name] = ("failed", reason)
        if at is not None:
            self.finished[name] = at

    def command(self, name: str, at: float, took: float = 0.2, status: str = "done", **about: Any) -> Command:
        """Give a command."""
        command = Command(len(self.commands) + 1, name, status, at, at + took, **about)
        self.commands.append(command)
        return command

    def fault(
        self, kind: str, began: float, ended: float, daemons: Sequence[str] = (), exposed: int = 0,
        merchants: Sequence[str] = (), repeats: Repeats = Repeats.EXPOSED, **about: Any,
    ) -> None:  # fmt: skip
        """Inject a fault; about: further facts of an Injection."""
        self.injections.append(
            Injection(
                number=len(self.injections) + 1, kind=kind, repeats=repeats, began=began, ended=ended,
                daemons=frozenset(daemons), merchants=frozenset(merchants), exposed=exposed,
                phases={Phase.SENT: exposed} if exposed else {}, **about,
            )
        )  # fmt: skip

    def lose(self, name: str, is_traced: bool = True) -> None:
        """Let the database lack an event, and everything about it."""
        self.absent.append(self.events.pop(name))
        del self.rows[name], self.ends[name]
        if is_traced:
            self.traced.add(name)

    def route(self, name: str, place: int, *numbers: int) -> None:
        """Let an event be copied for these endpoints of its merchant, and be delivered there."""
        self.routed[name] = place
        del self.rows[name], self.ends[name]
        for copy in (label(name, number) for number in numbers):
            self.rows[copy], self.ends[copy] = [], ("delivered", None)

    def pass_over(self, name: str) -> None:
        """Let an event be in the log without a state."""
        del self.ends[name]
        self.unwanted.add(name)

    def suspended(self, merchant: str, began: float, seen_until: float, is_over: bool = True) -> None:
        """Suspend a merchant, as the runner saw it."""
        ended = seen_until + 0.5 if is_over else None
        self.suspensions.append(Suspension(merchant, began, seen_until, ended))

    def notice(self, type: str, at: float = 90, merchant: str = "m1", **about: Any) -> Arrival:
        """Tell the platform something; what is a float becomes an instant."""
        texts = {
            name: _instant(given) if isinstance(given, float) else given for name, given in about.items()
        }
        told = {"merchantId": merchant, **texts}
        event_id = f"n{len(self.notices) + 1}"
        self.notices.append(NoticeRow(event_id, type, "delivered", json.dumps(told)))
        body = json.dumps({"id": event_id, "type": type, "data": {"object": told}}).encode()
        arrival = _arrival("$platform", event_id, type, at, body)
        self.arrivals.append(arrival)
        return arrival

    def evidence(self) -> Evidence:
        """Return what the judge is given."""
        evidence = Evidence(
            seed=1,
            began=0.0,
            ended=120.0,
            limits=replace(LIMITS, schedule=self.schedule, failing_after=self.told_after),
            events=list(self.events.values()),
            deliveries={
                name: Delivery(
                    *end,
                    len({row.attempt for row in self.rows[name]}),
                    self.rows[name],
                    created_at=self.events[merchant_of(name)].begun_at,
                    finished_at=self.finished.get(name),
                )
                for name, end in self.ends.items()
            },
            arrivals=self.arrivals,
            injections=self.injections,
            cancelled=frozenset(self.cancelled),
            by_hand=self.by_hand,
            commands=self.commands,
            withdrawn=frozenset(self.withdrawn),
            in_force=frozenset(self.in_force),
            suspensions=self.suspensions,
            notices=self.notices,
            absent=self.absent,
            traced=frozenset(self.traced),
            unheard=frozenset(self.unheard),
            given_up=self.given_up,
            filters=self.filters,
            unwanted=self.unwanted,
            routed=set(self.routed),
            places=self.routed,
            lives=self.lives,
            gaps=self.gaps,
            by_charge=self.by_charge,
            endpoint_ids=self.endpoint_ids,
        )
        return spread(evidence) if self.lives else evidence


def _arrival(
    merchant_id: str,
    event_id: str,
    type: str,
    at: float,
    body: bytes,
    daemon: str = "d1.1",
    took: float = 0.02,
) -> Arrival:
    return Arrival(
        merchant_id=merchant_id, event_id=event_id, type=type, attempt=1, started_at=at, connection=1,
        signature=Signature.RIGHT, headers={"user-agent": f"webhook-dispatcher/0.1.0+{daemon}"}, body=body,
        ended_at=at + took, status=200,
    )  # fmt: skip


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def calm() -> EvidenceBuilder:
    """Three events of one merchant and one of another, each delivered at once."""
    builder = EvidenceBuilder()
    for number, name in enumerate("abc"):
        builder.sent(name, float(number), number + 0.05)
    builder.sent("x", 0.5, 0.55, merchant="m2")
    return builder


def found(builder: EvidenceBuilder) -> list[tuple[What, str | None]]:
    """Return what the judge finds broken, and in which event; each with a history."""
    verdict = judge(builder.evidence())
    for violation in verdict.violations:
        assert violation.history, violation
    return [(violation.what, violation.event_id) for violation in verdict.violations]


def kill(builder: EvidenceBuilder, *names: str, exposed: int) -> None:
    """Kill a daemon with requests in flight; another daemon makes them after the lease."""
    for number, name in enumerate(names):
        builder.event(name, 5, merchant=f"m-{name}")
        builder.request(name, 5.1 + number / 100)
        builder.attempt(name, 8 + number / 100, daemon="d2.1")
    builder.fault("kill -9", 5.2, 5.3, ["d1.1"], exposed)
