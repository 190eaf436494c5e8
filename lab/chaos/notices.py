"""Whether the platform was told of what failed (contract 1): all of it, once, and nothing else."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lab.chaos.cases import Case, Cases
from lab.chaos.commands import CLOCK_ERROR, concerns
from lab.chaos.evidence import Attempted, Evidence
from lab.chaos.history import Historian
from lab.chaos.injections import Injections
from lab.chaos.labels import merchant_of
from lab.chaos.lateness import THWARTED
from lab.chaos.repetitions import GAP
from lab.chaos.verdict import Violation, What
from webhook_dispatcher.dispatch.notices import REPORT_INTERVAL
from webhook_dispatcher.domain.event import PLATFORM, FailedReason, State, Trigger
from webhook_dispatcher.local.arrivals import Arrival, Signature

TOLD_REASONS = frozenset((FailedReason.EXHAUSTED, FailedReason.NOT_CONFIGURED, FailedReason.UNSENDABLE))
SAME = 0.01
"""Seconds by which instants of the same failure may differ: they are cut to milliseconds."""
FRESH = 50.0
"""Seconds after a failure in which that a merchant fails is told for certain; a minute is promised."""
MIN_EVENTS = 3
"""Different events that must have failed."""
SURE = 3
"""Deliveries after which a success is known for certain; one may have been recorded too late to count."""
_OPENING = ("endpoint.failing", "endpoint.suspended")
_MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing told. about: its object."""

    id: str
    type: str
    about: Mapping[str, Any]
    endpoint_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def merchant_id(self) -> str:
        """Return which endpoint it is about; one that is not known was a number 1."""
        return self.endpoint_ids.get(self.about.get("endpointId", ""), str(self.about["merchantId"]))

    def instant(self, name: str) -> float:
        """Return one of its instants, in seconds since 1970."""
        return datetime.fromisoformat(self.about[name]).timestamp()


Problem = tuple[What, str, str]
"""What is wrong, about which merchant, in a sentence."""


def mistold(
    cases: Cases, injections: Injections, evidence: Evidence, historian: Historian
) -> Iterator[Violation]:
    """Find what the platform should have been told, and what it was told wrongly."""
    if evidence.limits.failing_after is None:
        return
    arrived: defaultdict[str, list[Arrival]] = defaultdict(list)
    for arrival in cases.notices:
        arrived[arrival.event_id].append(arrival)
    told = _told(arrived, evidence)
    by_merchant: defaultdict[str, list[Notice]] = defaultdict(list)
    for notice in told:
        by_merchant[notice.merchant_id].append(notice)
    problems = [*_undelivered(arrived, evidence)]
    for merchant_id in sorted(by_merchant.keys() | cases.of_merchant.keys()):
        problems += _about_merchant(
            _Merchant(merchant_id, by_merchant[merchant_id], cases, injections, evidence)
        )
    for what, merchant_id, detail in problems:
        known = [arrived[notice.id] for notice in by_merchant[merchant_id] if notice.id in arrived]
        history = [line for those in known for line in historian.arrival(those[0])][-_MOST_TOLD:]
        yield Violation(what, merchant_id, None, detail, history or ["no notice about it has arrived"])


def _told(arrived: Mapping[str, Sequence[Arrival]], evidence: Evidence) -> list[Notice]:
    """Return each notice once; one that was given up after all its attempts counts as told."""
    found = [
        Notice(event_id, those[0].type, json.loads(those[0].body)["data"]["object"], evidence.endpoint_ids)
        for event_id, those in arrived.items()
    ]
    given_up = [row for row in evidence.notices if row.state == State.FAILED and row.id not in arrived]
    return found + [
        Notice(row.id, row.type, json.loads(row.object), evidence.endpoint_ids) for row in given_up
    ]


def _undelivered(arrived: Mapping[str, Sequence[Arrival]], evidence: Evidence) -> Iterator[Problem]:
    """Hold what was written for the platform against what came."""
    for row in evidence.notices:
        statuses = [arrival.status for arrival in arrived.get(row.id, ())]
        if row.state == State.DELIVERED and 200 not in statuses:
            yield What.UNACCEPTED, PLATFORM, f"notice {row.id} is delivered, and did not arrive"
        elif row.state not in (State.DELIVERED, State.FAILED):
            yield What.STUCK, PLATFORM, f"notice {row.id} is still {row.state} at the end"
    for event_id in arrived.keys() - {row.id for row in evidence.notices}:
        yield What.UNKNOWN, PLATFORM, f"notice {event_id} is on no record"
    for event_id, those in arrived.items():
        if any(arrival.signature is not Signature.RIGHT for arrival in those):
            yield What.WRONG_SIGNATURE, PLATFORM, f"notice {event_id} is not signed as it should be"


