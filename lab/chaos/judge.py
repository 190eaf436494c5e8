"""Holds what a run left behind against what is promised (I1 to I3, contract 2): a pure function."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from lab.chaos import endings, isolation, lateness, lost, moves, notices, obedience, order, pausing, suspended
from lab.chaos.cases import Cases
from lab.chaos.evidence import Evidence, Injection, Phase
from lab.chaos.history import Historian
from lab.chaos.injections import Injections
from lab.chaos.labels import merchant_of
from lab.chaos.order import BrokenPromise
from lab.chaos.repetitions import Ledger, Repetition, explaining, repetitions
from lab.chaos.unresolved import unresolved
from lab.chaos.verdict import Extra, KindFigures, OthersWait, Verdict, Violation, What
from webhook_dispatcher.domain.event import State

MOST_HISTORIES = 100
"""Violations that are told in full; each sort gets its share."""


def judge(evidence: Evidence) -> Verdict:
    """Find every broken promise, and what the faults cost. Takes seconds for a hundred thousand events."""
    cases = Cases(evidence)
    injections = Injections(evidence.injections, evidence.limits)
    ledger, repeated = _attributed(cases, injections, evidence)
    lines = order.in_line(cases)
    comparisons = isolation.compared(cases, injections)
    broken = [
        *_about_events(cases, evidence, repeated),
        *obedience.forbidden(cases, injections),
        *obedience.forgotten(cases, injections, evidence),
        *pausing.unheeded(cases, injections),
        *_about_order(lines, injections),
        *_about_repetitions(ledger, evidence),
        *lateness.late(cases, suspended.with_faults(evidence, cases.commands), evidence.limits),
        *suspended.misjudged(cases, evidence),
        *isolation.held_up(comparisons),
        *isolation.worse_off(comparisons),
        *(BrokenPromise(*found) for found in lost.mistraced(cases, injections, evidence)),
        *moves.unfollowed(cases, evidence),
        *unresolved(cases, injections),
    ]
    historian = Historian(evidence, cases, injections)
    violations = [
        *obedience.disobeyed(evidence, historian),
        *pausing.slow(cases, evidence, injections, historian),
        *notices.mistold(cases, injections, evidence, historian),
        *_told(broken, historian),
        *_overdrawn(ledger, injections, historian),
        *(
            Violation(
                What.UNKNOWN, one.merchant_id, one.event_id, "no producer wrote it", historian.arrival(one)
            )
            for one in cases.unknown
        ),
    ]
    states = Counter(case.delivery.state for case in cases if case.delivery is not None)
    return Verdict(
        violations=violations,
        extras=[_extra(one) for one in repeated],
        kinds=_figures(injections, ledger, lateness.recoveries(cases, injections, _sent_again(repeated))),
        events=len({case.event.own_id for case in cases}),
        merchants=len(set(map(merchant_of, cases.of_merchant))),
        deliveries=len(cases),
        requests=len(evidence.arrivals),
        delivered=states[State.DELIVERED],
        failed=_failed(cases),
        unwanted=len(evidence.unwanted),
        deleted=sum(case.event.id in evidence.deleted for case in cases),
        firsts=sum(map(len, lines)),
        bound=sum(one.exposed for one in injections if one.repeats == "exposed"),
        resent=sum(case.resent for case in cases),
        lags=lateness.lags(cases),
        isolation=[
            OthersWait(one.injection.kind, one.before.seconds, one.meanwhile.seconds, one.most)
            for one in comparisons
        ],
        untouched=isolation.untouched(comparisons),
        counts=dict(Counter(violation.what for violation in violations)),
        forgotten=sum(len(case.forgotten) for case in cases),
        absent=len(cases.absent),
        traced=len(cases.absent.keys() & evidence.traced),
        follow=moves.follow(cases, evidence),
        replayed=sum(case.replayed for case in cases),
        notices=dict(Counter({one.event_id: one.type for one in cases.notices}.values())),
        suspensions=len(evidence.suspensions),
        tries=sum(len(suspended.tries(cases, one, evidence.limits)) for one in evidence.suspensions),
    )


def _failed(cases: Cases) -> dict[str, int]:
    return dict(
        Counter(
            case.delivery.failed_reason or "without a reason"
            for case in cases
            if case.delivery is not None and case.delivery.state == State.FAILED
        )
    )


def _attributed(
    cases: Cases, injections: Injections, evidence: Evidence
) -> tuple[Ledger, Sequence[Repetition]]:
    found = [repetition for case in cases for repetition in repetitions(case, cases)]
    found.sort(key=lambda repetition: repetition.pairs[0][0].started_at)
    ledger = Ledger()
    for repetition in found:
        repetition.candidates = explaining(repetition, injections, evidence.limits.attempt_timeout)
        ledger.attribute(repetition)
    return ledger, found


def _sent_again(repeated: Sequence[Repetition]) -> dict[int, list[tuple[str, float]]]:
    """Return, by fault, to whom and when what it had interrupted was sent again."""
    found: defaultdict[int, list[tuple[str, float]]] = defaultdict(list)
    for one in repeated:
        later = one.pairs[0][1]
        if one.injection is not None and later is not None:
            found[one.injection.number].append((one.case.merchant_id, later.started_at))
    return found


def _about_events(
    cases: Cases, evidence: Evidence, repeated: Sequence[Repetition]
) -> Iterator[BrokenPromise]:
    explained = Counter(one.case.event.id for one in repeated if one.injection is not None)
    for case in cases:
        yield from endings.ending(case, evidence, cases.commands)
        yield from endings.misrouted(case, evidence)
        yield from endings.attempts(case, explained[case.event.id], evidence)
        yield from endings.contents(case)
        yield from endings.answers(case)
    for case in cases.absent.values():
        yield from endings.contents(case)


def _about_order(lines: Sequence[order.Line], injections: Injections) -> Iterator[BrokenPromise]:
    for line in lines:
        yield from order.out_of_order(line)
        yield from order.overlaps(line, injections)


def _about_repetitions(ledger: Ledger, evidence: Evidence) -> Iterator[BrokenPromise]:
    for repetition in ledger.unexplained:
        at = repetition.pairs[0][0].started_at - evidence.began
        detail = f"the request at {at:+.3f} is beyond what is on record, and no fault hit its daemon then"
        yield BrokenPromise(What.UNEXPLAINED, repetition.case, detail)


def _told(broken: Sequence[BrokenPromise], historian: Historian) -> Iterator[Violation]:
    sorts = Counter(promise.what for promise in broken)
    share = MOST_HISTORIES // max(1, len(sorts))
    told: Counter[What] = Counter()
    for promise in broken:
        event = promise.case.event
        told[promise.what] += 1
        history = (
            historian.history(event.id, None if promise.other is None else promise.other.event.id)
            if told[promise.what] <= share
            else ()
        )
        yield Violation(promise.what, event.merchant_id, event.id, promise.detail, history)


def _overdrawn(ledger: Ledger, injections: Injections, historian: Historian) -> Iterator[Violation]:
    for one in injections:
        given = ledger.taken.get(one.number, [])
        if given and not one.has_room(len(given) - 1):
            last = given[-1].case.event
            detail = (
                f"fault {one.number} ({one.kind}) cost {len(given)} repetitions; {one.exposed} were exposed"
            )
            yield Violation(
                What.TOO_MANY_DUPLICATES, last.merchant_id, last.id, detail, historian.history(last.id)
            )


def _extra(repetition: Repetition) -> Extra:
    earlier, later = repetition.pairs[0]
    return Extra(
        event_id=repetition.case.event.id,
        merchant_id=repetition.case.merchant_id,
        earlier=earlier.started_at,
        later=None if later is None else later.started_at,
        injection=None if repetition.injection is None else repetition.injection.number,
    )


def _figures(injections: Injections, ledger: Ledger, recoveries: Mapping[int, float]) -> list[KindFigures]:
    by_kind: defaultdict[str, list[Injection]] = defaultdict(list)
    for one in injections:
        by_kind[one.kind].append(one)
    counts = ledger.counts()
    return [
        KindFigures(
            kind=kind,
            repeats=those[0].repeats,
            injections=len(those),
            phases={phase: sum(one.phases.get(phase, 0) for one in those) for phase in Phase},
            exposed=sum(one.exposed for one in those if one.repeats == "exposed"),
            extras=sum(counts[one.number] for one in those),
            worst_extras=max(counts[one.number] for one in those),
            worst_spent=max(
                (
                    counts[one.number] / one.exposed
                    for one in those
                    if one.exposed and one.repeats == "exposed"
                ),
                default=None,
            ),
            recoveries=[recoveries[one.number] for one in those if one.number in recoveries],
        )
        for kind, those in sorted(by_kind.items())
    ]
