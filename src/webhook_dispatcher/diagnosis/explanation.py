"""What became of an event, what becomes of it next, and what can be done: from facts alone, as data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum

from webhook_dispatcher.diagnosis import reasons
from webhook_dispatcher.diagnosis.amounts import printable
from webhook_dispatcher.diagnosis.said import NOTHING, Fact, Said, Word, said, who
from webhook_dispatcher.domain.command import CommandFacts, CommandName, CommandStatus
from webhook_dispatcher.domain.delivery import (
    MAX_AHEAD,
    AttemptView,
    DeliveryFacts,
    EventFacts,
    Pause,
    Route,
)
from webhook_dispatcher.domain.event import FailedReason, State, Trigger
from webhook_dispatcher.domain.record import ROUTED, UNWANTED
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.status import LostEvent
from webhook_dispatcher.domain.verdict import Outcome

SOON = timedelta(seconds=5)
"""How long a lane may be free, or a retry due, before that is worth a remark."""
SLOW = timedelta(seconds=1)
MAX_EXCERPT = 200
WAITS = said("waits")
_ASKED: Mapping[str, Said] = {Trigger.MANUAL: said("by_hand"), Trigger.REPLAY: said("by_recovery")}
"""Who wanted an attempt that the schedule did not."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What settings of this environment say; those of the dispatchers should be the same.

    secret_fault: why the merchant's secret cannot be opened here; None where it can be, or nobody knows.
    secret_unread: why nobody knows.
    """

    hold: timedelta
    schedule: Schedule
    secret_fault: str | None = None
    secret_unread: str | None = None


class Action(StrEnum):
    """What can be done about a delivery. Those of LOOKS show something; all others take an operator."""

    RESUME_ALL = "resume_all"
    RESUME = "resume"
    TEST_EVENT = "test_event"
    SET_ENDPOINT = "set_endpoint"
    ROTATE_SECRET = "rotate_secret"
    RETRY = "retry"
    RETRY_DELIVERED = "retry_delivered"
    RETRY_ALL_FAILED = "retry_all_failed"
    CANCEL = "cancel"
    PREVIEW_RECOVERY = "preview_recovery"
    LIST_WAITING = "list_waiting"
    CHECK = "check"
    SEE_DISPATCHERS = "see_dispatchers"

    @property
    def is_for_operators(self) -> bool:
        """Tell whether it changes something, so that a viewer may not do it."""
        return self not in LOOKS


LOOKS = (Action.PREVIEW_RECOVERY, Action.LIST_WAITING, Action.CHECK, Action.SEE_DISPATCHERS)


@dataclass(frozen=True, slots=True)
class Advice:
    """What can be done, and what for."""

    said: Said
    action: Action


@dataclass(slots=True)
class Explanation:
    """One delivery explained. why: how it stands, and for what reason. following: what comes, and when.

    route: where its event was routed, if that is told with it.
    """

    delivery: DeliveryFacts
    title: Said
    why: list[Said] = field(default_factory=list)
    attempts: list[Said] = field(default_factory=list)
    following: list[Said] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    route: list[Said] = field(default_factory=list)

    @property
    def account(self) -> list[Said]:
        """Return all that is told of how it stands, in order of time."""
        return [*self.why[:1], *self.route, *self.why[1:]]

    @property
    def gist(self) -> Said:
        """Return the sentence that tells most: for a charge that has many events."""
        telling = [sentence for sentence in self.why[1:] if sentence != WAITS]
        return telling[-1] if self.delivery.state == State.PENDING and telling else self.why[1]


def explain(facts: EventFacts, rules: Rules) -> Explanation:
    """Explain one delivery."""
    delivery = facts.delivery
    told = Explanation(delivery, _title(delivery))
    told.why += [said("written", at=delivery.created_at, ago=_ago(facts, delivery.created_at))]
    told.why += _overtaken(facts)
    match delivery.state:
        case State.PENDING if facts.circumstances.is_routed:
            _explain_routing(facts, rules, told)
        case State.PENDING:
            _explain_pending(facts, rules, told)
        case State.PENDING_RETRY:
            _explain_retry(facts, rules, told)
        case State.DELIVERED:
            _explain_delivered(facts, told)
        case _ if delivery.state == UNWANTED and delivery.finished_at is not None:
            told.why += [said("unwanted", at=delivery.finished_at)]
            told.following += [said("unwanted_stays")]
        case _ if facts.route is not None and delivery.finished_at is not None:
            told.why += [*routed(facts.route, delivery.finished_at)]
            told.following += [said("routed_stays")]
        case _:
            _explain_failed(facts, told)
    told.why += (refused := _refused_since_rotation(facts))
    if refused or (delivery.state == State.FAILED and delivery.last_status == 401):
        told.advice += [Advice(said("to_rotate_secret"), Action.ROTATE_SECRET)]
    told.attempts += [_attempt(attempt) for attempt in facts.attempts]
    told.why += [*_lost_attempts(facts), *(_command(command) for command in facts.commands)]
    told.why += [said("unread", part=Word("part", part), fault=fault) for part, fault in facts.unread.items()]
    return told


def together(pairs: Sequence[tuple[EventFacts, Explanation]]) -> list[tuple[EventFacts, Explanation]]:
    """Tell of an event that was routed to one endpoint with its delivery there, whose id is the event's."""
    copies = {told.delivery.copy_of: told for _, told in pairs}
    kept = []
    for facts, event in pairs:
        is_one = facts.route is not None and len(facts.route.to) == 1
        delivery = copies.get(facts.delivery.event_id) if is_one else None
        if delivery is None:
            kept.append((facts, event))
        else:
            delivery.route = event.why[1:]
    return kept


