"""`GET /v1/charges/{id}`: a charge as its latest event tells it, byte for byte, where no charge service is asked."""


from webhook_dispatcher.api.calls import Answer, Asked, Refused
from webhook_dispatcher.api.catalogue import NOT_FOUND
from webhook_dispatcher.api.deliveries import charges_refused
from webhook_dispatcher.storage.api.charges import Charges


async def show(asked: Asked) -> Answer:
    """Show a charge; one that is another merchant's, or of whose events none is kept any more, is not found."""
    assert asked.bearer is not None
    with charges_refused():
        found = await Charges(asked.database).read_object(asked.bearer.token_hash, asked.parameters["id"])
    if found is None:
        raise Refused(NOT_FOUND)
    return Answer(found)
