"""The merchant's own webhooks: where its events are sent, the secret that signs them, a test, a pause.

Each endpoint has a path, and number 1 another, without an id (`endpoint_of`): the handlers are the same.
A secret is made here, told once and sealed with a public half; this process cannot open it again.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Annotated
from uuid import UUID

import structlog
from pydantic import Field

from webhook_dispatcher.api.calls import ApiError, Caller, CommandAccepted, Request, Response
from webhook_dispatcher.api.catalogue import (
    INVALID_URL,
    NOT_CONFIGURED,
    STATE_FORBIDS,
    TOO_MANY_ENDPOINTS,
    UNAVAILABLE,
)
from webhook_dispatcher.api.operations.commands import endpoint_of, unless_refused
from webhook_dispatcher.api.operations.models import Instant, WantedType, write
from webhook_dispatcher.api.validation import Model, Nothing, refuse_field
from webhook_dispatcher.domain.command import CommandName, CommandView
from webhook_dispatcher.domain.endpoint import (
    DEFAULT_AT_ONCE,
    MAX_AT_ONCE,
    MAX_TYPES,
    OLDER_DISPATCHER,
    Order,
)
from webhook_dispatcher.domain.errors import StatementRefused, StillSending
from webhook_dispatcher.domain.event import CHARGE_TYPES
from webhook_dispatcher.domain.lane import MAX_ENDPOINTS
from webhook_dispatcher.domain.signing import SealedSecret, Secret
from webhook_dispatcher.storage.api.database import transaction
from webhook_dispatcher.storage.api.endpoints import (
    AS_IT_IS,
    AddOutcome,
    Endpoints,
    OwnEndpoint,
    PutOutcome,
    Removal,
    Rotation,
)
from webhook_dispatcher.storage.api.event_types import filter_types
from webhook_dispatcher.storage.api.new_secrets import NotSealed, Stored, store_new_secret
from webhook_dispatcher.transport.guard import Guard

MAX_OVERLAP_SECONDS = 7 * 24 * 3600
TOO_MANY = f"there are {MAX_ENDPOINTS} endpoints, which is as many as there may be"
AtOnce = Annotated[int, Field(ge=2, le=MAX_AT_ONCE)]
EndpointName = Annotated[
    str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]*[^\x00-\x20][^\x00-\x1f]*$")
]

_log = structlog.get_logger()


class WebhookAnswer(Model):
    """Where events are sent, and how that fares.

    types: which are; null: all. order: whose events are sent one after the other. atOnce: of how many charges
    at once; null: of one. number: 1 is the endpoint of `/v1/webhook`. waiting: how many are owed; at most
    10,000.
    """

    url: str
    paused: bool
    created_at: Instant
    updated_at: Instant
    secret_created_at: Instant
    last_success_at: Instant | None
    failing_since: Instant | None
    failures_in_a_row: int
    suspended_at: Instant | None
    types: list[WantedType] | None
    order: Order
    at_once: AtOnce | None
    number: int
    id: UUID
    name: str | None
    waiting: int


class CreatedWebhook(WebhookAnswer):
    """The same with the signing secret; null when the answer is told again: it is told once."""

    secret: str | None


class WebhookUrl(Model):
    """Where events are to be sent, which types (null: all), and in which order. What is left out stays.

    order: `merchant`, one after the other, or `charge`. atOnce: with `charge`, of how many charges at once.
    name: what you call the endpoint; null: none.
    """

    url: str = Field(
        default_factory=str, min_length=1, max_length=4096, examples=["https://shop.example.com/webhooks"]
    )
    types: Annotated[list[WantedType], Field(min_length=1, max_length=MAX_TYPES)] | None = Field(
        default_factory=lambda: None, examples=[["charge.succeeded", "charge.failed"]]
    )
    # No defaults in the document: a client that fills them in would take back what it does not name.
    order: Order = Field(default_factory=lambda: Order.MERCHANT, examples=["charge"])
    at_once: AtOnce = Field(default_factory=lambda: DEFAULT_AT_ONCE, examples=[DEFAULT_AT_ONCE])
    name: EndpointName | None = Field(default_factory=lambda: None, examples=["refunds"])


class NewWebhook(WebhookUrl):
    """A further endpoint; types left out: all."""

    url: str = Field(min_length=1, max_length=4096, examples=["https://shop.example.com/refunds"])


class SecretRotation(Model):
    """How much longer the secret before signs beside the new one; hold: events are kept back until resume."""

    overlap_seconds: int = Field(0, ge=0, le=MAX_OVERLAP_SECONDS, examples=[86_400])
    hold: bool = Field(False, examples=[False])


class RotatedSecret(Model):
    """The new signing secret; null when the answer is told again: it is told once.

    waiting: how many events wait to be sent, and are signed with it; at most 10,000.
    """

    secret: str | None
    previous_secret_until: Instant | None
    waiting: int


class Removed(Model):
    """Nothing is sent any more. failed: how many events were owed, at most 10,000.

    They fail: at once, but those that wait for a retry when it is due, unless a URL is set before.
    """

    removed: bool
    failed: int


class Paused(Model):
    """Whether events are kept back."""

    paused: bool


class TestResult(Model):
    """What came of a test event."""

    event_id: str
    outcome: str
    status: int | None
    reason: str | None


async def list_all(request: Request, _: Nothing) -> Response:
    """List the merchant's endpoints."""
    endpoints = await Endpoints(request.caller.database).list(request.caller.token)
    return Response(
        b"[%b]" % b",".join([await _write(request.caller, WebhookAnswer, each) for each in endpoints])
    )