def unknown(
    subject: str,
    kept_since: date | None,
    commands: Sequence[CommandFacts],
    lost: LostEvent | None = None,
) -> list[Said]:
    """Say what may have become of an event or charge that is not found."""
    told = [said("unknown", subject=repr(printable(subject)))]
    if lost is not None:
        key = "unknown_since_delivered" if lost.is_delivered else "unknown_since_sent"
        return [*told, said(key, merchant=lost.merchant_id, at=lost.sent_at, noted=lost.noted_at)]
    if commands:
        asked = commands[-1]
        told += [
            said(
                "unknown_once_here",
                number=str(asked.id),
                command=Word("command", asked.command, is_code=True),
                person=asked.requested_by,
                at=asked.created_at,
            )
        ]
    if kept_since is not None:
        told += [said("unknown_kept_since", day=kept_since)]
    return [*told, said("unknown_uncommitted")]


def result(outcome: str | None, status: int | None, is_code: bool = True) -> Said:
    """Say how an attempt ended. is_code: English names the outcome as the database does."""
    if outcome in (None, Outcome.STATUS):
        return said("result_status", status="-" if status is None else str(status))
    how = Word("outcome", outcome, is_code)
    return (
        said("result", outcome=how)
        if status is None
        else said("result_with_status", outcome=how, status=str(status))
    )


def routed(route: Route, at: datetime) -> list[Said]:
    """Say to which endpoints an event was routed, and which did not want it."""
    told = [said("routed", at=at, count=len(route.to), to=tuple(map(str, route.to)))]
    if route.unwanted_by:
        by = tuple(map(str, route.unwanted_by))
        told.append(said("routed_unwanted", count=len(by), by=by))
    return told


def _who(delivery: DeliveryFacts) -> Fact:
    return who(delivery.merchant_id, delivery.endpoint)


def _title(delivery: DeliveryFacts) -> Said:
    facts: dict[str, Fact] = {
        "event": delivery.event_id,
        "type": delivery.type,
        "merchant": _who(delivery),
        "number": str(delivery.seq),
    }
    if delivery.charge_id:
        return said("title_of_charge", charge=delivery.charge_id, **facts)
    return said("title", **facts)


def _overtaken(facts: EventFacts) -> list[Said]:
    later = facts.overtaken_by
    if later is None:
        return []
    return [said("overtaken", number=str(later.seq), event=later.event_id, at=later.started_at)]


# What waits for its first attempt.


def _explain_routing(facts: EventFacts, rules: Rules, told: Explanation) -> None:
    told.why += [said("waits_for_routing")]
    is_barred = _add_barriers(facts, rules, told)
    if not is_barred and not facts.circumstances.is_held:
        _explain_free_lane(facts, told)
    told.following += [*_after_barriers(facts, is_barred), said("routed_next")]
    told.advice += [_CANCEL]


