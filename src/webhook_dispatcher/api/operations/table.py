"""All operations, in one table: what is routed, limited, validated, documented and tested."""

from webhook_dispatcher.api.calls import FORM, JSON, Operation
from webhook_dispatcher.api.catalogue import (
    DELIVERY_NOT_FOUND,
    INVALID_URL,
    KEY_REVOKED,
    NO_SUCH_PATH,
    NOT_CONFIGURED,
    NOT_FOUND,
    STATE_FORBIDS,
    WRONG_CREDENTIALS,
)
from webhook_dispatcher.api.operations import auth, charges, commands, deliveries, events, webhook
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.transport.guard import Guard


def table(
    databases: Databases, limits: RateLimits, guard: Guard, has_feed: bool = True
) -> tuple[Operation, ...]:
    """Return every operation that we answer ourselves. has_feed: whether events can be read in order."""
    cursors = deliveries.OwnCursors()
    operations = _operations(databases, limits, guard, cursors)
    return (*operations, _feed(cursors)) if has_feed else operations


def _feed(cursors: deliveries.OwnCursors) -> Operation:
    return Operation(
        "GET",
        "/v1/events",
        "listEvents",
        events.Feed(cursors).list,
        summary="Read events, delivered or not, in an order that skips nothing, from where you had come to.",
        refusals=(NO_SUCH_PATH,),
        query=events.EventsQuery,
        answer=events.EventAnswer,
        is_list=True,
        meta=(events.DELAYED,),
    )


def _operations(
    databases: Databases, limits: RateLimits, guard: Guard, cursors: deliveries.OwnCursors
) -> tuple[Operation, ...]:
    issuing = auth.Issuing(databases, limits)
    putting = webhook.Putting(guard)
    lists = deliveries.Lists(cursors)
    return (
        Operation(
            "POST",
            "/v1/auth/token",
            "issueToken",
            issuing.issue,
            summary="Exchange credentials for an access token of one hour.",
            refusals=(WRONG_CREDENTIALS, KEY_REVOKED),
            body=auth.TokenRequest,
            form=auth.TokenForm,
            answer=auth.TokenAnswer,
            limit="token",
            content_types=(JSON, FORM),
            max_body=auth.MAX_BODY_BYTES,
        ),
        Operation(
            "GET",
            "/v1/charges/{id}",
            "readCharge",
            charges.show,
            summary="Read a charge, as its latest event tells it.",
            refusals=(NOT_FOUND,),
        ),
        Operation(
            "GET",
            "/v1/webhook",
            "readWebhook",
            webhook.show,
            summary="Read where events are sent, and how that fares.",
            refusals=(NOT_CONFIGURED,),
            answer=webhook.WebhookAnswer,
            shows_endpoint=True,
        ),
        Operation(
            "PUT",
            "/v1/webhook",
            "putWebhook",
            putting.put,
            summary="Set the URL that events go to; the first time, a signing secret is made and told once.",
            refusals=(INVALID_URL,),
            body=webhook.WebhookUrl,
            answer=webhook.WebhookAnswer,
            created=webhook.CreatedWebhook,
            idempotency="accepted",
            statuses=(200, 201),
        ),
        Operation(
            "DELETE",
            "/v1/webhook",
            "deleteWebhook",
            webhook.remove,
            summary="Stop sending events, and forget URL and secret.",
            refusals=(NOT_CONFIGURED,),
            answer=webhook.Removed,
            idempotency="accepted",
        ),
        Operation(
            "POST",
            "/v1/webhook/secret",
            "rotateSecret",
            webhook.rotate,
            summary="Make a new signing secret, which is told once; with `hold`, while nothing is sent.",
            refusals=(NOT_CONFIGURED, STATE_FORBIDS),
            body=webhook.SecretRotation,
            answer=webhook.RotatedSecret,
            idempotency="required",
        ),
        Operation(
            "POST",
            "/v1/webhook/test",
            "testWebhook",
            webhook.test,
            summary="Send a test event, and say what came of it.",
            refusals=(NOT_CONFIGURED, STATE_FORBIDS),
            answer=webhook.TestResult,
            outcome=webhook.tested,
            idempotency="required",
            statuses=(200, 202),
        ),
        Operation(
            "POST",
            "/v1/webhook/pause",
            "pauseWebhook",
            webhook.pause,
            summary="Keep events back, in order.",
            refusals=(NOT_CONFIGURED, STATE_FORBIDS),
            answer=webhook.Paused,
            outcome=webhook.paused,
            idempotency="required",
            statuses=(200, 202),
        ),
        Operation(
            "POST",
            "/v1/webhook/resume",
            "resumeWebhook",
            webhook.resume,
            summary="Send what was kept back, and go on.",
            refusals=(NOT_CONFIGURED, STATE_FORBIDS),
            answer=webhook.Paused,
            outcome=webhook.paused,
            idempotency="required",
            statuses=(200, 202),
        ),
        Operation(
            "GET",
            "/v1/deliveries",
            "listDeliveries",
            lists.list,
            summary="List deliveries, the newest first; a page may be short, even empty, and have a cursor.",
            query=deliveries.DeliveriesQuery,
            answer=deliveries.DeliveryAnswer,
            is_list=True,
        ),
        Operation(
            "POST",
            "/v1/deliveries/retry",
            "retryDeliveries",
            deliveries.retry_failed,
            summary="Attempt all deliveries again that were given up in a span of time.",
            refusals=(STATE_FORBIDS,),
            body=deliveries.RetryWindow,
            answer=commands.Accepted,
            idempotency="required",
            statuses=(202,),
        ),
        Operation(
            "GET",
            "/v1/deliveries/{eventId}",
            "readDelivery",
            deliveries.show,
            summary="Read one delivery, with its attempts and its payload.",
            refusals=(DELIVERY_NOT_FOUND,),
            answer=deliveries.WholeDeliveryAnswer,
        ),
        Operation(
            "POST",
            "/v1/deliveries/{eventId}/retry",
            "retryDelivery",
            deliveries.retry,
            summary="Attempt a delivery again: a failed one now, a waiting one before its time.",
            refusals=(NOT_CONFIGURED, DELIVERY_NOT_FOUND, STATE_FORBIDS),
            answer=deliveries.Retried,
            outcome=deliveries.retried,
            idempotency="required",
            statuses=(200, 202),
        ),
        Operation(
            "GET",
            "/v1/commands/{id}",
            "readCommand",
            commands.show,
            summary="Read how far a command has come.",
            refusals=(NOT_FOUND,),
            answer=commands.CommandAnswer,
        ),
    )
