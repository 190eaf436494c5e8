"""I1 and B: how each event ended, how often it was tried, and what was sent of it."""

from collections.abc import Iterator

from lab.chaos.cases import Case
from lab.chaos.commands import Commands
from lab.chaos.evidence import UNPROVEN, Delivery, Evidence
from lab.chaos.labels import merchant_of
from lab.chaos.order import BrokenPromise
from lab.chaos.verdict import What
from webhook_dispatcher.domain.event import FailedReason, State, Trigger
from webhook_dispatcher.local.arrivals import Arrival, Signature


def ending(case: Case, evidence: Evidence, commands: Commands) -> Iterator[BrokenPromise]:
    """Find out whether an event was lost, is stuck, or ended for no legal reason."""
    if case.event.id in evidence.deleted:
        return
    delivery = case.delivery
    is_asked_for = case.by_hand > 0 or case.replayed > 0
    if case.is_wanted is False and not is_asked_for and (case.arrivals or case.attempted):
        yield BrokenPromise(What.UNWANTED, case, "its endpoint's filter leaves out its type")
    if case.event.id in evidence.unwanted:
        if case.is_wanted:
            yield BrokenPromise(What.PASSED_OVER, case, "it is in the log without a state")
    elif delivery is None:
        yield BrokenPromise(What.LOST, case, "there is no row of it, neither owed nor finished")
    elif delivery.state == State.DELIVERED:
        if not any(arrival.status is not None and 200 <= arrival.status <= 299 for arrival in case.arrivals):
            yield BrokenPromise(
                What.UNACCEPTED, case, "it is delivered, and no request of it was answered with 2xx"
            )
    elif delivery.state == State.FAILED:
        fault = _unfounded(case, delivery, evidence, commands)
        if fault is not None:
            yield BrokenPromise(What.UNFOUNDED_END, case, fault)
    else:
        yield BrokenPromise(What.STUCK, case, f"it is still {delivery.state} at the end")


def misrouted(case: Case, evidence: Evidence) -> Iterator[BrokenPromise]:
    """Find events that were routed to an endpoint that was not there."""
    if case.delivery is not None and evidence.there.get(case.event.id) is False:
        yield BrokenPromise(What.UNWANTED, case, "its endpoint was not there when it was routed")


def _unfounded(case: Case, delivery: Delivery, evidence: Evidence, commands: Commands) -> str | None:
    match delivery.failed_reason:
        case FailedReason.CANCELLED if case.event.id in evidence.cancelled:
            return None
        case FailedReason.NOT_CONFIGURED if case.merchant_id in evidence.unconfigured:
            return None
        case FailedReason.SKIPPED if commands.skipping(case.merchant_id, delivery):
            return None
        case FailedReason.EXHAUSTED:
            may_be_short = bool(commands.skips_of(case.merchant_id)) or _may_be_short(case, evidence)
            return _unexhausted(case, evidence, may_be_short)
        case reason:
            return f"it is failed as {reason}, which nobody brought about"


def _may_be_short(case: Case, evidence: Evidence) -> bool:
    return case.is_test or case.event.id in evidence.cancelled or case.merchant_id in evidence.unconfigured


def _unexhausted(case: Case, evidence: Evidence, may_be_short: bool) -> str | None:
    numbers = {row.attempt for row in case.attempted if row.trigger == "schedule"}
    if len(numbers) >= evidence.limits.attempts:
        return None
    # One attempt by hand of what had failed for another reason, or of a test: failed again, as exhausted.
    if case.by_hand and may_be_short and any(row.trigger == "manual" for row in case.attempted):
        return None
    return (
        f"it is exhausted after {len(numbers)} attempts by schedule on record of {evidence.limits.attempts}"
    )


