"""Operations that the charge service carries out: which there are, and what its answers mean to a client.

Credentials, limits and the idempotency key were checked before (`pipeline`, `claims`).
Source: docs/producers/charge-service.md.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

import structlog

from webhook_dispatcher.api import request_body
from webhook_dispatcher.api.calls import (
    ApiError,
    Detail,
    ForwardedOperation,
    Head,
    IdempotencyRule,
    Operation,
    Request,
    Response,
)
from webhook_dispatcher.api.catalogue import (
    CARD_OF_ANOTHER,
    CATALOGUE,
    INTERNAL,
    NOT_FOUND,
    RANGES,
    UNAVAILABLE,
    UPSTREAM_AWAY,
    UPSTREAM_TOO_SLOW,
)
from webhook_dispatcher.api.charge_service.upstream import (
    MAX_CONNECTIONS,
    Unaddressable,
    Upstream,
    UpstreamRequest,
    target_of,
)
from webhook_dispatcher.api.charge_service.upstream_answers import (
    Forwarded,
    KnownCodes,
    Reply,
    UpstreamAway,
    UpstreamBroken,
    UpstreamError,
    UpstreamTooSlow,
)
from webhook_dispatcher.api.fair_share import FairShare
from webhook_dispatcher.api.validation import MAX_DETAILS, MAX_FIELD, Nothing

PUBLISHED = [range(known.last, known.first + 1) for known in RANGES]
VALIDATION = PUBLISHED[0]
CODES = KnownCodes(
    statuses={code: entry.status for code, entry in CATALOGUE.items() if entry.status is not None},
    ranges=PUBLISHED,
    validation=VALIDATION,
)
CONFIRM = "/v1/cards/{id}/confirm"
ROWS = (
    ("POST", "/v1/cards", "bindCard", "Bind a card; it is active once it was confirmed."),
    ("GET", "/v1/cards/{id}", "readCard", "Read a card."),
    ("DELETE", "/v1/cards/{id}", "deleteCard", "Remove a card."),
    (
        "POST",
        CONFIRM,
        "confirmCard",
        "Confirm the binding of a card, with the code that its holder was sent.",
    ),
    ("POST", "/v1/charges", "createCharge", "Make a charge, split between recipients."),
    ("GET", "/v1/charges/{id}", "readCharge", "Read a charge."),
    ("POST", "/v1/charges/{id}/reverse", "reverseCharge", "Reverse a charge."),
    ("POST", "/v1/recipients", "createRecipient", "Add a recipient of shares."),
    ("GET", "/v1/recipients", "listRecipients", "List recipients."),
    ("GET", "/v1/recipients/{id}", "readRecipient", "Read a recipient."),
    ("PATCH", "/v1/recipients/{id}", "changeRecipient", "Change a recipient."),
    ("POST", "/v1/customers", "createCustomer", "Add a customer."),
    ("GET", "/v1/customers/{externalUserId}", "readCustomer", "Read a customer."),
    ("PATCH", "/v1/customers/{externalUserId}", "changeCustomer", "Change a customer."),
    ("GET", "/v1/merchants/{id}", "readMerchant", "Read a merchant."),
    ("PATCH", "/v1/merchants/{id}", "changeMerchant", "Change a merchant."),
    (
        "PUT",
        "/v1/merchants/{id}/fiscal-profile",
        "putFiscalProfile",
        "Set the fiscal profile, by which receipts are issued.",
    ),
)
"""Method, template, name, summary. Source: contract 7, the table of what is forwarded."""
MAX_AT_ONCE = MAX_CONNECTIONS // 4
"""Requests of one merchant that may be there at once while no other merchant has any there."""
OUTCOMES: Mapping[type[Reply], str] = {
    Forwarded: "answered",
    UpstreamError: "refused",
    UpstreamAway: "away",
    UpstreamTooSlow: "too_slow",
    UpstreamBroken: "broken",
}
IDEMPOTENCY: Mapping[str, IdempotencyRule] = {
    **{"GET": "none", "POST": "required"},
    **dict.fromkeys(("PUT", "PATCH", "DELETE"), "accepted"),
}

_log = structlog.get_logger()


class OutcomeUnknown(ApiError):
    """The charge service may have acted, and nobody knows."""


class Forwarding:
    """Asks the charge service."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._share = FairShare(MAX_CONNECTIONS, MAX_AT_ONCE)
        self._count: Callable[[str], None] = lambda _outcome: None

    @asynccontextmanager
    async def opened(self, count: Callable[[str], None]) -> AsyncIterator[None]:
        """Keep connections while entered; count: is told of each outcome, by one of OUTCOMES."""
        self._count = count
        async with self._upstream:
            yield

    async def forward(self, request: Request, idempotency_key: str | None) -> Response:
        """Have the charge service carry it out. idempotency_key: the derived one, if the request has a key.

        Errors: OutcomeUnknown where it may have acted; after any other ApiError it has not.
        """
        outgoing = _outgoing(request, idempotency_key)
        with self._one_of_a_few(request.caller.bearer.merchant_id):
            return await self._forward(request, outgoing)

    async def _forward(self, request: Request, outgoing: UpstreamRequest) -> Response:
        attempt = request.caller.attempt
        if attempt is not None:
            attempt.is_made = True
        try:
            reply = await self._upstream.forward(outgoing, request.take_memory)
        except ApiError as refused:
            _log.warning(
                "upstream.crowded", error="answers that are not read yet take all memory there is for them"
            )
            raise OutcomeUnknown(refused.code, headers=refused.headers) from None
        self._count(OUTCOMES[type(reply)])
        if attempt is not None:
            attempt.is_made = _is_attempt(reply)
        if isinstance(reply, Forwarded):
            return Response(reply.data, reply.status)
        raise _refusal(reply)

    @contextmanager
    def _one_of_a_few(self, merchant_id: str) -> Iterator[None]:
        """Refuse a request while the merchant has its share there.

        It does not wait for its turn: its key is claimed already, and the claim could run out meanwhile.
        """
        if not self._share.take(merchant_id):
            _log.warning("upstream.crowded", error="a merchant has its share of requests there already")
            raise ApiError(UNAVAILABLE, headers={"Retry-After": "1"})
        try:
            yield
        finally:
            self._share.release(merchant_id)


