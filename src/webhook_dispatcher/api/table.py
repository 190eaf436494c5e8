"""All operations, in one table: what is routed, limited, validated, documented and tested."""

from webhook_dispatcher.api import auth, charges, commands, deliveries, webhook
from webhook_dispatcher.api.admission import Databases
from webhook_dispatcher.api.operations import FORM, JSON, Operation
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.transport.guard import Guard


def table(databases: Databases, limits: RateLimits, guard: Guard) -> tuple[Operation, ...]:
    """Return every operation that we answer ourselves."""
    issuing = auth.Issuing(databases, limits)
    putting = webhook.Putting(guard)
    lists = deliveries.Lists()
    return (
        Operation(
            "POST",
            "/v1/auth/token",
            "issueToken",
            issuing.issue,
            body=auth.TokenRequest,
            form=auth.TokenForm,
            answer=auth.TokenAnswer,
            limit="token",
            content_types=(JSON, FORM),
            is_secret=True,
        ),
        Operation("GET", "/v1/charges/{id}", "readCharge", charges.show),
        Operation(
            "GET",
            "/v1/webhook",
            "readWebhook",
            webhook.show,
            answer=webhook.WebhookAnswer,
            shows_endpoint=True,
        ),
        Operation(
            "PUT",
            "/v1/webhook",
            "putWebhook",
            putting.put,
            body=webhook.WebhookUrl,
            answer=webhook.CreatedWebhook,
            idempotency="accepted",
            statuses=(200, 201),
            is_secret=True,
        ),
        Operation(
            "DELETE",
            "/v1/webhook",
            "deleteWebhook",
            webhook.remove,
            answer=webhook.Removed,
            idempotency="accepted",
        ),
        Operation(
            "POST",
            "/v1/webhook/secret",
            "rotateSecret",
            webhook.rotate,
            body=webhook.Overlap,
            answer=webhook.RotatedSecret,
            idempotency="required",
            is_secret=True,
        ),
        Operation(
            "POST",
            "/v1/webhook/test",
            "testWebhook",
            webhook.test,
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
            query=deliveries.DeliveriesQuery,
            answer=deliveries.DeliveryAnswer,
            is_list=True,
        ),
        Operation(
            "POST",
            "/v1/deliveries/retry",
            "retryDeliveries",
            deliveries.retry_failed,
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
            answer=deliveries.WholeDeliveryAnswer,
        ),
        Operation(
            "POST",
            "/v1/deliveries/{eventId}/retry",
            "retryDelivery",
            deliveries.retry,
            answer=deliveries.Retried,
            outcome=deliveries.retried,
            idempotency="required",
            statuses=(200, 202),
        ),
        Operation("GET", "/v1/commands/{id}", "readCommand", commands.show, answer=commands.CommandAnswer),
    )
