"""The steps that every request to the Partner API goes through, in their order (`Pipeline._carry_out`).

They are no middlewares of aiohttp: those see neither requests that cannot be parsed nor the header `Expect`.
Whatever a step refuses, and whatever goes wrong, becomes an error in the envelope: there is no other form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response as HttpResponse
from pydantic import BaseModel

from webhook_dispatcher.api import (
    card_attempts,
    envelope,
    faults,
    idempotency,
    memory,
    oauth,
    request_body,
    request_ids,
)
from webhook_dispatcher.api.admission import ByToken
from webhook_dispatcher.api.calls import (
    FORM,
    MAX_BODY_BYTES,
    ApiError,
    Caller,
    CommandAccepted,
    ForwardedOperation,
    Head,
    MerchantOperation,
    Operation,
    PublicOperation,
    Request,
    Response,
)
from webhook_dispatcher.api.catalogue import (
    CATALOGUE,
    INTERNAL,
    INVALID_TOKEN,
    METHOD_NOT_ALLOWED,
    NO_SUCH_PATH,
    UNAVAILABLE,
    entry_of,
)
from webhook_dispatcher.api.metrics import CLIENT_GONE, NO_OPERATION, ApiMetrics
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StillSending, StorageUnavailable
from webhook_dispatcher.domain.language import Language
from webhook_dispatcher.storage.api.database import TokenEnded
from webhook_dispatcher.web import clients, languages
from webhook_dispatcher.web.body import read_body
from webhook_dispatcher.web.faults import RequestRefused
from webhook_dispatcher.web.heads import examine, expects_continue, judge
from webhook_dispatcher.web.responses import respond
from webhook_dispatcher.web.router import NoSuchMethod, NoSuchPath, Router
from webhook_dispatcher.web.server import ADDRESS, HELD

T = TypeVar("T", bound=BaseModel)

_log = structlog.get_logger()


@dataclass(slots=True)
class Call:
    """What is needed to answer a request and to log it, however far it comes; no handler sees it.

    began: by the clock's `elapsed`. headers: those that say what is left of limits.
    """

    request_id: str
    language: Language
    began: float
    operation: str = NO_OPERATION
    max_body: int = MAX_BODY_BYTES
    is_oauth: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> dict[str, str]:
        """Return the ids that every line of the log names it by: the client's, and a new one of ours."""
        return {"request_id": self.request_id, "trace_id": request_ids.new_trace()}