def _explain_pending(facts: EventFacts, rules: Rules, told: Explanation) -> None:
    now = facts.circumstances
    told.why += [WAITS]
    is_barred = _add_barriers(facts, rules, told)
    if now.ahead:
        _explain_turn(facts, told)
        told.advice += [] if is_barred else _advise_on_merchant(facts)
    elif now.is_held:
        told.why += [said("held", holder=_holder(facts), attempt=_in_flight(facts, "in_flight"))]
    elif not is_barred:
        _explain_free_lane(facts, told)
    told.following += [*_after_barriers(facts, is_barred), _schedule_ahead(rules)]
    told.advice += [_CANCEL]


def _explain_turn(facts: EventFacts, told: Explanation) -> None:
    """Say what comes before it: a merchant's events, or a charge's, are attempted one after the other."""
    now, counted = facts.circumstances, min(facts.circumstances.ahead, MAX_AHEAD)
    if now.at_once is not None:
        told.why += [said("ahead_by_charge", events=counted, at_once=now.at_once)]
    else:
        key = "ahead_or_more" if now.ahead >= MAX_AHEAD else "ahead"
        told.why += [said(key, count=counted, merchant=_who(facts.delivery))]
    if now.head_seq is not None and now.head_created_at is not None:
        told.why += [
            said(
                "first_ahead", number=str(now.head_seq), event=str(now.head_event_id), at=now.head_created_at
            )
        ]
    if now.is_held:
        told.why += [said("held_ahead", holder=_holder(facts), attempt=_in_flight(facts, "in_flight_ahead"))]
    if pace := _pace(facts):
        told.why += [said("pace", count=len(facts.latest), outcomes=_outcomes(facts), pace=pace)]
        told.following += [said("turn", wait=pace * now.ahead / (now.at_once or 1))]


def _advise_on_merchant(facts: EventFacts) -> list[Advice]:
    return [
        Advice(said("to_test"), Action.TEST_EVENT),
        Advice(said("to_list_waiting", merchant=facts.delivery.merchant_id), Action.LIST_WAITING),
    ]


def _explain_free_lane(facts: EventFacts, told: Explanation) -> None:
    now = facts.circumstances
    if now.wait_until is not None and now.wait_until > now.now:
        told.why += [said("rests", until=now.wait_until)]
        told.advice += [Advice(said("to_see_faults"), Action.CHECK)]
        return
    told.why += [said("free")]
    if now.now - facts.delivery.created_at > SOON:
        told.why += [said("free_for_long")]
        told.advice += [Advice(said("to_see_dispatchers"), Action.SEE_DISPATCHERS)]


def _in_flight(facts: EventFacts, key: str) -> Said:
    """Say since when the lane's attempt is in flight: since the lease, or the end of the one before it."""
    now = facts.circumstances
    ends = [attempt.ended_at for attempt in facts.latest if attempt.attempt == 1]
    known = [instant for instant in (now.leased_at, *ends[:1]) if instant is not None]
    if not known:
        return said(key)
    since = max(known)
    return said(f"{key}_since", at=since, ago=_ago(facts, since))


def _holder(facts: EventFacts) -> Said:
    now = facts.circumstances
    owner = _text(now.owner)
    if now.leased_at is None:
        return said("holder", owner=owner)
    return said("holder_since", owner=owner, at=now.leased_at)


def _pace(facts: EventFacts) -> timedelta | None:
    """Return what the latest attempts took on average, where that is worth a word."""
    if not facts.latest:
        return None
    pace = timedelta(milliseconds=sum(attempt.duration_ms for attempt in facts.latest)) / len(facts.latest)
    return pace if pace >= SLOW else None


def _outcomes(facts: EventFacts) -> tuple[Said, ...]:
    counts = Counter(attempt.outcome for attempt in facts.latest)
    return tuple(
        said("count_of", count=count, outcome=Word("outcome", outcome, is_code=True))
        for outcome, count in counts.most_common()
    )


# What may keep any event that is owed.


