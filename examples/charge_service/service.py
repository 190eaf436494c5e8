"""The charge service behind HTTP: who asks, what is asked, and what is answered.

It is reached by the Partner API alone, and believes what that says in its headers: `Service-Merchant-Id`
(percent-encoded), `X-Request-Id`, `Idempotency-Key`, `Accept-Language`. A request without the first one gets
401.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from examples.charge_service import fields, problems
from examples.charge_service.directory import Directory
from examples.charge_service.ledger import Change, Ledger, to_json
from examples.charge_service.misbehaviour import Misbehaviour
from examples.charge_service.once import Answer, Once
from examples.charge_service.outbox import Outbox
from examples.charge_service.problems import Problem, Refused

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Act = Callable[[web.Request, str, bytes], Awaitable[Answer]]
Keep = Callable[[str, str, Mapping[str, Any]], object]
"""Of Directory: who asks, who is named by the path (or else the key), and what was sent."""

_VALIDATION = range(-1009, -1000)
_log = logging.getLogger(__name__)


class ChargeService:
    """The operations; `application` has their routes.

    misbehaviour: for tests; without it there is no such route.
    """

    def __init__(
        self,
        outbox: Outbox,
        misbehaviour: Misbehaviour | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._outbox = outbox
        self._misbehaviour = misbehaviour
        self._ledger = Ledger(now)
        self._directory = Directory()
        self._once = Once()
        self._changing = asyncio.Lock()

    def application(self) -> web.Application:
        """Put the routes together."""
        middlewares = [self._misbehaviour.middleware] if self._misbehaviour else []
        application = web.Application(middlewares=middlewares, client_max_size=1 << 20)
        application.add_routes(
            [
                web.post("/v1/cards", self._answering(self._bind_card)),
                web.get("/v1/cards/{id}", self._answering(self._show_card)),
                web.delete("/v1/cards/{id}", self._answering(self._remove_card)),
                web.post("/v1/cards/{id}/confirm", self._answering(self._confirm_card)),
                web.post("/v1/charges", self._answering(self._create_charge)),
                web.get("/v1/charges/{id}", self._answering(self._show_charge)),
                web.post("/v1/charges/{id}/reverse", self._answering(self._reverse_charge)),
                *self._routes_of_directory(),
            ]
        )
        if self._misbehaviour:
            application.router.add_post("/misbehaviour", self._misbehaviour.handle)
        return application

    def _routes_of_directory(self) -> list[web.RouteDef]:
        directory = self._directory

        def route(method: str, template: str, keep: Keep) -> web.RouteDef:
            return web.route(method, template, self._answering(_keeping(keep)))

        return [
            route("POST", "/v1/recipients", directory.add_recipient),
            route("GET", "/v1/recipients", directory.list_recipients),
            route("GET", "/v1/recipients/{id}", directory.recipient),
            route("PATCH", "/v1/recipients/{id}", directory.change_recipient),
            route("POST", "/v1/customers", directory.add_customer),
            route("GET", "/v1/customers/{id}", directory.customer),
            route("PATCH", "/v1/customers/{id}", directory.change_customer),
            route("GET", "/v1/merchants/{id}", directory.merchant),
            route("PATCH", "/v1/merchants/{id}", directory.change_merchant),
            route("PUT", "/v1/merchants/{id}/fiscal-profile", directory.put_fiscal_profile),
        ]

    def _answering(self, act: Act) -> Handler:
        """Make a handler of an operation: who asks, once for each key, refusals as answers."""

        async def handle(request: web.Request) -> web.StreamResponse:
            merchant_id = unquote(request.headers.get("Service-Merchant-Id", ""))
            if not merchant_id:
                raise web.HTTPUnauthorized
            body = await request.read()
            _log.info("request %s of %s", request.headers.get("X-Request-Id", "-"), merchant_id)

            async def acted() -> Answer:
                try:
                    return await act(request, merchant_id, body)
                except Refused as refused:
                    return _answer_to(refused.problem)

            answer = await self._once_for_its_key(request, body, acted)
            return web.Response(status=answer.status, text=answer.text, content_type="application/json")

        return handle

    async def _once_for_its_key(
        self, request: web.Request, body: bytes, act: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        key = request.headers.get("Idempotency-Key")
        try:
            if key is not None:
                return await self._once.answer(key, body, act, _may_be_kept)
            if request.method == "POST":
                raise Refused(problems.KEY_MISSING)
        except Refused as refused:
            return _answer_to(refused.problem)
        return await act()

    async def _bind_card(self, request: web.Request, merchant_id: str, body: bytes) -> Answer:
        number = fields.card_number(_object(body))
        return _success(201, self._ledger.bind_card(merchant_id, number, request.headers["Idempotency-Key"]))

    async def _show_card(self, request: web.Request, merchant_id: str, _body: bytes) -> Answer:
        return _success(200, self._ledger.card(merchant_id, request.match_info["id"]))

    async def _remove_card(self, request: web.Request, merchant_id: str, _body: bytes) -> Answer:
        self._ledger.remove_card(merchant_id, request.match_info["id"])
        return Answer(204, "")

    async def _confirm_card(self, request: web.Request, merchant_id: str, body: bytes) -> Answer:
        code = fields.confirmation_code(_object(body))
        return _success(200, self._ledger.confirm_card(merchant_id, request.match_info["id"], code))

    async def _create_charge(self, request: web.Request, merchant_id: str, body: bytes) -> Answer:
        wanted = fields.new_charge(_object(body))
        key = request.headers["Idempotency-Key"]
        return await self._change(
            merchant_id, 201, lambda: self._ledger.plan_charge(merchant_id, wanted, key)
        )

    async def _show_charge(self, request: web.Request, merchant_id: str, _body: bytes) -> Answer:
        return _success(200, self._ledger.charge(merchant_id, request.match_info["id"]))

    async def _reverse_charge(self, request: web.Request, merchant_id: str, body: bytes) -> Answer:
        charge_id, version = request.match_info["id"], fields.version(_object(body))
        return await self._change(
            merchant_id, 200, lambda: self._ledger.plan_reversal(merchant_id, charge_id, version)
        )

    async def _change(self, merchant_id: str, status: int, plan: Callable[[], Change]) -> Answer:
        """Check, write the events, change: if writing fails, nothing has changed."""
        async with self._changing:
            change = plan()
            await self._outbox.write(change.events)
            self._ledger.apply(merchant_id, change)
        return _answer_to(change.refused) if change.refused else _success(status, change.charge)


def _keeping(keep: Keep) -> Act:
    """Make an operation of what the directory does; a POST adds, and answers 201."""

    async def act(request: web.Request, merchant_id: str, body: bytes) -> Answer:
        named = request.match_info.get("id", request.headers.get("Idempotency-Key", ""))
        sent = {} if request.method == "GET" else _object(body)
        return _success(201 if request.method == "POST" else 200, keep(merchant_id, named, sent))

    return act


def _success(status: int, value: object) -> Answer:
    return Answer(status, to_json(value))


def _answer_to(problem: Problem) -> Answer:
    return Answer(problem.status, to_json(problem.body()))


def _may_be_kept(answer: Answer) -> bool:
    """Tell whether the key is bound to this answer, as the Partner API binds it."""
    if answer.status < 400:
        return True
    return answer.status < 500 and answer.status != 429 and json.loads(answer.text)["code"] not in _VALIDATION


def _object(body: bytes) -> Mapping[str, Any]:
    """Parse a body."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Refused(problems.invalid({"": "must be a JSON object"}))
    return value