class Pipeline:
    """Answers requests."""

    def __init__(
        self,
        router: Router[Operation],
        admission: ByToken,
        clock: Clock,
        metrics: ApiMetrics,
    ) -> None:
        self._router = router
        self._admission = admission
        self._clock = clock
        self._metrics = metrics
        self._read_memory, self._answer_memory = memory.new_share(), memory.new_share()

    async def __call__(self, request: BaseRequest) -> HttpResponse:
        """Answer a request, whatever happens."""
        call = self._begin(request)
        # Never unbound: each request is answered in a task of its own, and its context ends with that.
        structlog.contextvars.bind_contextvars(**call.names())
        try:
            response = await self._carry_out(call, request)
            success = envelope.success(response, self._meta(call), call.language)
            return self._send(call, request, success)
        except ApiError as refused:
            return self._refuse(call, request, refused)
        except RequestRefused as error:
            return self._refuse(call, request, faults.refused(error.fault, call.max_body))
        except TokenEnded:
            return self._refuse(call, request, ApiError(INVALID_TOKEN))
        except ConnectionError:
            self._metrics.count(call.operation, CLIENT_GONE, self._clock.elapsed() - call.began, None)
            _log.info("request.broken_off", operation=call.operation)
            raise
        except StorageUnavailable as error:
            _log.warning("request.unanswered", operation=call.operation, error=str(error))
            return self._refuse(call, request, ApiError(UNAVAILABLE, headers={"Retry-After": "1"}))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and never shown
            _log.error("request.failed", operation=call.operation, exc_info=error)
            return self._refuse(call, request, ApiError(INTERNAL))

    def _find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        try:
            return self._router.find(method, path)
        except NoSuchPath:
            raise ApiError(NO_SUCH_PATH) from None
        except NoSuchMethod as error:
            raise ApiError(METHOD_NOT_ALLOWED, headers={"Allow": error.allow}) from None

    async def _carry_out(self, call: Call, raw: BaseRequest) -> Response:
        """Go through all steps in their order: each is given what those before it found, or refuses."""
        path = examine(raw)
        expects = expects_continue(raw)
        operation, parameters = self._find(raw.method, path)
        call.operation, call.max_body = operation.name, operation.max_body
        form = operation.form if isinstance(operation, PublicOperation) else None
        if form is not None and request_body.content_type(raw.headers) == FORM:
            call.is_oauth, call.language = True, "en"
        request_body.check_head(raw, operation)
        head = Head(
            operation, parameters, call.request_id, call.language, raw.headers, raw.raw_path, raw[ADDRESS]
        )
        if isinstance(operation, PublicOperation):
            return await self._answer_anybody(operation, head, raw, expects)
        caller = await self._admission.admit(head)
        call.headers = caller.headers
        return await self._answer_merchant(operation, head, caller, raw, expects)

    async def _answer_anybody(
        self, operation: PublicOperation[T], head: Head, raw: BaseRequest, expects: bool
    ) -> Response:
        client = clients.subjects_of(head.address)[0]
        raw[HELD] = answer_memory = memory.Reservation(self._answer_memory, client)
        with memory.Reservation(self._read_memory, client) as read_memory:
            body = await _read(raw, operation.max_body, read_memory, expects, is_strangers=True)
            response = await operation.handler(
                head, request_body.parse(operation.input, head, body, operation.form)
            )
        answer_memory.cover(len(response.data))
        return response

    async def _answer_merchant(
        self,
        operation: MerchantOperation[T] | ForwardedOperation,
        head: Head,
        caller: Caller,
        raw: BaseRequest,
        expects: bool,
    ) -> Response:
        client = caller.bearer.merchant_id
        raw[HELD] = answer_memory = memory.Reservation(self._answer_memory, client)
        async with card_attempts.released_unless_made(caller.attempt):
            with memory.Reservation(self._read_memory, client) as read_memory:
                body = await _read(raw, operation.max_body, read_memory, expects, is_strangers=False)
                request = Request(head, caller, body, answer_memory.grow)
                if isinstance(operation, ForwardedOperation):
                    response = await operation.handler(request)
                else:
                    response = await idempotency.once(operation, request, partial(_handle, operation))
        answer_memory.cover(len(response.data))
        return response

    def refuse_unparsed(self, raw: BaseRequest, error: BaseException | None) -> HttpResponse:
        """Answer a request that could not be parsed: nothing of it is known, not even its headers."""
        call = self._begin(raw)
        fault = judge(error)
        with structlog.contextvars.bound_contextvars(**call.names()):
            if fault is None:
                _log.error("request.failed", exc_info=error)
                return self._refuse(call, raw, ApiError(INTERNAL, closes=True))
            return self._refuse(call, raw, faults.refused(fault))

    def _begin(self, raw: BaseRequest) -> Call:
        headers = raw.headers
        return Call(
            request_ids.choose(headers.get(request_ids.HEADER)),
            languages.choose(headers.get("Accept-Language")),
            self._clock.elapsed(),
        )

    def _refuse(self, call: Call, raw: BaseRequest, refused: ApiError) -> HttpResponse:
        code = INTERNAL if entry_of(refused.code) is CATALOGUE[INTERNAL] else refused.code
        if code != refused.code:
            _log.error("code.unknown", operation=call.operation, code=refused.code)
        write = oauth.error if call.is_oauth else envelope.error
        finished = write(refused, self._meta(call), call.language)
        return self._send(call, raw, finished, code, refused.closes)

    def _send(
        self,
        call: Call,
        raw: BaseRequest,
        finished: envelope.Envelope,
        refused: int | None = None,
        closes: bool = False,
    ) -> HttpResponse:
        headers = {"Cache-Control": "no-store", **call.headers, **finished.headers}
        if finished.status == 401:
            headers.setdefault("WWW-Authenticate", "Bearer")
        response = respond(raw, finished.status, finished.body, headers, is_last=closes)
        took = self._clock.elapsed() - call.began
        self._metrics.count(call.operation, finished.status, took, refused)
        return response

    def _meta(self, call: Call) -> envelope.Meta:
        return envelope.Meta(call.request_id, self._clock.unix(), self._clock.elapsed() - call.began)


async def _read(
    raw: BaseRequest, most: int, read_memory: memory.Reservation, expects: bool, *, is_strangers: bool
) -> bytes:
    if not raw.body_exists:
        return b""
    return await read_body(raw, most, read_memory.grow, is_strangers=is_strangers, expects_continue=expects)


async def _handle(
    operation: MerchantOperation[T], request: Request
) -> Response | CommandAccepted | StillSending:
    return await operation.handler(request, request_body.parse(operation.input, request.head, request.body))