def _add_barriers(facts: EventFacts, rules: Rules, told: Explanation) -> bool:
    """Say what keeps the event from being sent at all; tell whether anything does."""
    before = len(told.why)
    now = facts.circumstances
    if now.everything_is_paused:
        told.why += [said("all_paused", by=_by(facts, facts.general_pause))]
        told.advice += [Advice(said("to_resume_all"), Action.RESUME_ALL)]
    if now.is_paused:
        told.why += [said("paused", merchant=_who(facts.delivery), by=_by(facts, facts.merchant_pause))]
        told.advice += [Advice(said("to_resume"), Action.RESUME)]
    if now.suspended_at is not None:
        told.why += [_suspended(facts, now.suspended_at)]
        told.advice += [
            Advice(said("to_test_suspended"), Action.TEST_EVENT),
            Advice(said("to_resume_suspended"), Action.RESUME),
        ]
    if now.is_routed:
        return len(told.why) > before
    if now.url is None:
        told.why += [_missing_endpoint(facts, rules)]
        is_first = (facts.delivery.endpoint or 1) == 1
        told.advice += [Advice(said("to_give_endpoint"), Action.SET_ENDPOINT)] if is_first else []
    elif rules.secret_fault is not None and not now.is_held:
        told.why += [said("secret_unopened", merchant=_who(facts.delivery), fault=rules.secret_fault)]
        told.advice += [Advice(said("to_see_keys"), Action.CHECK)]
    is_barred = len(told.why) > before
    if rules.secret_unread is not None and now.url is not None and not is_barred and not now.is_held:
        told.why += [said("secret_unread", merchant=_who(facts.delivery), fault=rules.secret_unread)]
    return is_barred


def _suspended(facts: EventFacts, suspended_at: datetime) -> Said:
    now = facts.circumstances
    since: dict[str, Fact] = {
        "merchant": _who(facts.delivery),
        "at": suspended_at,
        "ago": _ago(facts, suspended_at),
    }
    if now.wait_until is None or now.wait_until <= now.now:
        return said("suspended_due", **since)
    return said("suspended", next_at=now.wait_until, **since)


def _missing_endpoint(facts: EventFacts, rules: Rules) -> Said:
    now, created_at = facts.circumstances, facts.delivery.created_at
    removed_at = now.endpoint_removed_at
    ends_at = created_at + rules.hold
    if removed_at is not None and created_at <= removed_at:
        return said("endpoint_removed", merchant=_who(facts.delivery), at=removed_at)
    if ends_at <= now.now:
        return said("endpoint_missed", merchant=_who(facts.delivery), until=ends_at)
    return said("endpoint_awaited", merchant=_who(facts.delivery), until=ends_at, hold=rules.hold)


def _after_barriers(facts: EventFacts, is_barred: bool) -> list[Said]:
    """Say when it goes on; only first attempts have an order."""
    now = facts.circumstances
    if now.everything_is_paused or now.is_paused:
        when = said("when_resumed")
    elif now.suspended_at is not None:
        when = said("when_accepted")
    elif is_barred:
        when = said("when_mended")
    else:
        return []
    key = "goes_on" if facts.delivery.state == State.PENDING else "is_attempted"
    return [said(key, when=_once_due(facts, when))]


def _once_due(facts: EventFacts, when: Said) -> Said:
    """Say when a barrier ends; a retry that is not due by then waits for its time."""
    due_at = facts.delivery.due_at
    is_later = due_at is not None and due_at > facts.circumstances.now
    return said("not_before_due", when=when) if is_later else when


def _by(facts: EventFacts, pause: Pause | None) -> Said:
    if pause is None:
        return said("paused_otherwise")
    return said(
        "paused_by",
        at=pause.handled_at,
        ago=_ago(facts, pause.handled_at),
        person=pause.requested_by,
        command=str(pause.command_id),
    )


# What waits for a retry.


def _explain_retry(facts: EventFacts, rules: Rules, told: Explanation) -> None:
    delivery = facts.delivery
    assert delivery.due_at is not None
    if delivery.is_claimed and delivery.due_at > facts.circumstances.now:
        told.why += [said("retry_claimed", until=delivery.due_at, **_retry_facts(delivery))]
    else:
        told.why += [_waiting_retry(facts, delivery.due_at)]
        is_barred = _add_barriers(facts, rules, told)
        told.following += [*_after_barriers(facts, is_barred)]
        told.advice += [] if is_barred else [Advice(said("to_retry_now"), Action.RETRY)]
    told.following += [following_retries(facts, rules)]
    told.advice += [_CANCEL]


