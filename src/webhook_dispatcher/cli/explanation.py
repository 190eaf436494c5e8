"""What became of an event, and what becomes of it next, in sentences: from facts alone, without a database.

Text that others wrote (merchants, producers, receivers, whoever asked for a command) goes through `shown`.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from webhook_dispatcher.cli.failures import NAME
from webhook_dispatcher.cli.output import shown
from webhook_dispatcher.cli.words import at, listed, plural, span
from webhook_dispatcher.domain.event import FailedReason, State, Trigger
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.administration import AttemptView
from webhook_dispatcher.storage.insight import (
    MAX_AHEAD,
    CommandFacts,
    EventFacts,
    Pause,
)

SOON = timedelta(seconds=5)
"""How long a lane may be free, or a retry due, before that is worth a remark."""
SLOW = timedelta(seconds=1)
MAX_EXCERPT = 200
_ASKED: Mapping[str, str] = {Trigger.MANUAL: "by hand", Trigger.REPLAY: "by a recover"}
"""Who wanted an attempt that the schedule did not."""
_WAITS = "It waits for its first attempt."
_FAILS_NEXT = "it fails as not_configured when a dispatcher looks at it"


@dataclass(frozen=True, slots=True)
class Rules:
    """What settings of this environment say; those of the dispatchers should be the same.

    secret_fault: why the merchant's secret cannot be opened here; None where it can be, or nobody knows.
    """

    hold: timedelta
    schedule: Schedule
    secret_fault: str | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What an operator can do, and what to type for it."""

    text: str
    command: str


@dataclass(slots=True)
class Explanation:
    """One delivery explained. why: how it stands, and for what reason. following: what comes, and when."""

    event_id: str
    title: str
    state: str
    why: list[str] = field(default_factory=list)
    attempts: list[str] = field(default_factory=list)
    following: list[str] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)


def explain(facts: EventFacts, rules: Rules) -> Explanation:
    """Explain one delivery."""
    delivery = facts.delivery
    told = Explanation(str(delivery.event_id), _title(facts), delivery.state)
    told.why += [_written(facts)]
    if facts.overtaken_by is not None:
        told.why += [_overtaken(facts)]
    match delivery.state:
        case State.PENDING:
            _explain_pending(facts, rules, told)
        case State.PENDING_RETRY:
            _explain_retry(facts, rules, told)
        case State.DELIVERED:
            _explain_delivered(facts, told)
        case _:
            _explain_failed(facts, told)
    told.attempts += [_attempt(attempt, delivery.attempts) for attempt in facts.attempts]
    told.why += [*_lost_attempts(facts), *(_command(command) for command in facts.commands)]
    return told


def summary(told: Explanation) -> Iterator[str]:
    """Say in two lines how an event stands: for a charge that has many."""
    yield f"{told.event_id} {told.state}"
    telling = [sentence for sentence in told.why[1:] if sentence != _WAITS]
    yield f"  {telling[-1] if told.state == State.PENDING and telling else told.why[1]}"


def lines(told: Explanation) -> Iterator[str]:
    """Write an explanation as paragraphs and lists; each entry is one."""
    yield told.title
    yield " ".join(told.why)
    if told.attempts:
        yield "Attempts:"
        yield from (f"  {attempt}" for attempt in told.attempts)
    else:
        yield "There is no attempt in the log."
    yield "Next: " + " ".join(told.following)
    for advice in told.advice:
        yield f"{advice.text}:"
        yield f"    {advice.command}"


def unknown(subject: str, kept_since: date | None, commands: list[CommandFacts]) -> str:
    """Say what may have become of an event or charge that is not found."""
    said = [f"no event and no charge {shown(subject)!r} is known here"]
    if commands:
        asked = commands[-1]
        said += [
            f"it was here once: command {asked.id} ({shown(asked.command)}), given by "
            f"{shown(asked.requested_by)} at {at(asked.created_at)}, was about it"
        ]
    if kept_since is not None:
        said += [
            f"finished deliveries are kept since {kept_since}: one that finished before that day has been "
            "dropped by retention, and leaves no trace here"
        ]
    said += [
        "an event whose transaction is not committed cannot be found either; of several databases, "
        "--shard names the one to look in"
    ]
    return "\n".join(said)


