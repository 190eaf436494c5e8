"""The merchant's own webhook: where its events are sent, the secret that signs them, a test, a pause.

A secret is made here, told once and sealed with a public half; this process cannot open it again.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import structlog
from pydantic import Field

from webhook_dispatcher.api.calls import Answer, Asked, Given, Refused
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
    Put,
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


async def show(asked: Asked) -> Answer:
    """Show where events are sent, as admission has read it."""
    if asked.admitted.endpoint is None:
        raise Refused(NOT_CONFIGURED)
    return Answer(await _shown(asked, WebhookAnswer, asked.admitted.endpoint))


async def remove(asked: Asked) -> Answer:
    """Stop sending, and forget URL and secret."""
    endpoints = Endpoints(asked.database)
    owed = await endpoints.count_owed(asked.token)
    match await endpoints.remove(asked.token):
        case Removal.REMOVED:
            return Answer(write(Removed, removed=True, failed=owed))
        case Removal.NOT_CONFIGURED:
            raise Refused(NOT_CONFIGURED)


class Putting:
    """Creates or changes the URL. guard: which URLs may be sent to."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def put(self, asked: Asked) -> Answer:
        """Change the URL, or create the endpoint with a secret of its own."""
        assert isinstance(asked.body, WebhookUrl)
        url = asked.body.url
        if (fault := self._guard.find_fault(url)) is not None:
            raise Refused(INVALID_URL, extra={"reason": fault})
        store = partial(Endpoints(asked.database).put, asked.token, url)
        if (result := await store(None)) is not Put.NOT_CONFIGURED:
            return await self._changed(asked, result)
        return await self._changed(asked, *await _with_new_secret(asked, store))

    async def _changed(self, asked: Asked, result: Put, secret: Secret | None = None) -> Answer:
        endpoint = await _endpoint(asked)
        if result is not Put.CREATED or secret is None:
            return Answer(await _shown(asked, WebhookAnswer, endpoint))
        told, kept = [
            await _shown(asked, CreatedWebhook, endpoint, secret=shown)
            for shown in (secret.revealed.decode(), None)
        ]
        return Answer(told, 201, kept=kept)


async def rotate(asked: Asked) -> Answer:
    """Make a new secret; with an overlap the one before goes on signing for so long.

    NotHeld: as long as events are to be kept back, and are not yet (commands.when_held).
    """
    assert isinstance(asked.body, SecretRotation)
    overlap = timedelta(seconds=asked.body.overlap_seconds) or None
    await _endpoint(asked)
    store = partial(Endpoints(asked.database).rotate, asked.token, overlap=overlap, hold=asked.body.hold)
    rotated, secret = await _with_new_secret(asked, store)
    if rotated.result is Rotation.NOT_CONFIGURED:
        raise Refused(NOT_CONFIGURED)
    told, kept = (
        write(RotatedSecret, rotated, secret=shown, previous_secret_until=rotated.previous_until)
        for shown in (secret.revealed.decode(), None)
    )
    return Answer(told, kept=kept)


async def test(asked: Asked) -> Given:
    """Send a test event."""
    return await _give(asked, CommandName.TEST_EVENT)


async def pause(asked: Asked) -> Given:
    """Keep events back, in order."""
    return await _give(asked, CommandName.PAUSE)


async def resume(asked: Asked) -> Given:
    """Send what was kept back, and go on."""
    return await _give(asked, CommandName.RESUME)


def tested(command: OwnCommand) -> bytes:
    """Say what came of a test event."""
    result = command.result or {}
    return write(TestResult, **{name: result.get(name) for name in TestResult.model_fields})


def paused(command: OwnCommand) -> bytes:
    """Say whether events are kept back now."""
    return write(Paused, paused=command.command == CommandName.PAUSE)


async def _give(asked: Asked, command: CommandName) -> Given:
    await _endpoint(asked)
    return unless_refused(await Endpoints(asked.database).ask(asked.token, command))


async def _endpoint(asked: Asked) -> OwnEndpoint:
    if (endpoint := await Endpoints(asked.database).read(asked.token)) is None:
        raise Refused(NOT_CONFIGURED)
    return endpoint


async def _shown(asked: Asked, model: type[WebhookAnswer], endpoint: OwnEndpoint, **more: object) -> bytes:
    waiting = await Endpoints(asked.database).count_owed(asked.token)
    return write(model, endpoint, waiting=waiting, **more)


async def _with_new_secret(
    asked: Asked, store: Callable[[SealedSecret], Awaitable[Stored]]
) -> tuple[Stored, Secret]:
    """Make a secret and store it sealed, or refuse the request while there is nothing to seal it with."""
    try:
        return await store_new_secret(asked.bearer.merchant_id, Endpoints(asked.database).sealing_key, store)
    except NotSealed as error:
        _log.error("secret.unsealed", reason=str(error))
        raise Refused(UNAVAILABLE, headers={"Retry-After": "60"}) from None