@dataclass(frozen=True, slots=True)
class _Merchant:
    """What was told about a merchant, and all that there was to tell."""

    id: str
    told: Sequence[Notice]
    cases: Cases
    injections: Injections
    evidence: Evidence

    def notices(self, *types: str) -> list[Notice]:
        return [notice for notice in self.told if notice.type in types]

    def owed(self) -> Sequence[Case]:
        return self.cases.of_merchant.get(self.id, ())

    def owed_everywhere(self) -> Iterator[Case]:
        for name, owed in self.cases.of_merchant.items():
            if merchant_of(name) == self.id:
                yield from owed

    def monotonic(self, notice: Notice, name: str) -> float:
        return notice.instant(name) + self.evidence.to_monotonic

    def rows(self) -> list[tuple[float, Attempted, str]]:
        """Return the ends of its attempts with their events, in order."""
        rows = [
            (row.started_at + row.duration, row, case.event.id)
            for case in self.owed()
            for row in case.attempted
            if row.outcome != "unsendable"
        ]
        return sorted(rows, key=lambda entry: entry[0])

    def is_touched(self, begin: float, end: float) -> bool:
        """Tell whether somebody may have given it another URL, or resumed it: its failures count anew."""
        return any(self.id in one.merchants for one in self.injections.between(begin, end))


def _about_merchant(merchant: _Merchant) -> Iterator[Problem]:
    by_endpoint = (_twice, _unfounded, _silent_about_failing, _silent_about_recovered)
    is_merchants = merchant_of(merchant.id) == merchant.id
    for find in (*((_miscounted, _strangers) if is_merchants else ()), *by_endpoint):
        for what, detail in find(merchant):
            yield what, merchant.id, detail


def _miscounted(merchant: _Merchant) -> Iterator[tuple[What, str]]:
    """Compare the sum of all that was told to have failed with the log."""
    told = sum(notice.about["count"] for notice in merchant.notices("delivery.failed"))
    known = [case for case in merchant.owed_everywhere() if not case.is_test]
    least = sum(map(_has_failed, known))
    if told < least:
        yield (
            What.UNTOLD,
            f"{least} of its deliveries have failed for good, and the platform was told of {told}",
        )
    most = sum(_most_ends(case, merchant) for case in known)
    if told > most:
        yield (
            What.MISTOLD,
            f"the platform was told of {told} failed deliveries; at most {most} can have failed",
        )


def _has_failed(case: Case) -> bool:
    return case.delivery is not None and case.delivery.failed_reason in TOLD_REASONS


def _most_ends(case: Case, merchant: _Merchant) -> int:
    """Return how often an event may have failed for good: again after each attempt by command."""
    numbers = {(row.trigger, row.attempt) for row in case.attempted}
    by_command = sum(trigger != Trigger.SCHEDULE for trigger, _ in numbers)
    may_have_failed = _has_failed(case) or len(numbers) >= merchant.evidence.limits.attempts
    if case.merchant_id not in merchant.evidence.unconfigured:
        return by_command + may_have_failed
    # Without an endpoint each reopening ends without an attempt.
    recovers = sum(concerns(one, merchant.id) for one in merchant.cases.commands.recovers)
    return by_command + 1 + merchant.evidence.by_hand.get(case.event.id, 0) + recovers


def _strangers(merchant: _Merchant) -> Iterator[tuple[What, str]]:
    for notice in merchant.notices("delivery.failed"):
        for event_id in notice.about["eventIds"]:
            case = merchant.cases.get(event_id)
            if case is None or case.merchant_id != merchant.id:
                yield What.MISTOLD, f"notice {notice.id} names event {event_id}, which is none of its own"


def _twice(merchant: _Merchant) -> Iterator[tuple[What, str]]:
    """Find what was told twice, by notices of different ids."""
    names = {"endpoint.suspended": "suspendedAt"}
    told = Counter(
        (notice.type, notice.about[names.get(notice.type, "failingSince")])
        for notice in merchant.notices(*_OPENING, "endpoint.recovered")
    )
    for (kind, instant), times in told.items():
        if times > 1:
            yield What.MISTOLD, f"{kind} of {instant} was told {times} times"


