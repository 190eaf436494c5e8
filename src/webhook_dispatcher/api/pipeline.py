"""The steps that every request to the Partner API goes through, in their order (`Pipeline._carry_out`).

They are no middlewares of aiohttp: those see neither requests that cannot be parsed nor the header `Expect`.
Whatever a step refuses, and whatever goes wrong, becomes an error in the envelope: there is no other form.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response as HttpResponse

from webhook_dispatcher.api import card_attempts, envelope, faults, memory, oauth, request_body, request_ids
from webhook_dispatcher.api.admission import ByToken
from webhook_dispatcher.api.calls import (
    FORM,
    MAX_BODY_BYTES,
    NOT_ADMITTED,
    Admitted,
    ApiError,
    CommandAccepted,
    Operation,
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
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.language import Language
from webhook_dispatcher.storage.api.database import TokenEnded
from webhook_dispatcher.web import clients, languages
from webhook_dispatcher.web.body import read_body
from webhook_dispatcher.web.faults import RequestRefused
from webhook_dispatcher.web.heads import examine, expects_continue, judge
from webhook_dispatcher.web.responses import respond
from webhook_dispatcher.web.router import NoSuchMethod, NoSuchPath, Router
from webhook_dispatcher.web.server import ADDRESS, HELD

_log = structlog.get_logger()


class Idempotency(Protocol):
    """The same request twice has one effect and one answer."""

    async def once(
        self, request: Request, carry_out: Callable[[Request], Awaitable[Response | CommandAccepted]]
    ) -> Response:
        """Carry it out, or say what came of it before; a refusal counts as an answer."""
        ...


@dataclass(slots=True)
class Call:
    """What is needed to answer a request and to log it, even where nothing else of it is known."""

    request_id: str
    language: Language
    began: float
    operation: str = NO_OPERATION
    max_body: int = MAX_BODY_BYTES
    is_oauth: bool = False
    admitted: Admitted = NOT_ADMITTED

    def names(self) -> dict[str, str]:
        """Return the ids that every line of the log names it by: the client's, and a new one of ours."""
        return {"request_id": self.request_id, "trace_id": request_ids.new_trace()}


class Pipeline:
    """Answers requests."""

    def __init__(
        self,
        router: Router[Operation],
        admission: ByToken,
        idempotency: Idempotency,
        clock: Clock,
        metrics: ApiMetrics,
    ) -> None:
        self._router = router
        self._admission = admission
        self._idempotency = idempotency
        self._clock = clock
        self._metrics = metrics
        self._read_memory, self._answer_memory = memory.new_share(), memory.new_share()

    async def __call__(self, request: BaseRequest) -> HttpResponse:
        """Answer a request, whatever happens."""
        call = self._begin(request)
        # Never unbound: each request is answered in a task of its own, and its context ends with that.
        structlog.contextvars.bind_contextvars(**call.names())
        try:
            return self._succeed(call, request, await self._carry_out(call, request))
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
        """Go through all steps in their order; each adds to what is known of the request, or refuses it."""
        path = examine(raw)
        expects = expects_continue(raw)
        operation, parameters = self._find(raw.method, path)
        call.operation, call.max_body = operation.name, operation.max_body
        if operation.form is not None and request_body.content_type(raw.headers) == FORM:
            call.is_oauth, call.language = True, "en"
        request_body.check_head(raw, operation)
        request = Request(
            request_id=call.request_id,
            language=call.language,
            operation=operation,
            parameters=parameters,
            headers=raw.headers,
            target=raw.raw_path,
            address=raw[ADDRESS],
            began=call.began,
        )
        request.admitted = call.admitted = await self._admission.admit(request)
        client = _client_of(request, call.admitted)
        raw[HELD] = reserved = memory.Reservation(self._answer_memory, client)
        request.take_memory = reserved.grow
        async with card_attempts.released_unless_made(call.admitted.attempt):
            answer = await self._answer(request, client, raw, expects)
        reserved.cover(len(answer.data))
        return answer

    async def _answer(self, request: Request, client: str, raw: BaseRequest, expects: bool) -> Response:
        if not raw.body_exists:
            return await self._idempotency.once(request, self._handle)
        with memory.Reservation(self._read_memory, client) as reservation:
            request.raw_body = await read_body(
                raw,
                request.operation.max_body,
                reservation.grow,
                is_strangers=request.admitted.bearer is None,
                expects_continue=expects,
            )
            return await self._idempotency.once(request, self._handle)

    async def _handle(self, request: Request) -> Response | CommandAccepted:
        """Read query and body by the operation's models, and carry the operation out."""
        operation, language = request.operation, request.language
        request.query = request_body.parse_query(operation, request.target.partition("?")[2], language)
        if operation.takes_body:
            kind = request_body.content_type(request.headers)
            request.body = request_body.parse(operation, request.raw_body, kind, language)
        return await operation.handler(request)

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

    def _succeed(self, call: Call, raw: BaseRequest, answer: Response) -> HttpResponse:
        return self._send(call, raw, envelope.success(answer, self._meta(call), call.language))

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
        headers = {"Cache-Control": "no-store", **call.admitted.headers, **finished.headers}
        if finished.status == 401:
            headers.setdefault("WWW-Authenticate", "Bearer")
        response = respond(raw, finished.status, finished.body, headers, is_last=closes)
        took = self._clock.elapsed() - call.began
        self._metrics.count(call.operation, finished.status, took, refused)
        return response

    def _meta(self, call: Call) -> envelope.Meta:
        return envelope.Meta(call.request_id, self._clock.unix(), self._clock.elapsed() - call.began)


def _client_of(request: Request, admitted: Admitted) -> str:
    """Name whose share of memory body and answer take: the merchant, or without a token the address."""
    return admitted.bearer.merchant_id if admitted.bearer else clients.subjects_of(request.address)[0]