def _title(facts: EventFacts) -> str:
    delivery = facts.delivery
    charge = f" of charge {shown(delivery.charge_id)}" if delivery.charge_id else ""
    merchant = shown(delivery.merchant_id)
    what = f"{shown(delivery.type)}{charge}"
    return f"Event {delivery.event_id}: {what}, merchant {merchant}, number {delivery.seq}"


def _written(facts: EventFacts) -> str:
    created_at = facts.delivery.created_at
    return f"It was written at {at(created_at)} ({_ago(facts, created_at)})."


def _overtaken(facts: EventFacts) -> str:
    later = facts.overtaken_by
    assert later is not None
    return (
        f"It was committed late: number {later.seq} of the same merchant (event {later.event_id}) was "
        f"attempted at {at(later.started_at)}, when this one could not be read yet. Such an event is sent as "
        "soon as it can be read, after later ones."
    )


# What waits for its first attempt.


def _explain_pending(facts: EventFacts, rules: Rules, told: Explanation) -> None:
    now = facts.circumstances
    told.why += [_WAITS]
    is_barred = _add_barriers(facts, rules, told)
    if now.ahead:
        _explain_turn(facts, told)
        told.advice += [] if is_barred else _advise_on_merchant(facts)
    elif now.is_held:
        told.why += [f"It is the first in line, and {_holder(facts)}: {_in_flight(facts)}."]
    elif not is_barred:
        _explain_free_lane(facts, told)
    told.following += [*_after_barriers(facts, is_barred), _schedule_ahead(rules)]
    told.advice += [_cancel(facts)]


def _explain_turn(facts: EventFacts, told: Explanation) -> None:
    """Say what comes before it: events of one merchant are first attempted one after the other."""
    now = facts.circumstances
    ahead = f"{MAX_AHEAD:,} or more earlier events" if now.ahead >= MAX_AHEAD else _earlier(now.ahead)
    come = "comes" if now.ahead == 1 else "come"
    told.why += [
        f"{ahead} of {_merchant(facts)} {come} before it: first attempts at one merchant go one after the "
        "other."
    ]
    if now.head_seq is not None and now.head_created_at is not None:
        waiting = f"The first of them is number {now.head_seq} (event {now.head_event_id}), "
        told.why += [waiting + f"written at {at(now.head_created_at)}."]
    if now.is_held:
        told.why += [f"There {_holder(facts)}: {_in_flight(facts, 'the first attempt of that one')}."]
    if pace := _pace(facts):
        told.why += [f"The latest {_outcomes(facts)} took {span(pace)} each on average."]
        told.following += [f"Its turn comes in about {span(pace * now.ahead)}, if that goes on."]


def _advise_on_merchant(facts: EventFacts) -> list[Advice]:
    return [
        Advice("To see what the merchant answers", f"{NAME} test-event {_quoted(facts)}"),
        Advice(f"To see all that waits for {_merchant(facts)}, the oldest first", _list_waiting(facts)),
    ]


def _earlier(count: int) -> str:
    return "1 earlier event" if count == 1 else f"{count:,} earlier events"


def _explain_free_lane(facts: EventFacts, told: Explanation) -> None:
    now = facts.circumstances
    if now.wait_until is not None and now.wait_until > now.now:
        told.why += [
            f"It is the first in line, and the lane rests until {at(now.wait_until)}: a dispatcher could not "
            "open the merchant's secret, or could not read or send the event."
        ]
        told.advice += [Advice("To see what is wrong", f"{NAME} check")]
        return
    told.why += [
        "It is the first in line, and no dispatcher holds the lane: one takes it up within a second."
    ]
    if now.now - facts.delivery.created_at > SOON:
        told.why += ["That takes longer already: dispatchers may be stopped, or busy with others."]
        told.advice += [Advice("To see who works, and what is wrong", f"{NAME} status; {NAME} check")]