def _retry_facts(delivery: DeliveryFacts) -> dict[str, Fact]:
    is_by_hand = delivery.trigger == Trigger.MANUAL
    return {
        "number": str(delivery.attempts + 1),
        "by_hand": said("asked_by_hand") if is_by_hand else NOTHING,
    }


def _waiting_retry(facts: EventFacts, due_at: datetime) -> Said:
    delivery, now = facts.delivery, facts.circumstances
    if delivery.is_claimed:
        return said("retry_lost", until=due_at, **_retry_facts(delivery))
    failed = said(
        "attempt_failed",
        number=str(delivery.attempts),
        result=result(delivery.last_outcome, delivery.last_status),
    )
    if due_at <= now.now:
        return said("retry_due", failed=failed, at=due_at, **_retry_facts(delivery))
    return said("retry_waits", failed=failed, at=due_at, wait=due_at - now.now, **_retry_facts(delivery))


def following_retries(facts: EventFacts, rules: Rules) -> Said:
    """Say what follows should the next retry fail."""
    delivery, number = facts.delivery, facts.delivery.attempts + 1
    if delivery.on_failure == State.FAILED:
        return said("once_by_hand")
    if delivery.trigger == Trigger.MANUAL and delivery.scheduled_at is not None:
        return said("beside_schedule", number=str(number), next=str(number + 1), at=delivery.scheduled_at)
    delay = rules.schedule.delay_after(number - delivery.attempts_by_hand)
    if delay is None:
        return said("last_attempt", number=str(number))
    last = len(rules.schedule.delays) + 1 + delivery.attempts_by_hand
    return said("next_attempt", number=str(number), next=str(number + 1), delay=delay, last=str(last))


def _schedule_ahead(rules: Rules) -> Said:
    delays = tuple(rules.schedule.delays)
    return said("retries", delays=delays) if delays else said("no_retries")


# What is over.


def _explain_delivered(facts: EventFacts, told: Explanation) -> None:
    delivery = facts.delivery
    successes = [attempt for attempt in facts.attempts if attempt.outcome == Outcome.DELIVERED]
    if successes:
        first = successes[0]
        took = first.ended_at - delivery.created_at
        told.why += [said("delivered_by", at=first.ended_at, number=str(first.attempt), took=took)]
    elif delivery.finished_at is not None:
        told.why += [said("delivered", at=delivery.finished_at)]
    if len(successes) > 1:
        told.why += [_repeated(successes)]
    if delivery.finished_at is None:
        told.why += [said("sent_again", cause=_ASKED.get(delivery.trigger or "", _ASKED[Trigger.MANUAL]))]
        told.following += [_once_more(facts)]
        return
    told.following += [said("finished")]
    told.advice += [*_resuming(facts), Advice(said("to_send_again"), Action.RETRY_DELIVERED)]


def _repeated(successes: list[AttemptView]) -> Said:
    again = {attempt.trigger for attempt in successes[1:]}
    asked = tuple(words for trigger, words in _ASKED.items() if trigger in again)
    return said("repeated", count=len(successes), cause=asked or said("by_lost_lease"))


def _once_more(facts: EventFacts) -> Said:
    due_at = facts.delivery.due_at
    if due_at is None or due_at <= facts.circumstances.now or facts.delivery.is_claimed:
        return said("again_now")
    return said("again_due", at=due_at)


def _refused_since_rotation(facts: EventFacts) -> list[Said]:
    """Say so where the merchant accepted until its secret was replaced, and has answered 401 ever since."""
    now, state = facts.circumstances, facts.delivery.state
    at, accepted_at, failing_since = now.secret_created_at, now.last_success_at, now.failing_since
    if (
        state in (State.DELIVERED, UNWANTED, ROUTED)
        or at is None
        or accepted_at is None
        or failing_since is None
    ):
        return []
    since = [attempt for attempt in facts.latest if attempt.started_at >= at]
    if not accepted_at < at <= failing_since or not since or any(made.status != 401 for made in since):
        return []
    return [said("refused_since_rotation", merchant=_who(facts.delivery), at=at)]


