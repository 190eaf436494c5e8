"""One delivery: its story, what is sent, and what can be done about it.

The facts are those of `explain`, told by the same words. Viewers get no payload from the database.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from webhook_dispatcher.console.calls import HttpError, Page, Redirect, Request, Response
from webhook_dispatcher.console.pages import acting
from webhook_dispatcher.console.pages.filters import event_id
from webhook_dispatcher.console.pages.sentences import Stretch, sentence
from webhook_dispatcher.console.pretty import pretty
from webhook_dispatcher.console.rendering import delivery_path, merchant_path, with_query
from webhook_dispatcher.diagnosis import explanation, timeline
from webhook_dispatcher.diagnosis.explanation import Action
from webhook_dispatcher.diagnosis.timeline import Kind
from webhook_dispatcher.domain.command import CommandName
from webhook_dispatcher.domain.delivery import DeliveryFacts
from webhook_dispatcher.domain.event import TEST_EVENT_TYPE, Event, State, Trigger
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names, standard
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.commands import CommandRow, Commands
from webhook_dispatcher.storage.console.delivery import Stories, Story
from webhook_dispatcher.version import USER_AGENT

TONES: Mapping[Kind, str] = {
    Kind.WRITTEN: "info",
    Kind.WAITED: "",
    Kind.MISSING: "",
    Kind.CHANGED: "info",
    Kind.ASKED: "info",
    Kind.ATTEMPT_FAILED: "bad",
    Kind.DELIVERED: "good",
    Kind.FAILED: "bad",
    Kind.AHEAD: "warn",
}


@dataclass(frozen=True, slots=True)
class Act:
    """Something that can be done: a path below the delivery's, and its text."""

    path: str
    key: str
    is_destructive: bool = False
    force: bool = False

    @property
    def asks_first(self) -> bool:
        """Whether the page says what it does before it is done."""
        return self.is_destructive or self.force


@dataclass(frozen=True, slots=True)
class StoryLine:
    """A moment of the story, in the reader's words."""

    at: datetime | None
    tone: str
    parts: Sequence[Stretch]


@dataclass(frozen=True, slots=True)
class Payload:
    """What is sent: as it is, and as people read it."""

    raw: str
    pretty: str


@dataclass(frozen=True, slots=True)
class DeliveryPages:
    """Shows deliveries, retries and cancels them. names: by which they are sent."""

    stories: Stories
    commands: Commands
    actions: Actions
    rules: explanation.Rules
    names: Callable[[], Names]

    async def show(self, request: Request) -> Response:
        """Show one delivery; of an event that is not there, say what there is to say."""
        wanted = _wanted(request)
        seq = acting.command_number(request.query_value("seq"))
        # Before the delivery: a command that is done has changed what is read after it.
        command = await self._command(request)
        if (story := await self.stories.get(request.key, wanted, seq)) is None:
            unfound = await self.stories.explain_unfound(request.key, wanted)
            raise HttpError(404, "no_delivery", event=str(wanted), since=str(unfound.kept_since or "?"))
        explained = explanation.explain(story.facts, self.rules)
        delivery = story.facts.delivery
        is_moving = (command is not None and not command.is_final) or _may_end_soon(story)
        facts = {
            "delivery": delivery,
            "why": [sentence(said, request.reader) for said in (*explained.why, *explained.following)],
            "advice": [
                (sentence(advice.said, request.reader), _leads_to(advice.action, delivery.merchant_id))
                for advice in explained.advice
            ],
            "story": [
                StoryLine(moment.at, TONES[moment.kind], sentence(moment.said, request.reader))
                for moment in timeline.build(story.facts, story.around)
            ],
            "attempts": story.facts.attempts,
            "by_hand": sum(each.trigger == Trigger.MANUAL for each in story.facts.attempts),
            "payload": payload_of(delivery, story.payload),
            "headers": headers_of(
                delivery, story.facts.circumstances.url, story.payload or b"", self.names()
            ),
            "others": [
                (other, with_query(delivery_path(wanted), {"seq": other.seq})) for other in story.others
            ],
            "charge_path": with_query("/deliveries", {"charge": delivery.charge_id}),
            "acts": acts_of(delivery, is_test=delivery.type == TEST_EVENT_TYPE),
            "command": command,
            "status_badge": (
                acting.status_badge(command, request.reader, _outcome_of(command, story)) if command else None
            ),
            "is_moving": is_moving,
            "here": with_query(
                request.path, {"seq": request.query_value("seq"), "command": request.query_value("command")}
            ),
        }
        return Page("delivery.html", facts)

    async def _command(self, request: Request) -> CommandRow | None:
        """Return the command that this page was led to by, if it is about this delivery."""
        number = acting.command_number(request.query_value("command"))
        command = None if number is None else await self.commands.get(request.key, number)
        return command if command is not None and command.event_id == _wanted(request) else None

    async def retry(self, request: Request) -> Response:
        """Have one more attempt made now."""
        return await self._give(
            request, CommandName.RETRY, {"force": True} if request.form_value("force") == "yes" else {}
        )

    async def cancel(self, request: Request) -> Response:
        """Give the delivery up."""
        return await self._give(request, CommandName.CANCEL, {})

    async def _give(self, request: Request, name: CommandName, args: dict[str, object]) -> Response:
        wanted = _wanted(request)
        # The event's id would mean its deliveries to all endpoints.
        if endpoint := acting.command_number(request.form_value("endpoint")):
            args["endpoint"] = endpoint
        number = await self.actions.give_command(request.key, name, event_id=wanted, args=args)
        return Redirect(with_query(delivery_path(wanted), {"command": number}))