def _in_flight(facts: EventFacts, which: str = "its first attempt") -> str:
    """Say since when the lane's attempt is in flight: since the lease, or the end of the one before it."""
    now = facts.circumstances
    ends = [attempt.ended_at for attempt in facts.latest if attempt.attempt == 1]
    known = [instant for instant in (now.leased_at, *ends[:1]) if instant is not None]
    if not known:
        return f"{which} is in flight, or about to begin"
    since = max(known)
    return f"{which} is in flight since about {at(since)} ({_ago(facts, since)}), or about to begin"


def _holder(facts: EventFacts) -> str:
    now = facts.circumstances
    since = f" since {at(now.leased_at)}" if now.leased_at is not None else ""
    return f"dispatcher {shown(now.owner)} holds the lane{since}"


def _pace(facts: EventFacts) -> timedelta | None:
    """Return what the latest attempts took on average, where that is worth a word."""
    if not facts.latest:
        return None
    pace = timedelta(milliseconds=sum(attempt.duration_ms for attempt in facts.latest)) / len(facts.latest)
    return pace if pace >= SLOW else None


def _outcomes(facts: EventFacts) -> str:
    counts = Counter(attempt.outcome for attempt in facts.latest)
    said = listed([f"{count} {outcome}" for outcome, count in counts.most_common()])
    return f"{plural(len(facts.latest), 'attempt')} at the merchant ({said})"


# What may keep any event that is owed.


def _add_barriers(facts: EventFacts, rules: Rules, told: Explanation) -> bool:
    """Say what keeps the event from being sent at all; tell whether anything does."""
    said = len(told.why)
    now = facts.circumstances
    if now.everything_is_paused:
        told.why += [f"Everything is paused{_by(facts, facts.general_pause)}: nothing is sent to anybody."]
        told.advice += [Advice("To send to everybody again", f"{NAME} resume --all")]
    if now.is_paused:
        told.why += [
            f"{_merchant(facts)} is paused{_by(facts, facts.merchant_pause)}: nothing is sent to it."
        ]
        told.advice += [Advice("To send to it again", f"{NAME} resume {_quoted(facts)}")]
    if now.suspended_at is not None:
        told.why += [_suspended(facts)]
        told.advice += [
            Advice("To see whether the merchant answers again", f"{NAME} test-event {_quoted(facts)}"),
            Advice("To send to it at once", f"{NAME} resume {_quoted(facts)}"),
        ]
    if now.secret is None:
        _add_missing_endpoint(facts, rules, told)
    elif rules.secret_fault is not None and not now.is_held:
        told.why += [
            f"The secret of {_merchant(facts)} cannot be opened with the keys of this environment "
            f"({shown(rules.secret_fault)}): if the dispatchers' are the same, it waits for the right one."
        ]
        told.advice += [Advice("To see which keys are wanting", f"{NAME} check")]
    return len(told.why) > said


def _suspended(facts: EventFacts) -> str:
    now = facts.circumstances
    assert now.suspended_at is not None
    since = f"since {at(now.suspended_at)} ({_ago(facts, now.suspended_at)})"
    said = f"{_merchant(facts)} is suspended {since}, because nothing was accepted for too long: only "
    said += "its oldest event is tried, once an interval"
    if now.wait_until is None or now.wait_until <= now.now:
        return said + ". The next try is to come any moment."
    return said + f"; the next try is at {at(now.wait_until)}."


