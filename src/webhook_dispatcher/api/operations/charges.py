"""`GET /v1/charges/{id}`: a charge as its latest event tells it, where no charge service is asked."""

from webhook_dispatcher.api.calls import Answer, Asked, Refused
from webhook_dispatcher.api.catalogue import NOT_FOUND
from webhook_dispatcher.api.operations.deliveries import charges_refused
from webhook_dispatcher.storage.api.charges import Charges


async def show(asked: Asked) -> Answer:
    """Show a charge; another merchant's, or one of whose events none is kept any more, is not found."""
    with charges_refused():
        found = await Charges(asked.database).read_object(asked.token, asked.parameters["id"])
    if found is None:
        raise Refused(NOT_FOUND)
    return Answer(found)