def _unfounded(merchant: _Merchant) -> Iterator[tuple[What, str]]:
    """Find a recovery from nothing, and failing merchants who accepted what no fault kept off the record."""
    opened = [notice.instant("failingSince") for notice in merchant.notices(*_OPENING)]
    for notice in merchant.notices("endpoint.recovered"):
        if not any(abs(notice.instant("failingSince") - at) < SAME for at in opened):
            yield What.MISTOLD, f"it recovered from {notice.about['failingSince']}, of which nothing was told"
    rows = merchant.rows()
    for notice in merchant.notices("endpoint.failing"):
        since = merchant.monotonic(notice, "failingSince")
        failing_after = merchant.evidence.limits.failing_after or 0.0
        told_from = since + failing_after
        accepted = [
            end
            for end, row, _ in rows
            if row.outcome == State.DELIVERED
            and since < end < told_from
            and not merchant.injections.between(end, told_from, GAP)
        ]
        if len(accepted) >= SURE:
            yield (
                What.MISTOLD,
                f"failing since {notice.about['failingSince']}, with {len(accepted)} delivered",
            )


def _silent_about_failing(merchant: _Merchant) -> Iterator[tuple[What, str]]:
    """Find stretches of nothing but failures that should have been told, and were not."""
    for stretch in _stretches(merchant.rows()):
        since, last = stretch[0][0], stretch[-1][0]
        if _could_be_told(merchant, stretch) and not _is_told(merchant, since, last):
            detail = f"nothing was accepted for {last - since:.1f} s, and the platform was not told"
            yield What.UNTOLD, f"{detail} (from {since - merchant.evidence.began:+.3f})"


def _stretches(rows: Sequence[tuple[float, Attempted, str]]) -> Iterator[list[tuple[float, Attempted, str]]]:
    stretch: list[tuple[float, Attempted, str]] = []
    for entry in rows:
        is_success = entry[1].outcome == State.DELIVERED
        if stretch and (is_success or entry[0] - stretch[-1][0] > FRESH):
            yield stretch
            stretch = []
        if not is_success:
            stretch.append(entry)
    if stretch:
        yield stretch


def _could_be_told(merchant: _Merchant, stretch: Sequence[tuple[float, Attempted, str]]) -> bool:
    """Tell whether there was time for it, faults left out, with events enough, and nobody at the lane."""
    since, last = stretch[0][0], stretch[-1][0]
    firsts: dict[str, float] = {}
    for end, _, event_id in stretch:
        firsts.setdefault(event_id, end)
    if len(firsts) < MIN_EVENTS or merchant.is_touched(since - FRESH, last):
        return False
    due = max(
        since + (merchant.evidence.limits.failing_after or 0.0), sorted(firsts.values())[MIN_EVENTS - 1]
    )
    enough = REPORT_INTERVAL.seconds + THWARTED * merchant.injections.grace
    return last > due and merchant.injections.free(merchant.id, due, last) > enough


def _is_told(merchant: _Merchant, since: float, last: float) -> bool:
    """Tell whether the platform knew: what it was told before holds until it is told of a recovery."""
    opened = [merchant.monotonic(notice, "failingSince") for notice in merchant.notices(*_OPENING)]
    closed = [
        (merchant.monotonic(notice, "failingSince"), merchant.monotonic(notice, "recoveredAt"))
        for notice in merchant.notices("endpoint.recovered")
    ]
    for at in opened:
        until = min((end for begin, end in closed if begin >= at - SAME), default=float("inf"))
        if at <= last and until >= since - CLOCK_ERROR:
            return True
    return False


def _silent_about_recovered(merchant: _Merchant) -> Iterator[tuple[What, str]]:
    """Find those of whom the platform believes that they fail, and who have accepted enough since."""
    if merchant.id in merchant.evidence.unconfigured:
        return
    recovered = [notice.instant("recoveredAt") for notice in merchant.notices("endpoint.recovered")]
    rows = merchant.rows()
    for notice in merchant.notices(*_OPENING):
        since = notice.instant("failingSince")
        if any(at >= since - SAME for at in recovered):
            continue
        begin = since + merchant.evidence.to_monotonic
        accepted = [
            end for end, row, _ in rows if row.outcome == State.DELIVERED and end > begin + CLOCK_ERROR
        ]
        if len(accepted) >= SURE and not merchant.is_touched(accepted[-SURE], merchant.evidence.ended):
            yield (
                What.UNTOLD,
                f"it fails since {notice.about['failingSince']}, as the platform was told; it has accepted "
                f"{len(accepted)} since, which it was not told",
            )