def attempts(case: Case, repeated: int, evidence: Evidence) -> Iterator[BrokenPromise]:
    """Find events that were tried too often. repeated: its requests that faults are to blame for."""
    if case.delivery is None:
        return  # lost or deleted: what was repeated is not known either
    most = evidence.limits.attempts
    numbers: dict[str, set[int]] = {"schedule": set(), "manual": set(), "replay": set()}
    for row in case.attempted:
        # What a failover has lost may be what asked for an attempt that was written after it.
        if row.trigger == Trigger.SCHEDULE or not case.losses.forget(row.started_at):
            numbers.setdefault(row.trigger, set()).add(row.attempt)
    scheduled = len(numbers["schedule"])
    if scheduled > most:
        yield BrokenPromise(
            What.TOO_MANY_ATTEMPTS, case, f"{scheduled} attempts by schedule on record; {most} are due"
        )
    elif len(case.arrivals) - case.resent > most + case.by_hand + case.replayed + case.late + repeated:
        yield BrokenPromise(
            What.TOO_MANY_ATTEMPTS,
            case,
            f"{len(case.arrivals)} requests: {most} are due, {case.by_hand + case.replayed} were asked for "
            f"by command, and faults explain {repeated}",
        )
    by_hand = len(numbers["manual"])
    if by_hand > case.by_hand:
        yield BrokenPromise(
            What.UNASKED, case, f"{by_hand} attempts by hand on record; {case.by_hand} were asked for"
        )
    replayed = len(numbers["replay"])
    if replayed > case.replayed:
        yield BrokenPromise(
            What.UNASKED, case, f"{replayed} replays on record; recoveries account for {case.replayed}"
        )


def contents(case: Case) -> Iterator[BrokenPromise]:
    """Find requests that are not signed, went astray, or do not carry the producer's text byte for byte."""
    sent = [*case.forgotten, *case.arrivals]
    wrong = [arrival for arrival in sent if arrival.signature is not Signature.RIGHT]
    if wrong:
        yield BrokenPromise(
            What.WRONG_SIGNATURE, case, f"{len(wrong)} requests; the first: {wrong[0].signature}"
        )
    astray = [
        arrival
        for arrival in sent
        if arrival.merchant_id != case.merchant_id and not _may_have_been_for(case, arrival)
    ]
    if astray:
        yield BrokenPromise(What.WRONG_MERCHANT, case, f"it went to {astray[0].merchant_id}")
    if any(UNPROVEN in arrival.headers for arrival in sent):
        yield BrokenPromise(
            What.UNPROVEN, case, "its receiver's certificate was expired, or another authority's"
        )
    if not sent:
        return
    body = sent[0].body
    if any(arrival.body != body for arrival in sent):
        yield BrokenPromise(What.WRONG_BODY, case, "its requests differ from each other")
    begin = f'{{"id":"{case.event.own_id}","type":"{case.event.type}","createdAt":"'.encode()
    end = f'"data":{{"object":{case.event.object}}}}}'.encode()
    if not (body.startswith(begin) and body.endswith(end)):
        yield BrokenPromise(
            What.WRONG_BODY, case, "it is not the producer's text byte for byte in the contract's frame"
        )


def _may_have_been_for(case: Case, arrival: Arrival) -> bool:
    """Tell whether a request was for an endpoint of its merchant that a failover may have lost too."""
    if merchant_of(arrival.merchant_id) != merchant_of(case.merchant_id):
        return False
    return case.losses.forget(arrival.started_at) or case.losses.take(arrival)


def answers(case: Case) -> Iterator[BrokenPromise]:
    """Find answers on record that no request was given: a record is a fact."""
    given = [arrival.status for arrival in case.arrivals]
    by_status: dict[int, set[int]] = {}
    for row in case.attempted:
        if row.status is not None:
            by_status.setdefault(row.status, set()).add(row.attempt)
    for status, numbers in by_status.items():
        if len(numbers) > given.count(status):
            detail = f"{status} is on record {len(numbers)} times, and was given {given.count(status)} times"
            yield BrokenPromise(What.UNGIVEN, case, detail)