def _explain_failed(facts: EventFacts, told: Explanation) -> None:
    delivery = facts.delivery
    because = failed_because(facts)
    told.why += [
        said("failed", because=because)
        if delivery.finished_at is None
        else said("failed_at", at=delivery.finished_at, because=because)
    ]
    if (delivery.endpoint or 1) > 1 and facts.circumstances.url is None:
        told.following += [said("endpoint_gone", number=delivery.endpoint or 1)]
        return
    told.following += [said("nothing_by_itself")]
    if delivery.failed_reason == FailedReason.NOT_CONFIGURED and facts.circumstances.url is None:
        told.advice += [Advice(said("to_give_endpoint_first"), Action.SET_ENDPOINT)]
    if delivery.failed_reason != FailedReason.UNSENDABLE:
        told.advice += [*_resuming(facts), Advice(said("to_retry_failed"), Action.RETRY)]
    if delivery.failed_reason == FailedReason.EXHAUSTED:
        told.advice += [
            Advice(said("to_retry_all_failed"), Action.RETRY_ALL_FAILED),
            Advice(said("to_recover"), Action.PREVIEW_RECOVERY),
        ]


def failed_because(facts: EventFacts) -> Said:
    """Say why a delivery failed for good."""
    delivery = facts.delivery
    match delivery.failed_reason:
        case FailedReason.EXHAUSTED:
            last = result(delivery.last_outcome, delivery.last_status)
            if delivery.attempts > 1:
                return said("because_exhausted", count=delivery.attempts, last=last)
            return said("because_of_one", last=last)
        case FailedReason.NOT_CONFIGURED:
            return said("because_not_configured")
        case FailedReason.UNSENDABLE:
            return said("because_unsendable")
        case FailedReason.CANCELLED:
            return _cancelled(facts)
        case FailedReason.SKIPPED:
            return said("because_skipped", count=delivery.attempts)
        case reason:
            return said("because_otherwise", reason=_text(reason))


def _cancelled(facts: EventFacts) -> Said:
    done = [c for c in facts.commands if c.command == CommandName.CANCEL and c.status == CommandStatus.DONE]
    count = facts.delivery.attempts
    if not done:
        return said("because_cancelled", count=count)
    return said("because_cancelled_by", count=count, person=done[-1].requested_by, command=str(done[-1].id))


# What several of them say.


def _attempt(attempt: AttemptView) -> Said:
    excerpt = attempt.response_excerpt
    return said(
        "attempt",
        number=str(attempt.attempt),
        at=attempt.started_at,
        took=timedelta(milliseconds=attempt.duration_ms),
        asked=asked(attempt, "attempt_asked"),
        result=result(attempt.outcome, attempt.status),
        reason=said("attempt_reason", reason=reasons.read(attempt.reason)) if attempt.reason else NOTHING,
        answer=said("attempt_answer", excerpt=excerpt[:MAX_EXCERPT]) if excerpt else NOTHING,
    )


def asked(attempt: AttemptView, key: str) -> Fact:
    """Say who wanted an attempt that the schedule did not; key: of the words around that."""
    who = _ASKED.get(attempt.trigger)
    return NOTHING if who is None else said(key, asked=who)


def _lost_attempts(facts: EventFacts) -> list[Said]:
    """Say that attempts are missing from the log: their day was dropped before the delivery's."""
    if "attempts" in facts.unread:
        return []
    missing = facts.delivery.attempts - len({attempt.attempt for attempt in facts.attempts})
    return [said("attempts_gone", count=missing)] if missing > 0 else []


def _command(command: CommandFacts) -> Said:
    return said(
        "command",
        person=command.requested_by,
        command=Word("command", command.command, is_code=True),
        at=command.created_at,
        number=str(command.id),
        status=Word("command_status", command.status, is_code=True),
    )


_CANCEL = Advice(said("to_cancel"), Action.CANCEL)


def _resuming(facts: EventFacts) -> list[Advice]:
    """Advise what must precede a retry, which is refused while the merchant is suspended."""
    if facts.circumstances.suspended_at is None:
        return []
    return [Advice(said("to_resume_first"), Action.RESUME)]


def _text(value: str | None) -> str:
    return "-" if value is None else value


def _ago(facts: EventFacts, instant: datetime) -> timedelta:
    return facts.circumstances.now - instant