def _wanted(request: Request) -> UUID:
    if (found := event_id(request.parameters["event"])) is None:
        raise HttpError(404, "not_found")
    return found


def _outcome_of(command: CommandRow, story: Story) -> str | None:
    """Return what came of the attempt that a command asked for: the first that ended after it."""
    if command.command != CommandName.RETRY or (done_at := command.handled_at) is None:
        return None
    ended = [
        each
        for each in story.facts.attempts
        if each.started_at + timedelta(milliseconds=each.duration_ms) >= done_at
    ]
    return min(ended, key=lambda each: each.started_at).outcome if ended else None


def _may_end_soon(story: Story) -> bool:
    """Tell whether its first attempt, or a retry that is due or under way, may end at any moment."""
    delivery = story.facts.delivery
    held = story.facts.circumstances
    # Due a lease from now where it is claimed.
    is_due = delivery.is_claimed or (delivery.due_at is not None and delivery.due_at <= held.now)
    return (delivery.state == State.PENDING or is_due) and not (
        held.is_paused or held.everything_is_paused or held.url is None or held.suspended_at is not None
    )


def acts_of(delivery: DeliveryFacts, is_test: bool) -> Sequence[Act]:
    """Return what can be done about a delivery in its state; contract 3 has what each does."""
    match delivery.state:
        case State.FAILED if not is_test:
            return (Act("retry", "delivery.retry"),)
        case State.PENDING_RETRY:
            return (
                Act("retry", "delivery.retry_now"),
                Act("cancel", "delivery.cancel", is_destructive=True),
            )
        case State.PENDING:
            return (Act("cancel", "delivery.cancel", is_destructive=True),)
        case State.DELIVERED if not is_test:
            return (Act("retry", "delivery.send_again", force=True),)
        case _:
            return ()


def payload_of(delivery: DeliveryFacts, sent: bytes | None) -> Payload | None:
    """Return the body as it is sent, byte for byte, and one that people can read; None: it is not shown."""
    if sent is None:
        return None
    raw = _event(delivery, sent).body().decode("utf-8", "replace")
    return Payload(raw, pretty(raw))


def headers_of(
    delivery: DeliveryFacts, url: str | None, sent: bytes = b"", names: Names = DEFAULT_NAMES
) -> Sequence[tuple[str, str]]:
    """Return the head of a request now: the URL, our name, contract 1's headers with a signature's form."""
    headers = {"User-Agent": USER_AGENT} | _event(delivery, sent).headers("t=…,v1=…", names)
    if names.has_standard:
        headers |= standard(str(delivery.copy_of or delivery.event_id), "…", "v1,…")
    return (("POST", url or "-"), *headers.items())


def _event(delivery: DeliveryFacts, sent: bytes) -> Event:
    event_id = delivery.copy_of or delivery.event_id
    return Event(delivery.seq, event_id, delivery.merchant_id, delivery.type, delivery.created_at, sent)


def _leads_to(action: Action, merchant_id: str) -> str | None:
    """Return where something can be done; None where a button of this page does it."""
    of_merchant = {"only_merchant": merchant_id}
    match action:
        case Action.RESUME | Action.TEST_EVENT | Action.SET_ENDPOINT | Action.ROTATE_SECRET:
            return merchant_path(merchant_id)
        case Action.LIST_WAITING:
            return with_query("/deliveries", {"merchant": merchant_id, "state": State.PENDING})
        case Action.RETRY_ALL_FAILED:
            return with_query("/deliveries/act", {"act": "retry_all", **of_merchant})
        case Action.PREVIEW_RECOVERY:
            return with_query("/deliveries/act", {"act": "recover_all", **of_merchant})
        case Action.CHECK | Action.SEE_DISPATCHERS:
            return "/health"
        case _:
            return None
