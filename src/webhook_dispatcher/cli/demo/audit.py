"""Compares what the receiver saw with what the producer wrote and what the database says."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from webhook_dispatcher.cli.demo import cast
from webhook_dispatcher.cli.demo.stage import Stage
from webhook_dispatcher.domain.delivery import DeliveryView
from webhook_dispatcher.domain.event import TEST_EVENT_TYPE, FailedReason, State
from webhook_dispatcher.local.arrivals import Arrival, Signature, out_of_order, overlapping
from webhook_dispatcher.local.producer import Written
from webhook_dispatcher.storage.administration import DeliveryFilter

MAX_DELIVERIES = 1_000_000


async def deliveries(stage: Stage) -> dict[str, DeliveryView]:
    """Read all deliveries but tests, by event id."""
    found = await stage.admin.list_deliveries(DeliveryFilter(limit=MAX_DELIVERIES))
    return {str(delivery.event_id): delivery for delivery in found if delivery.type != TEST_EVENT_TYPE}


def judge_schedule(found: Iterable[DeliveryView]) -> list[str]:
    """Say which deliveries did not end as the schedule alone must let them end."""
    recovers = {merchant.id: merchant.recovers for merchant in cast.MERCHANTS}
    return [
        f"{delivery.merchant_id}: event {delivery.event_id} is {delivery.state} ({delivery.failed_reason}) "
        f"after {delivery.attempts} attempts"
        for delivery in found
        if (delivery.state, delivery.failed_reason, delivery.attempts)
        != (
            (State.DELIVERED, None, delivery.attempts)
            if recovers[delivery.merchant_id]
            else (State.FAILED, FailedReason.EXHAUSTED, cast.ATTEMPTS)
        )
    ]


def judge_end(found: Iterable[DeliveryView], cancelled: set[str]) -> list[str]:
    """Say which deliveries are not as the control commands must have left them."""
    return [
        f"{delivery.merchant_id}: event {delivery.event_id} is {delivery.state} "
        f"({delivery.failed_reason}) at the end"
        for delivery in found
        if (delivery.state, delivery.failed_reason)
        != (
            (State.FAILED, FailedReason.CANCELLED)
            if str(delivery.event_id) in cancelled
            else (State.DELIVERED, None)
        )
    ]


def judge_arrivals(
    stage: Stage, found: dict[str, DeliveryView], cancelled: set[str], arrivals: Sequence[Arrival]
) -> list[str]:
    """Say what is wrong with what the receiver saw: missing, repeated, altered, unsigned, out of order."""
    placed = [dataclasses.replace(arrival, merchant_id=stage.merchant_of(arrival)) for arrival in arrivals]
    problems = [
        f"{arrival.merchant_id}: event {arrival.event_id} came with a signature that is {arrival.signature}"
        for arrival in placed
        if arrival.signature is not Signature.RIGHT
    ]
    by_event: defaultdict[str, list[Arrival]] = defaultdict(list)
    for arrival in placed:
        if arrival.type != TEST_EVENT_TYPE:
            by_event[arrival.event_id].append(arrival)
    written = stage.written
    problems += [f"event {event_id} is in the database only" for event_id in found.keys() - written.keys()]
    problems += [
        f"event {event_id} reached the receiver only" for event_id in by_event.keys() - written.keys()
    ]
    for event_id, event in written.items():
        problems += _judge_event(
            event, found.get(event_id), by_event.get(event_id, []), event_id in cancelled
        )
    seq_of = {event_id: event.seq for event_id, event in written.items()}
    known = [arrival for arrival in placed if arrival.event_id in seq_of]
    problems += [
        f"{after.merchant_id}: event {after.event_id} was first sent after {before.event_id}, "
        "against the order"
        for before, after in out_of_order(known, seq_of)
    ]
    problems += [
        f"{after.merchant_id}: event {after.event_id} was first sent before the first attempt of "
        f"{before.event_id} had ended"
        for before, after in overlapping(known)
    ]
    return problems


def _judge_event(
    event: Written, delivery: DeliveryView | None, arrivals: Sequence[Arrival], is_cancelled: bool
) -> list[str]:
    name = f"{event.merchant_id}: event {event.id}"
    if delivery is None:
        return [f"{name} is not in the database"]
    problems = []
    if is_cancelled and arrivals:
        problems.append(f"{name} was cancelled and sent all the same")
    if len(arrivals) != delivery.attempts:
        problems.append(f"{name} arrived {len(arrivals)} times, with {delivery.attempts} attempts recorded")
    if sum(arrival.status is not None and 200 <= arrival.status <= 299 for arrival in arrivals) > 1:
        problems.append(f"{name} was accepted more than once")
    if any(not _is_body_of(event, arrival.body) for arrival in arrivals):
        problems.append(f"{name} arrived with another body than was written")
    return problems


def _is_body_of(event: Written, body: bytes) -> bool:
    """Tell whether a body is that event's, with the producer's text byte for byte."""
    if not body.endswith(b'"data":{"object":' + event.object.encode() + b"}}"):
        return False
    document = json.loads(body)
    return bool(
        set(document) == {"id", "type", "createdAt", "data"}
        and (document["id"], document["type"]) == (str(event.id), event.type)
    )
