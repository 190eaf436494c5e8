"""What `explain` prints: an explanation in English, in UTC, with what to type for each piece of advice."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, date

from webhook_dispatcher.cli.failures import NAME
from webhook_dispatcher.cli.output import shown
from webhook_dispatcher.cli.words import at
from webhook_dispatcher.diagnosis import explanation, vocabulary
from webhook_dispatcher.diagnosis.explanation import Action, Advice, Explanation
from webhook_dispatcher.diagnosis.said import Said
from webhook_dispatcher.domain.command import CommandFacts
from webhook_dispatcher.domain.delivery import DeliveryFacts
from webhook_dispatcher.domain.status import LostEvent


def lines(told: Explanation) -> Iterator[str]:
    """Write an explanation as paragraphs and lists; each entry is one."""
    yield _say(told.title)
    yield " ".join(map(_say, told.account))
    if told.attempts:
        yield "Attempts:"
        yield from (f"  {_say(attempt)}" for attempt in told.attempts)
    else:
        yield "There is no attempt in the log."
    yield "Next: " + " ".join(map(_say, told.following))
    for advice in told.advice:
        yield f"{purpose(advice)}:"
        yield f"    {command(advice.action, told.delivery)}"


def summary(told: Explanation) -> Iterator[str]:
    """Say in two lines how an event stands: for a charge that has many."""
    delivery = told.delivery
    of = "" if delivery.endpoint is None else f", endpoint {delivery.endpoint}"
    yield f"{delivery.event_id} {delivery.state}{of}"
    yield f"  {_say(told.gist)}"


def document(told: Explanation) -> dict[str, object]:
    """Give programs what people are shown."""
    return {
        "event_id": str(told.delivery.event_id),
        "title": _say(told.title),
        "state": told.delivery.state,
        "why": [_say(sentence) for sentence in told.account],
        "attempts": [_say(attempt) for attempt in told.attempts],
        "following": [_say(sentence) for sentence in told.following],
        "advice": [
            {"text": purpose(advice), "command": command(advice.action, told.delivery)}
            for advice in told.advice
        ],
    }


def unknown(
    subject: str, kept_since: date | None, commands: Sequence[CommandFacts], lost: LostEvent | None
) -> str:
    """Say what may have become of an event or charge that is not found."""
    return "\n".join(map(_say, explanation.unknown(subject, kept_since, commands, lost)))


def purpose(advice: Advice) -> str:
    """Say what something is done for; to cancel, which no command of ours does, also as whom."""
    how = " (SQL, as webhook_admin)" if advice.action is Action.CANCEL else ""
    return _say(advice.said) + how


def command(action: Action, delivery: DeliveryFacts) -> str:
    """Return what to type."""
    merchant = shlex.quote(shown(delivery.merchant_id))
    since = at(delivery.created_at).replace(" ", "T")
    which = "" if delivery.endpoint is None else f" --endpoint {delivery.endpoint}"
    # The first copy has the id of its event, which stands for all.
    of_event = which if delivery.copy_of == delivery.event_id else ""
    match action:
        case Action.CANCEL:
            return _cancel(delivery, bool(of_event))
        case Action.RETRY:
            return f"{NAME} deliveries retry {delivery.event_id}{of_event}"
        case Action.RETRY_DELIVERED:
            return f"{NAME} deliveries retry {delivery.event_id}{of_event} --force"
        case Action.RETRY_ALL_FAILED:
            return f"{NAME} deliveries retry-failed --merchant {merchant}{which} --since {since}"
        case Action.PREVIEW_RECOVERY:
            return f"{NAME} recover {merchant} --since {since} --dry-run"
        case _:
            return _of_merchant(action, merchant, which)


def _cancel(delivery: DeliveryFacts, is_one_of_several: bool) -> str:
    columns, values = "command, event_id, requested_by", f"'cancel', '{delivery.event_id}', 'your name'"
    if is_one_of_several:
        columns, values = f"{columns}, args", f"{values}, '{{\"endpoint\": {delivery.endpoint}}}'"
    return f"INSERT INTO webhook.control ({columns}) VALUES ({values})"


def _of_merchant(action: Action, merchant: str, which: str) -> str:
    return {
        Action.RESUME_ALL: f"{NAME} resume --all",
        Action.RESUME: f"{NAME} resume {merchant}{which}",
        Action.TEST_EVENT: f"{NAME} test-event {merchant}{which}",
        Action.SET_ENDPOINT: f"{NAME} endpoint set {merchant} URL{which}",
        Action.ROTATE_SECRET: f"{NAME} endpoint rotate-secret {merchant}{which} --hold",
        Action.LIST_WAITING: f"{NAME} deliveries list --merchant {merchant} --state pending --oldest-first",
        Action.CHECK: f"{NAME} check",
        Action.SEE_DISPATCHERS: f"{NAME} status; {NAME} check",
    }[action]


def _say(said: Said) -> str:
    return vocabulary.say(said, "en", UTC)