def _add_missing_endpoint(facts: EventFacts, rules: Rules, told: Explanation) -> None:
    now, created_at = facts.circumstances, facts.delivery.created_at
    removed_at = now.endpoint_removed_at
    ends_at = created_at + rules.hold
    if removed_at is not None and created_at <= removed_at:
        what = f"its endpoint was removed at {at(removed_at)}, so {_FAILS_NEXT}"
    elif ends_at <= now.now:
        what = f"it waited for one until {at(ends_at)}; {_FAILS_NEXT}"
    else:
        what = (
            f"it waits for one until {at(ends_at)} (WEBHOOK_UNCONFIGURED_HOLD: {span(rules.hold)}), "
            "and then fails as not_configured"
        )
    told.why += [f"{_merchant(facts)} has no endpoint: {what}."]
    told.advice += [Advice("To give it one", f"{NAME} endpoint set {_quoted(facts)} URL")]


def _after_barriers(facts: EventFacts, is_barred: bool) -> list[str]:
    """Say when it goes on; only first attempts have an order."""
    now = facts.circumstances
    goes_on = "It goes on, in order," if facts.delivery.state == State.PENDING else "It is attempted"
    if now.everything_is_paused or now.is_paused:
        return [f"{goes_on} {_once_due(facts, 'when the pause ends')}."]
    if now.suspended_at is not None:
        return [f"{goes_on} {_once_due(facts, 'within seconds of the first try that succeeds')}."]
    return [f"{goes_on} {_once_due(facts, 'when that is mended')}."] if is_barred else []


def _once_due(facts: EventFacts, when: str) -> str:
    """Write when a barrier ends; a retry that is not due by then waits for its time."""
    due_at = facts.delivery.due_at
    is_later = due_at is not None and due_at > facts.circumstances.now
    return f"{when}, and not before it is due" if is_later else when


def _by(facts: EventFacts, pause: Pause | None) -> str:
    if pause is None:
        return " (not by a command)"
    ago = _ago(facts, pause.handled_at)
    return (
        f" since {at(pause.handled_at)} ({ago}) by {shown(pause.requested_by)} (command {pause.command_id})"
    )


# What waits for a retry.


def _explain_retry(facts: EventFacts, rules: Rules, told: Explanation) -> None:
    delivery, now = facts.delivery, facts.circumstances
    assert delivery.due_at is not None
    number = delivery.attempts + 1
    by_hand = ", asked for by hand," if delivery.trigger == Trigger.MANUAL else ""
    if delivery.is_claimed and delivery.due_at > now.now:
        told.why += [
            f"Attempt {number}{by_hand} is in flight, or about to begin: a dispatcher has claimed it until "
            f"{at(delivery.due_at)}."
        ]
    else:
        told.why += [_waiting_retry(facts, number, by_hand)]
        is_barred = _add_barriers(facts, rules, told)
        told.following += [*_after_barriers(facts, is_barred)]
        told.advice += [] if is_barred else [_retry("To attempt it now", facts)]
    told.following += [*_following_retries(facts, rules)]
    told.advice += [_cancel(facts)]


def _waiting_retry(facts: EventFacts, number: int, by_hand: str) -> str:
    delivery, now = facts.delivery, facts.circumstances
    assert delivery.due_at is not None
    failed = f"Attempt {delivery.attempts} failed ({_result(delivery.last_outcome, delivery.last_status)})"
    if delivery.is_claimed:
        return (
            f"Attempt {number}{by_hand} was claimed by a dispatcher that did not report until "
            f"{at(delivery.due_at)}: it may have been made, and is made again by whoever claims it next."
        )
    if delivery.due_at <= now.now:
        return (
            f"{failed}; attempt {number}{by_hand} is due since {at(delivery.due_at)}, and begins as soon as "
            "one of the merchant's slots for retries is free."
        )
    wait = span(delivery.due_at - now.now)
    return f"{failed}; attempt {number}{by_hand} is due at {at(delivery.due_at)}, in {wait}."


def _following_retries(facts: EventFacts, rules: Rules) -> list[str]:
    delivery = facts.delivery
    number = delivery.attempts + 1
    if delivery.on_failure == State.FAILED:
        return ["It is attempted once by hand; if that fails, it is failed again."]
    delay = rules.schedule.delay_after(number)
    if delay is None:
        return [f"Attempt {number} is the last: if it fails, the delivery is failed (exhausted)."]
    last = len(rules.schedule.delays) + 1
    return [
        f"If attempt {number} fails, attempt {number + 1} follows {span(delay)} after its end; "
        f"attempt {last} is the last."
    ]


