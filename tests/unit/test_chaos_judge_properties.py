"""The judge against random runs: one that went right is clean, and whatever is done to it is found."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.chaos.evidence import Evidence
from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder
from webhook_dispatcher.local.arrivals import Arrival

at_ease = settings(deadline=None)
seeds = st.integers(0, 2**32).map(Random)


def run(random: Random) -> Evidence:
    """Make up a run that went right: merchants refuse and hang, and daemons are killed, now and then."""
    builder = EvidenceBuilder()
    lives = dict.fromkeys((1, 2, 3), 1)
    for merchant in range(random.randint(1, 5)):
        at = free = random.uniform(0, 5)
        for number in range(random.randint(1, 12)):
            at += random.expovariate(2)
            name = f"m{merchant}-{number}"
            builder.event(
                name, at, f"m{merchant}", took=random.uniform(0, 0.05), unsure=random.random() < 0.1
            )
            free = _deliver(builder, name, max(at + 0.06, free), random, lives)
    return builder.evidence()


def _deliver(builder: EvidenceBuilder, name: str, at: float, random: Random, lives: dict[int, int]) -> float:
    """Make an event's attempts; return when its first one has ended."""
    slot = random.choice(list(lives))
    daemon = f"d{slot}.{lives[slot]}"
    if random.random() < 0.1:  # in flight when its daemon is killed
        builder.request(name, at, None, daemon, took=0.1)
        builder.fault("kill -9", at + 0.1, at + 0.2, [daemon], exposed=1)
        lives[slot] += 1
        at += 3.0
        daemon = f"d{slot}.{lives[slot]}"
    first_ended = None
    for attempt in range(1, 9):
        status = random.choice([200, 200, 200, 500, None])
        took = 0.8 if status is None else random.uniform(0.001, 0.3)
        builder.attempt(name, at, status, daemon, took)
        at += took + 0.01
        first_ended = first_ended or at
        if status == 200:
            return first_ended
        at += 0.2 * attempt
    builder.fail(name, "exhausted")
    return first_ended or at


@at_ease
@given(seeds)
def test_a_run_that_went_right_is_clean(random: Random) -> None:
    assert judge(run(random)).violations == []


@at_ease
@given(seeds)
def test_an_event_that_is_dropped_is_lost(random: Random) -> None:
    evidence = run(random)
    dropped = random.choice(evidence.events)
    left = {name: end for name, end in evidence.deliveries.items() if name != dropped.id}
    found = judge(replace(evidence, deliveries=left)).violations
    assert [(one.what, one.event_id) for one in found] == [(What.LOST, dropped.id)]


@at_ease
@given(seeds)
def test_an_event_that_never_arrived_is_not_delivered(random: Random) -> None:
    evidence = run(random)
    dropped = random.choice(evidence.events)
    left = [arrival for arrival in evidence.arrivals if arrival.event_id != dropped.id]
    found = {(one.what, one.event_id) for one in judge(replace(evidence, arrivals=left)).violations}
    is_delivered = evidence.deliveries[dropped.id].state == "delivered"
    assert found <= {(What.UNACCEPTED, dropped.id), (What.UNGIVEN, dropped.id)}
    assert ((What.UNACCEPTED, dropped.id) in found) == is_delivered


@at_ease
@given(seeds)
def test_first_requests_that_are_swapped_are_out_of_order(random: Random) -> None:
    evidence = run(random)
    by_merchant: dict[str, list[str]] = {}
    for event in evidence.events:
        by_merchant.setdefault(event.merchant_id, []).append(event.id)
    ids = random.choice(list(by_merchant.values()))
    known = {event.id: event for event in evidence.events}
    place = random.randrange(len(ids))
    before, after = ids[place - 1], ids[place]
    committed = known[before].committed_at
    if place == 0 or committed is None or committed >= known[after].begun_at:
        return  # they have no order between them
    found = judge(_swapped(evidence, before, after)).violations
    assert (What.OUT_OF_ORDER, after) in {(one.what, one.event_id) for one in found}


def _swapped(evidence: Evidence, before: str, after: str) -> Evidence:
    """Let each of two events' first requests, and what is on record of it, be the other's."""
    firsts = {
        name: next(arrival for arrival in evidence.arrivals if arrival.event_id == name)
        for name in (before, after)
    }
    shift = firsts[after].started_at - firsts[before].started_at

    def moved(arrival: Arrival) -> Arrival:
        by = {before: shift, after: -shift}.get(arrival.event_id, 0.0)
        assert arrival.ended_at is not None
        return replace(arrival, started_at=arrival.started_at + by, ended_at=arrival.ended_at + by)

    ends = dict(evidence.deliveries)
    for name, by in ((before, shift), (after, -shift)):
        rows = [replace(row, started_at=row.started_at + by) for row in ends[name].attempted]
        ends[name] = replace(ends[name], attempted=rows)
    return replace(evidence, arrivals=[moved(arrival) for arrival in evidence.arrivals], deliveries=ends)


@at_ease
@given(seeds)
def test_a_request_that_is_added_is_reported(random: Random) -> None:
    evidence = run(random)
    repeated = random.choice(evidence.arrivals)
    later = random.uniform(0.01, 20)
    added = replace(
        repeated, started_at=repeated.started_at + later, ended_at=repeated.started_at + later + 0.01
    )
    verdict = judge(replace(evidence, arrivals=[*evidence.arrivals, added]))
    assert {one.what for one in verdict.violations} & {What.UNEXPLAINED, What.TOO_MANY_DUPLICATES}