async def show(request: Request, _: Nothing) -> Response:
    """Show where events are sent; of number 1, as admission has read it."""
    caller, wanted = request.caller, endpoint_of(request.head)
    endpoint = caller.endpoint if wanted is None else await _endpoint(caller, wanted)
    if endpoint is None:
        raise ApiError(NOT_CONFIGURED)
    return Response(await _write(caller, WebhookAnswer, endpoint))


async def remove(request: Request, _: Nothing) -> Response:
    """Stop sending there, and forget URL and secret."""
    caller, wanted = request.caller, endpoint_of(request.head)
    endpoint = await _endpoint(caller, wanted)
    endpoints = Endpoints(caller.database)
    owed = await endpoints.count_owed(caller.token, endpoint.number)
    match await endpoints.remove(caller.token, wanted):
        case Removal.REMOVED:
            return Response(write(Removed, removed=True, failed=owed))
        case Removal.NOT_CONFIGURED:
            raise ApiError(NOT_CONFIGURED)


class Putting:
    """Creates endpoints, or changes them. guard: which URLs may be sent to."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def add(self, request: Request, body: NewWebhook) -> Response | StillSending:
        """Add an endpoint with a secret of its own to those that there are."""
        self._refuse_fields(request, body)
        caller = request.caller
        await _refuse_strange(body.types or (), request)
        at_once = body.order.at_once(body.at_once if "at_once" in body.model_fields_set else None, None)
        store = partial(
            Endpoints(caller.database).add,
            caller.token,
            body.url,
            types=body.types,
            at_once=at_once,
            name=body.name,
        )
        with _older_dispatchers_refused():
            added, secret = await _with_new_secret(caller, store)
        if added.result is AddOutcome.TOO_MANY:
            raise ApiError(STATE_FORBIDS, extra={"cause": TOO_MANY_ENDPOINTS, "reason": TOO_MANY})
        return StillSending() if added.id is None else await _created(caller, secret, added.id)

    async def put(self, request: Request, body: WebhookUrl) -> Response:
        """Change URL, name, types and order, or create number 1 with a secret of its own."""
        self._refuse_fields(request, body)
        caller, wanted = request.caller, endpoint_of(request.head)
        await _refuse_strange(body.types or (), request)
        store = partial(_store, caller, wanted, body)
        with _older_dispatchers_refused():
            result = await store(None)
            if result is PutOutcome.NOT_CONFIGURED and not (body.url and wanted is None):
                raise ApiError(NOT_CONFIGURED)
            if result is PutOutcome.NOT_CONFIGURED:
                result, secret = await _with_new_secret(caller, store)
                if result is PutOutcome.CREATED:
                    return await _created(caller, secret, wanted)
        return Response(await _write(caller, WebhookAnswer, await _endpoint(caller, wanted)))

    def _refuse_fields(self, request: Request, body: WebhookUrl) -> None:
        given = body.model_fields_set
        if not given:
            raise refuse_field("url", "missing", request.head.language)
        if "at_once" in given and body.order is not Order.CHARGE:
            raise refuse_field("atOnce", "extra_forbidden", request.head.language)
        if body.url and (fault := self._guard.find_fault(body.url)) is not None:
            raise ApiError(INVALID_URL, extra={"reason": fault})


@contextmanager
def _older_dispatchers_refused() -> Iterator[None]:
    """Refuse the request while a dispatcher works that does not know what is asked for."""
    try:
        yield
    except StatementRefused as error:
        if error.sqlstate != OLDER_DISPATCHER:
            raise
        _log.warning("endpoint.refused", reason=error.detail)
        raise ApiError(UNAVAILABLE, headers={"Retry-After": "60"}) from None


async def _store(
    caller: Caller, wanted: UUID | None, body: WebhookUrl, sealed: SealedSecret | None
) -> PutOutcome:
    """Store what is given, all or nothing."""
    given = body.model_fields_set
    types = body.types if "types" in given else AS_IT_IS
    name = body.name or "" if "name" in given else None
    async with transaction(caller.database) as database:
        endpoints = Endpoints(database)
        result = await endpoints.put(caller.token, body.url or None, sealed, types, name, wanted)
        if "order" in given and result not in (PutOutcome.NOT_CONFIGURED, PutOutcome.KEY_IS_OLD):
            known = await endpoints.read(caller.token, wanted)
            at_once = body.order.at_once(
                body.at_once if "at_once" in given else None, known.at_once if known else None
            )
            await endpoints.set_order(caller.token, at_once, wanted)
    return result


async def _refuse_strange(types: Sequence[str], request: Request) -> None:
    """Refuse a type that there is not: misspelt, it would leave out what is meant."""
    if {*types} <= {*CHARGE_TYPES}:
        return
    caller = request.caller
    known = await filter_types(caller.database, caller.bearer.merchant_id)
    for number, name in enumerate(types):
        if name not in known:
            raise refuse_field(f"types.{number}", "choice", request.head.language, expected=", ".join(known))


async def _created(caller: Caller, secret: Secret, wanted: UUID | None) -> Response:
    endpoint = await _endpoint(caller, wanted)
    data, kept = [
        await _write(caller, CreatedWebhook, endpoint, secret=text)
        for text in (secret.revealed.decode(), None)
    ]
    return Response(data, 201, kept=kept)


async def rotate(request: Request, body: SecretRotation) -> Response:
    """Make a new secret; with an overlap the one before goes on signing for so long.

    NotHeld: as long as events are to be kept back, and are not yet (commands.when_held).
    """
    caller, wanted = request.caller, endpoint_of(request.head)
    overlap = timedelta(seconds=body.overlap_seconds) or None
    await _endpoint(caller, wanted)
    store = partial(
        Endpoints(caller.database).rotate, caller.token, overlap=overlap, hold=body.hold, endpoint=wanted
    )
    rotated, secret = await _with_new_secret(caller, store)
    if rotated.result is Rotation.NOT_CONFIGURED:
        raise ApiError(NOT_CONFIGURED)
    data, kept = (
        write(RotatedSecret, rotated, secret=text, previous_secret_until=rotated.previous_until)
        for text in (secret.revealed.decode(), None)
    )
    return Response(data, kept=kept)


async def test(request: Request, _: Nothing) -> CommandAccepted:
    """Send a test event."""
    return await _give(request, CommandName.TEST_EVENT)


async def pause(request: Request, _: Nothing) -> CommandAccepted:
    """Keep events back, in order."""
    return await _give(request, CommandName.PAUSE)


async def resume(request: Request, _: Nothing) -> CommandAccepted:
    """Send what was kept back, and go on."""
    return await _give(request, CommandName.RESUME)


def tested(command: CommandView) -> bytes:
    """Say what came of a test event."""
    result = command.result or {}
    return write(TestResult, **{name: result.get(name) for name in TestResult.model_fields})


def paused(command: CommandView) -> bytes:
    """Say whether events are kept back now."""
    return write(Paused, paused=command.command == CommandName.PAUSE)


async def _give(request: Request, command: CommandName) -> CommandAccepted:
    caller, wanted = request.caller, endpoint_of(request.head)
    await _endpoint(caller, wanted)
    given = await Endpoints(caller.database).ask(caller.token, command, endpoint=wanted)
    return unless_refused(given, NOT_CONFIGURED)


async def _endpoint(caller: Caller, wanted: UUID | None) -> OwnEndpoint:
    if (endpoint := await Endpoints(caller.database).read(caller.token, wanted)) is None:
        raise ApiError(NOT_CONFIGURED)
    return endpoint


async def _write(caller: Caller, model: type[WebhookAnswer], endpoint: OwnEndpoint, **more: object) -> bytes:
    waiting = await Endpoints(caller.database).count_owed(caller.token, endpoint.number)
    return write(model, endpoint, waiting=waiting, **more)


async def _with_new_secret(
    caller: Caller, store: Callable[[SealedSecret], Awaitable[Stored]]
) -> tuple[Stored, Secret]:
    """Make a secret and store it sealed, or refuse the request while there is nothing to seal it with."""
    try:
        return await store_new_secret(
            caller.bearer.merchant_id, Endpoints(caller.database).sealing_key, store
        )
    except NotSealed as error:
        _log.error("secret.unsealed", reason=str(error))
        raise ApiError(UNAVAILABLE, headers={"Retry-After": "60"}) from None