def _schedule_ahead(rules: Rules) -> str:
    delays = [span(delay) for delay in rules.schedule.delays]
    if not delays:
        return "If its attempt fails, the delivery is failed (exhausted)."
    return f"If its first attempt fails, retries follow after {listed(delays)}, each after the one before it."


# What is over.


def _explain_delivered(facts: EventFacts, told: Explanation) -> None:
    delivery = facts.delivery
    times = [attempt for attempt in facts.attempts if attempt.outcome == Outcome.DELIVERED]
    if times:
        first = times[0]
        told.why += [
            f"It was delivered at {at(first.ended_at)} by attempt {first.attempt}, "
            f"{span(first.ended_at - delivery.created_at)} after it was written."
        ]
    elif delivery.finished_at is not None:
        told.why += [f"It was delivered at {at(delivery.finished_at)}."]
    if len(times) > 1:
        told.why += [_repeated(times)]
    if delivery.finished_at is None:
        cause = _ASKED.get(delivery.trigger or "", "by hand")
        told.why += [f"It is being sent once more, {cause}, and stays delivered whatever comes of that."]
        told.following += [_once_more(facts)]
        return
    told.following += ["Nothing: it is finished."]
    told.advice += [*_resuming(facts), _retry("To send it once more", facts, "--force")]


def _repeated(times: list[AttemptView]) -> str:
    again = {attempt.trigger for attempt in times[1:]}
    asked = [words for trigger, words in _ASKED.items() if trigger in again]
    cause = (
        listed(asked)
        if asked
        else "because a dispatcher ended, or lost its lease, before it had recorded the first"
    )
    return (
        f"{len(times)} attempts of it succeeded, so the merchant has it {len(times)} times ({cause}): "
        "with the same id and body, by which receivers tell that it is the same."
    )


def _once_more(facts: EventFacts) -> str:
    due_at = facts.delivery.due_at
    if due_at is None or due_at <= facts.circumstances.now or facts.delivery.is_claimed:
        return "That attempt is in flight, or begins within a second unless the merchant is paused."
    return f"That attempt is due at {at(due_at)}."


def _explain_failed(facts: EventFacts, told: Explanation) -> None:
    delivery = facts.delivery
    when = f" at {at(delivery.finished_at)}" if delivery.finished_at is not None else ""
    told.why += [f"It failed{when}: {_failed_because(facts)}."]
    told.following += ["Nothing by itself: a failed delivery is attempted again by hand alone."]
    if delivery.failed_reason == FailedReason.NOT_CONFIGURED and facts.circumstances.secret is None:
        told.advice += [
            Advice("To give the merchant an endpoint first", f"{NAME} endpoint set {_quoted(facts)} URL")
        ]
    if delivery.failed_reason != FailedReason.UNSENDABLE:
        told.advice += [*_resuming(facts), _retry("To attempt it once more", facts)]
    if delivery.failed_reason == FailedReason.EXHAUSTED:
        since = at(delivery.created_at).replace(" ", "T")
        everything = f"{NAME} deliveries retry-failed --merchant {_quoted(facts)} --since {since}"
        told.advice += [Advice("To attempt everything of it once more that failed since then", everything)]
        recovery = f"{NAME} recover {_quoted(facts)} --since {since} --dry-run"
        told.advice += [Advice("To see what else of it failed, waits or was sent since then", recovery)]
    if delivery.last_status == 401:
        text = "The receiver may have another secret. To give it a new one"
        told.advice += [Advice(text, f"{NAME} endpoint rotate-secret {_quoted(facts)}")]


