"""The merchant's own webhook: where its events are sent, the secret that signs them, a test, a pause.

A secret is made here, told once and sealed with a public half; this process cannot open it again.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import structlog
from pydantic import Field

from webhook_dispatcher.api.calls import ApiError, CommandAccepted, Request, Response
from webhook_dispatcher.api.catalogue import (
    INVALID_URL,
    NOT_CONFIGURED,
    UNAVAILABLE,
)
from webhook_dispatcher.api.operations.commands import unless_refused
from webhook_dispatcher.api.operations.models import Instant, write
from webhook_dispatcher.api.validation import Model
from webhook_dispatcher.domain.command import CommandName
from webhook_dispatcher.domain.signing import SealedSecret, Secret
from webhook_dispatcher.storage.api.endpoints import (
    Endpoints,
    OwnCommand,
    OwnEndpoint,
    PutOutcome,
    Removal,
    Rotation,
)
from webhook_dispatcher.storage.api.new_secrets import NotSealed, Stored, store_new_secret
from webhook_dispatcher.transport.guard import Guard

MAX_OVERLAP_SECONDS = 7 * 24 * 3600

_log = structlog.get_logger()


class WebhookAnswer(Model):
    """Where events are sent, and how that fares. waiting: how many are owed; at most 10,000."""

    url: str
    paused: bool
    created_at: Instant
    updated_at: Instant
    secret_created_at: Instant
    last_success_at: Instant | None
    failing_since: Instant | None
    failures_in_a_row: int
    suspended_at: Instant | None
    waiting: int


class CreatedWebhook(WebhookAnswer):
    """The same with the signing secret; null when the answer is told again: it is told once."""

    secret: str | None


class WebhookUrl(Model):
    """Where events are to be sent."""

    url: str = Field(min_length=1, max_length=4096, examples=["https://shop.example.com/webhooks"])


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


async def show(request: Request) -> Response:
    """Show where events are sent, as admission has read it."""
    if request.admitted.endpoint is None:
        raise ApiError(NOT_CONFIGURED)
    return Response(await _shown(request, WebhookAnswer, request.admitted.endpoint))


async def remove(request: Request) -> Response:
    """Stop sending, and forget URL and secret."""
    endpoints = Endpoints(request.database)
    owed = await endpoints.count_owed(request.token)
    match await endpoints.remove(request.token):
        case Removal.REMOVED:
            return Response(write(Removed, removed=True, failed=owed))
        case Removal.NOT_CONFIGURED:
            raise ApiError(NOT_CONFIGURED)


class Putting:
    """Creates or changes the URL. guard: which URLs may be sent to."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def put(self, request: Request) -> Response:
        """Change the URL, or create the endpoint with a secret of its own."""
        assert isinstance(request.body, WebhookUrl)
        url = request.body.url
        if (fault := self._guard.find_fault(url)) is not None:
            raise ApiError(INVALID_URL, extra={"reason": fault})
        store = partial(Endpoints(request.database).put, request.token, url)
        if (result := await store(None)) is not PutOutcome.NOT_CONFIGURED:
            return await self._changed(request, result)
        return await self._changed(request, *await _with_new_secret(request, store))

    async def _changed(self, request: Request, result: PutOutcome, secret: Secret | None = None) -> Response:
        endpoint = await _endpoint(request)
        if result is not PutOutcome.CREATED or secret is None:
            return Response(await _shown(request, WebhookAnswer, endpoint))
        told, kept = [
            await _shown(request, CreatedWebhook, endpoint, secret=shown)
            for shown in (secret.revealed.decode(), None)
        ]
        return Response(told, 201, kept=kept)


async def rotate(request: Request) -> Response:
    """Make a new secret; with an overlap the one before goes on signing for so long.

    NotHeld: as long as events are to be kept back, and are not yet (commands.when_held).
    """
    assert isinstance(request.body, SecretRotation)
    overlap = timedelta(seconds=request.body.overlap_seconds) or None
    await _endpoint(request)
    store = partial(
        Endpoints(request.database).rotate, request.token, overlap=overlap, hold=request.body.hold
    )
    rotated, secret = await _with_new_secret(request, store)
    if rotated.result is Rotation.NOT_CONFIGURED:
        raise ApiError(NOT_CONFIGURED)
    told, kept = (
        write(RotatedSecret, rotated, secret=shown, previous_secret_until=rotated.previous_until)
        for shown in (secret.revealed.decode(), None)
    )
    return Response(told, kept=kept)


async def test(request: Request) -> CommandAccepted:
    """Send a test event."""
    return await _give(request, CommandName.TEST_EVENT)


async def pause(request: Request) -> CommandAccepted:
    """Keep events back, in order."""
    return await _give(request, CommandName.PAUSE)


async def resume(request: Request) -> CommandAccepted:
    """Send what was kept back, and go on."""
    return await _give(request, CommandName.RESUME)


def tested(command: OwnCommand) -> bytes:
    """Say what came of a test event."""
    result = command.result or {}
    return write(TestResult, **{name: result.get(name) for name in TestResult.model_fields})


def paused(command: OwnCommand) -> bytes:
    """Say whether events are kept back now."""
    return write(Paused, paused=command.command == CommandName.PAUSE)


async def _give(request: Request, command: CommandName) -> CommandAccepted:
    await _endpoint(request)
    return unless_refused(await Endpoints(request.database).ask(request.token, command))


async def _endpoint(request: Request) -> OwnEndpoint:
    if (endpoint := await Endpoints(request.database).read(request.token)) is None:
        raise ApiError(NOT_CONFIGURED)
    return endpoint


async def _shown(
    request: Request, model: type[WebhookAnswer], endpoint: OwnEndpoint, **more: object
) -> bytes:
    waiting = await Endpoints(request.database).count_owed(request.token)
    return write(model, endpoint, waiting=waiting, **more)


async def _with_new_secret(
    request: Request, store: Callable[[SealedSecret], Awaitable[Stored]]
) -> tuple[Stored, Secret]:
    """Make a secret and store it sealed, or refuse the request while there is nothing to seal it with."""
    try:
        return await store_new_secret(
            request.bearer.merchant_id, Endpoints(request.database).sealing_key, store
        )
    except NotSealed as error:
        _log.error("secret.unsealed", reason=str(error))
        raise ApiError(UNAVAILABLE, headers={"Retry-After": "60"}) from None
