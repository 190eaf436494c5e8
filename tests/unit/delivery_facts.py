"""Everything that may be known of a delivery, as hypothesis makes it up; texts of others may be hostile."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from hypothesis import strategies as st

from tests.unit.builders import NOW
from webhook_dispatcher.diagnosis.explanation import Rules
from webhook_dispatcher.domain.command import CommandFacts, CommandName, CommandStatus
from webhook_dispatcher.domain.delivery import (
    AttemptView,
    Circumstances,
    DeliveryFacts,
    EventFacts,
    Neighbour,
    Pause,
    Surroundings,
)
from webhook_dispatcher.domain.endpoint import EndpointChange
from webhook_dispatcher.domain.event import FailedReason, State, Trigger
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.verdict import Outcome

HOSTILE = ["m1", "{at}", "{0.__class__}", "{", "}}", "<b>x</b>", "\x1b[2J", "\u202eevil", "it's", "%s", "м"]
EVENT = UUID("0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11")
AROUND = Circumstances(
    NOW,
    False,
    "https://m1/",
    None,
    False,
    False,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    0,
)
"""A merchant of whom there is nothing to say."""

texts = st.sampled_from(HOSTILE)
instants = st.integers(-200_000, 100_000).map(lambda seconds: NOW + timedelta(seconds=seconds))
maybe_instants = st.none() | instants
statuses = st.none() | st.sampled_from([200, 401, 503])
outcomes = st.sampled_from([*Outcome, "new_outcome"]).map(str)
attempts = st.builds(
    AttemptView, attempt=st.integers(1, 9), trigger=st.sampled_from([*Trigger, "new_trigger"]).map(str),
    started_at=instants, duration_ms=st.integers(0, 100_000), status=statuses, outcome=outcomes,
    reason=st.none() | texts, response_excerpt=st.none() | texts | st.just("x" * 300),
)  # fmt: skip
commands = st.builds(
    CommandFacts,
    id=st.integers(1, 10**9),
    command=st.sampled_from([*CommandName, "new_command"]).map(str),
    requested_by=texts,
    status=st.sampled_from([*CommandStatus, "new_status"]).map(str),
    created_at=instants,
    handled_at=maybe_instants,
)
pauses = st.none() | st.builds(Pause, command_id=st.integers(1, 9), requested_by=texts, handled_at=instants)
circumstances = st.builds(
    Circumstances, now=st.just(NOW), everything_is_paused=st.booleans(), url=st.none() | texts,
    is_paused=st.booleans(), is_held=st.booleans(),
    owner=st.none() | texts, leased_at=maybe_instants, wait_until=maybe_instants,
    endpoint_removed_at=maybe_instants, last_success_at=maybe_instants, failing_since=maybe_instants,
    suspended_at=maybe_instants,
    head_event_id=st.none() | st.just(EVENT), head_seq=st.none() | st.integers(1, 10**9),
    head_created_at=maybe_instants, ahead=st.sampled_from([0, 0, 1, 2, 5, 21, 1_234, 10_000, 10_001]),
    secret_created_at=maybe_instants, at_once=st.none() | st.integers(2, 32),
)  # fmt: skip


def _settled(delivery: DeliveryFacts) -> DeliveryFacts:
    """Give what waits for a retry the time that it then has."""
    if delivery.state != State.PENDING_RETRY:
        return delivery
    return replace(delivery, due_at=delivery.due_at or NOW, finished_at=None)


deliveries = st.builds(
    DeliveryFacts,
    event_id=st.just(EVENT),
    seq=st.integers(1, 10**9),
    merchant_id=texts,
    type=texts,
    created_at=instants,
    state=st.sampled_from(State).map(str),
    failed_reason=st.none() | st.sampled_from([*FailedReason, "new\x1breason"]).map(str),
    attempts=st.integers(0, 25),
    next_attempt_at=maybe_instants,
    last_status=statuses,
    last_outcome=st.none() | outcomes,
    finished_at=maybe_instants,
    charge_id=st.none() | texts,
    due_at=maybe_instants,
    is_claimed=st.booleans(),
    trigger=st.none() | st.sampled_from(Trigger).map(str),
    on_failure=st.none() | st.sampled_from([State.FAILED, State.DELIVERED]).map(str),
    attempts_by_hand=st.integers(0, 9),
    scheduled_at=maybe_instants,
).map(_settled)
neighbours = st.none() | st.builds(
    Neighbour, event_id=st.just(EVENT), seq=st.integers(1, 10**9), started_at=instants, ended_at=instants
)
facts = st.builds(
    EventFacts,
    delivery=deliveries,
    attempts=st.lists(attempts, max_size=3),
    commands=st.lists(commands, max_size=3),
    circumstances=circumstances,
    merchant_pause=pauses,
    general_pause=pauses,
    overtaken_by=neighbours,
    latest=st.lists(attempts, max_size=5),
    predecessor=neighbours,
    unread=st.dictionaries(st.sampled_from(["attempts", "order", "latest attempts"]), texts, max_size=2),
)
rules = st.builds(
    Rules,
    hold=st.sampled_from([timedelta(days=1), timedelta(hours=2)]),
    schedule=st.sampled_from([Schedule(), Schedule(()), Schedule((timedelta(seconds=5),))]),
    secret_fault=st.none() | texts,
    secret_unread=st.none() | texts,
)


changes = st.builds(
    EndpointChange, id=st.integers(1, 9), at=instants, role=texts, person=st.none() | texts,
    action=st.sampled_from(["endpoint set", "secret rotated", "url changed", "something new"]),
    command_id=st.none() | st.integers(1, 9), url_before=st.none() | texts, url_after=st.none() | texts,
)  # fmt: skip
surroundings = st.builds(
    Surroundings,
    commands=st.lists(commands, max_size=2),
    changes=st.lists(changes, max_size=2),
)