def operations(handler: Callable[[Request], Awaitable[Response]]) -> tuple[ForwardedOperation, ...]:
    """Return the rows for the table."""
    return tuple(
        ForwardedOperation(
            method,
            template,
            name,
            Nothing,
            handler,
            summary=summary,
            limit="card" if template == CONFIRM else "key",
            idempotency=IDEMPOTENCY[method],
            statuses=(200, 201, 202),
        )
        for method, template, name, summary in ROWS
    )


def instead(ours: Sequence[Operation], forwarded: Sequence[Operation]) -> tuple[Operation, ...]:
    """Put both tables together; where both have a method and path, the charge service's operation counts."""
    taken = {(operation.method, operation.template) for operation in forwarded}
    return (*(one for one in ours if (one.method, one.template) not in taken), *forwarded)


def target(head: Head, query: Sequence[tuple[str, str]] = ()) -> str:
    """Return the path with query as the charge service gets it, in one form however the client encoded it.

    Errors: ApiError, as for what does not exist, where no such path can be sent.
    """
    try:
        return target_of(head.operation.template, head.parameters, query)
    except Unaddressable:
        raise ApiError(NOT_FOUND) from None


def _outgoing(request: Request, idempotency_key: str | None) -> UpstreamRequest:
    """Check what is ours to check: any fields with GET, no query otherwise, and a body that is JSON."""
    head, body = request.head, request.body
    query: tuple[tuple[str, str], ...] = ()
    if head.operation.method == "GET":
        query = tuple(request_body.fields_of(head.target.partition("?")[2], head.language).items())
    else:
        request_body.parse_query(Nothing, head)
    if body:
        request_body.decode(body)
    target(head, query)
    return UpstreamRequest(
        method=head.operation.method,
        template=head.operation.template,
        parameters=head.parameters,
        query=query,
        merchant_id=request.caller.bearer.merchant_id,
        request_id=head.request_id,
        language=head.language,
        body=body or None,
        idempotency_key=idempotency_key,
    )


def _is_attempt(reply: Reply) -> bool:
    """Tell whether a code may have been tried: not at another merchant's card, nor where nothing was sent."""
    match reply:
        case UpstreamError(code=code):
            return code != CARD_OF_ANOTHER
        case UpstreamAway(may_have_acted=may_have_acted):
            return may_have_acted
        case _:
            return True


def _refusal(reply: UpstreamError | UpstreamAway | UpstreamTooSlow | UpstreamBroken) -> ApiError:
    match reply:
        case UpstreamError():
            headers = {} if reply.retry_after is None else {"Retry-After": str(reply.retry_after)}
            details = tuple(
                Detail(problem.field[:MAX_FIELD], problem.message) for problem in reply.details[:MAX_DETAILS]
            )
            return ApiError(reply.code, details, headers, reply.extra, status=reply.status)
        case UpstreamAway(may_have_acted=may_have_acted):
            _log.warning("upstream.away", reason=reply.detail)
            kind = OutcomeUnknown if may_have_acted else ApiError
            return kind(UPSTREAM_AWAY, headers={"Retry-After": "1"})
        case UpstreamTooSlow():
            _log.warning("upstream.too_slow", reason=reply.detail)
            return OutcomeUnknown(UPSTREAM_TOO_SLOW, headers={"Retry-After": "1"})
        case UpstreamBroken():
            _log.error("upstream.broken", reason=reply.detail)
            return OutcomeUnknown(INTERNAL)
