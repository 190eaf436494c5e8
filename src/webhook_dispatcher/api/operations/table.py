"""All operations, in one table: what is routed, limited, validated, documented and tested."""

from webhook_dispatcher.api.calls import FORM, JSON, MerchantOperation, Operation, PublicOperation
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
from webhook_dispatcher.api.validation import Nothing
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.transport.guard import Guard


def table(
    databases: Databases, limits: RateLimits, guard: Guard, has_feed: bool = True
) -> tuple[Operation, ...]:
    """Return every operation that we answer ourselves. has_feed: whether events can be read in order."""
    cursors = deliveries.OwnCursors()
    issuing = auth.Issuing(databases, limits)
    putting = webhook.Putting(guard)
    lists = deliveries.Lists(cursors)
    feed = MerchantOperation(
        "GET",
        "/v1/events",
        "listEvents",
        events.EventsQuery,
        events.Feed(cursors).list,
        summary="Read events, delivered or not, in an order that skips nothing, from where you had come to.",
        refusals=(NO_SUCH_PATH,),
        answer=events.EventAnswer,
        is_list=True,
        meta=(events.DELAYED,),
    )
    operations: tuple[Operation, ...] = (
        PublicOperation[auth.TokenRequest | auth.TokenForm](
            "POST",
            "/v1/auth/token",
            "issueToken",
            auth.TokenRequest,
            issuing.issue,
            summary="Exchange credentials for an access token of one hour.",
            refusals=(WRONG_CREDENTIALS, KEY_REVOKED),
            form=auth.TokenForm,
            answer=auth.TokenAnswer,
            limit="token",
            content_types=(JSON, FORM),
            max_body=auth.MAX_BODY_BYTES,
        ),
        MerchantOperation(
            "GET",
            "/v1/charges/{id}",
            "readCharge",
            Nothing,
            charges.show,
            summary="Read a charge, as its latest event tells it.",
            refusals=(NOT_FOUND,),
        ),
        *_of_an_endpoint("/v1/webhook", "", putting),
        MerchantOperation(
            "GET",
            "/v1/webhooks",
            "listWebhooks",
            Nothing,
            webhook.list_all,
            summary="List your endpoints: where which events are sent, and how that fares.",
            answer=webhook.WebhookAnswer,
            is_list=True,
        ),
        MerchantOperation(
            "POST",
            "/v1/webhooks",
            "addWebhook",
            webhook.NewWebhook,
            putting.add,
            summary="Add an endpoint, which gets what happens from now on; its secret is told once.",
            refusals=(INVALID_URL, STATE_FORBIDS),
            created=webhook.CreatedWebhook,
            idempotency="required",
            statuses=(201,),
        ),
        *_of_an_endpoint("/v1/webhooks/{endpointId}", "ById", putting),
        MerchantOperation(
            "GET",
            "/v1/deliveries",
            "listDeliveries",
            deliveries.DeliveriesQuery,
            lists.list,
            summary="List deliveries, the newest first; a page may be short, even empty, and have a cursor.",
            refusals=(NOT_CONFIGURED,),
            answer=deliveries.DeliveryAnswer,
            is_list=True,
        ),
        MerchantOperation(
            "POST",
            "/v1/deliveries/retry",
            "retryDeliveries",
            deliveries.RetryWindow,
            deliveries.retry_failed,
            summary="Attempt all deliveries again that were given up in a span of time.",
            refusals=(NOT_CONFIGURED, STATE_FORBIDS),
            answer=commands.Accepted,
            idempotency="required",
            statuses=(202,),
        ),
        MerchantOperation(
            "GET",
            "/v1/deliveries/{eventId}",
            "readDelivery",
            Nothing,
            deliveries.show,
            summary="Read one delivery, by its id or its event's, with its attempts and its payload.",
            refusals=(DELIVERY_NOT_FOUND,),
            answer=deliveries.WholeDeliveryAnswer,
        ),
        MerchantOperation(
            "POST",
            "/v1/deliveries/{eventId}/retry",
            "retryDelivery",
            Nothing,
            deliveries.retry,
            summary="Attempt a delivery, or all of an event, again: now, beside the schedule of what waits.",
            refusals=(NOT_CONFIGURED, DELIVERY_NOT_FOUND, STATE_FORBIDS),
            answer=deliveries.Retried,
            outcome=deliveries.retried,
            idempotency="required",
            statuses=(200, 202),
        ),
        MerchantOperation(
            "GET",
            "/v1/commands/{id}",
            "readCommand",
            Nothing,
            commands.show,
            summary="Read how far a command has come.",
            refusals=(NOT_FOUND,),
            answer=commands.CommandAnswer,
        ),
    )
    return (*operations, feed) if has_feed else operations


def _of_an_endpoint(path: str, suffix: str, putting: webhook.Putting) -> tuple[Operation, ...]:
    """Return what is done with one endpoint. suffix: of the operations' names."""
    is_first = not suffix
    return (
        MerchantOperation(
            "GET",
            path,
            f"readWebhook{suffix}",
            Nothing,
            webhook.show,
            summary="Read where events are sent, and how that fares.",
            refusals=(NOT_CONFIGURED,),
            answer=webhook.WebhookAnswer,
            shows_endpoint=is_first,
        ),
        MerchantOperation(
            "PUT",
            path,
            f"putWebhook{suffix}",
            webhook.WebhookUrl,
            putting.put,
            summary="Set where which events go, in which order"
            + ("; the first time, a secret is told once." if is_first else "."),
            refusals=(INVALID_URL, NOT_CONFIGURED),
            answer=webhook.WebhookAnswer,
            created=webhook.CreatedWebhook if is_first else None,
            idempotency="accepted",
            statuses=(200, 201) if is_first else (200,),
        ),
        MerchantOperation(
            "DELETE",
            path,
            f"deleteWebhook{suffix}",
            Nothing,
            webhook.remove,
            summary="Stop sending events, and forget URL and secret.",
            refusals=(NOT_CONFIGURED,),
            answer=webhook.Removed,
            idempotency="accepted",
        ),
        MerchantOperation(
            "POST",
            f"{path}/secret",
            f"rotateSecret{suffix}",
            webhook.SecretRotation,
            webhook.rotate,
            summary="Make a new signing secret, which is told once; with `hold`, while nothing is sent.",
            refusals=(NOT_CONFIGURED, STATE_FORBIDS),
            answer=webhook.RotatedSecret,
            idempotency="required",
        ),
        MerchantOperation(
            "POST",
            f"{path}/test",
            f"testWebhook{suffix}",
            Nothing,
            webhook.test,
            summary="Send a test event, and say what came of it.",
            refusals=(NOT_CONFIGURED, STATE_FORBIDS),
            answer=webhook.TestResult,
            outcome=webhook.tested,
            idempotency="required",
            statuses=(200, 202),
        ),
        MerchantOperation(
            "POST",
            f"{path}/pause",
            f"pauseWebhook{suffix}",
            Nothing,
            webhook.pause,
            summary="Keep events back, in order.",
            refusals=(NOT_CONFIGURED, STATE_FORBIDS),
            answer=webhook.Paused,
            outcome=webhook.paused,
            idempotency="required",
            statuses=(200, 202),
        ),
        MerchantOperation(
            "POST",
            f"{path}/resume",
            f"resumeWebhook{suffix}",
            Nothing,
            webhook.resume,
            summary="Send what was kept back, and go on.",
            refusals=(NOT_CONFIGURED, STATE_FORBIDS),
            answer=webhook.Paused,
            outcome=webhook.paused,
            idempotency="required",
            statuses=(200, 202),
        ),
    )
