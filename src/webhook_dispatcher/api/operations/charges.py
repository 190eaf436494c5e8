"""`GET /v1/charges/{id}`: a charge as its latest event tells it, where no charge service is asked."""

from webhook_dispatcher.api.calls import ApiError, Request, Response
from webhook_dispatcher.api.catalogue import NOT_FOUND
from webhook_dispatcher.api.operations.deliveries import charges_refused
from webhook_dispatcher.api.validation import Nothing
from webhook_dispatcher.storage.api.charges import Charges


async def show(request: Request, _: Nothing) -> Response:
    """Show a charge; another merchant's, or one of whose events none is kept any more, is not found."""
    with charges_refused():
        found = await Charges(request.caller.database).read_object(
            request.caller.token, request.head.parameters["id"]
        )
    if found is None:
        raise ApiError(NOT_FOUND)
    return Response(found)