def _failed_because(facts: EventFacts) -> str:
    delivery = facts.delivery
    match delivery.failed_reason:
        case FailedReason.EXHAUSTED:
            last = _result(delivery.last_outcome, delivery.last_status)
            return (
                f"all {delivery.attempts} attempts failed, the last with {last}"
                if delivery.attempts > 1
                else (f"its one attempt failed with {last}")
            )
        case FailedReason.NOT_CONFIGURED:
            return "the merchant had no endpoint in time, or its endpoint was removed (not_configured)"
        case FailedReason.UNSENDABLE:
            return "the row breaks a rule, or the database could not read it; it was not sent (unsendable)"
        case FailedReason.CANCELLED:
            return f"it was cancelled{_cancelled_by(facts)}"
        case FailedReason.SKIPPED:
            made = plural(delivery.attempts, "attempt")
            return f"an operator had what was owed skipped, this one after {made} (skipped)"
        case reason:
            return shown(reason)


def _cancelled_by(facts: EventFacts) -> str:
    done = [c for c in facts.commands if c.command == "cancel" and c.status == "done"]
    made = f", after {plural(facts.delivery.attempts, 'attempt')}"
    return (f" by {shown(done[-1].requested_by)} (command {done[-1].id})" if done else "") + made


# Words that several of them use.


def _attempt(attempt: AttemptView, attempts: int) -> str:
    took = span(timedelta(milliseconds=attempt.duration_ms))
    asked = f", {_ASKED[attempt.trigger]}" if attempt.trigger in _ASKED else ""
    said = f"{attempt.attempt}. {at(attempt.started_at)}, took {took}{asked}: "
    said += _result(attempt.outcome, attempt.status)
    said += f" ({shown(attempt.reason)})" if attempt.reason else ""
    if attempt.response_excerpt:
        said += f'; it answered "{shown(attempt.response_excerpt[:MAX_EXCERPT])}"'
    return said


def _result(outcome: str | None, status: int | None) -> str:
    if outcome in (None, Outcome.STATUS):
        return f"status {shown(status)}"
    return f"{shown(outcome)}, status {status}" if status is not None else shown(outcome)


def _lost_attempts(facts: EventFacts) -> list[str]:
    """Say that attempts are missing from the log: their day was dropped before the delivery's."""
    missing = facts.delivery.attempts - len({attempt.attempt for attempt in facts.attempts})
    if missing <= 0:
        return []
    return [f"{plural(missing, 'attempt')} of it {'is' if missing == 1 else 'are'} no longer in the log."]


def _command(command: CommandFacts) -> str:
    given = f"{shown(command.requested_by)} asked for {shown(command.command)} at {at(command.created_at)}"
    return f"{given} (command {command.id}, {shown(command.status)})."


def _retry(text: str, facts: EventFacts, option: str = "") -> Advice:
    return Advice(text, f"{NAME} deliveries retry {facts.delivery.event_id} {option}".rstrip())


def _resuming(facts: EventFacts) -> list[Advice]:
    """Advise what must precede a retry, which is refused while the merchant is suspended."""
    if facts.circumstances.suspended_at is None:
        return []
    text = "To send to the merchant again first (it is suspended: a retry is refused)"
    return [Advice(text, f"{NAME} resume {_quoted(facts)}")]


def _cancel(facts: EventFacts) -> Advice:
    """Advise to cancel, which SQL alone does."""
    return Advice(
        "To give it up (SQL, as webhook_admin)",
        "INSERT INTO webhook.control (command, event_id, requested_by) "
        f"VALUES ('cancel', '{facts.delivery.event_id}', 'your name')",
    )


def _list_waiting(facts: EventFacts) -> str:
    return f"{NAME} deliveries list --merchant {_quoted(facts)} --state pending --oldest-first"


def _merchant(facts: EventFacts) -> str:
    return shown(facts.delivery.merchant_id)


def _quoted(facts: EventFacts) -> str:
    return shlex.quote(_merchant(facts))


def _ago(facts: EventFacts, instant: datetime) -> str:
    return f"{span(facts.circumstances.now - instant)} ago"
