"""The Partner API with five answers that its document does not allow, each of another kind."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from webhook_dispatcher.api.calls import ApiError, MerchantOperation, Operation, Request, Response
from webhook_dispatcher.api.catalogue import STATE_FORBIDS
from webhook_dispatcher.api.program import Parts, Program, compose
from webhook_dispatcher.app.api import options_of
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.app.serving import serve
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.telemetry import logs
from webhook_dispatcher.transport.guard import EgressPolicy
from webhook_dispatcher.web.running import Pools


async def leave_a_field_out(_request: Request, _input: object) -> Response:
    return Response(b'{"url":"https://merchant.example/"}')


async def add_a_field(_request: Request, _input: object) -> Response:
    return Response(b'{"removed":true,"failed":0,"since":"always"}')


async def answer_with_another_status(_request: Request, _input: object) -> Response:
    return Response(b"{}", 203)


async def give_another_type(_request: Request, _input: object) -> Response:
    return Response(b'{"secret":17,"previousSecretUntil":null,"waiting":0}')


async def refuse_with_another_code(_request: Request, _input: object) -> Response:
    raise ApiError(STATE_FORBIDS)


BREAKAGES: Mapping[str, Callable[[Request, object], Awaitable[Response]]] = {
    "readWebhook": leave_a_field_out,
    "deleteWebhook": add_a_field,
    "readCharge": answer_with_another_status,
    "rotateSecret": give_another_type,
    "putWebhook": refuse_with_another_code,
}


def broken(pools: Pools, limits: RateLimits, egress: EgressPolicy) -> Parts:
    """Put the parts together as the program does; by then the document is made, so operations break."""
    parts = compose(pools, limits, egress)
    return replace(parts, operations=[_broken(operation) for operation in parts.operations])


def _broken(operation: Operation) -> Operation:
    if isinstance(operation, MerchantOperation) and operation.name in BREAKAGES:
        return replace(operation, handler=BREAKAGES[operation.name])
    return operation


def main() -> None:
    """Serve until told to stop."""
    settings = load_settings(os.environ)
    options = options_of(settings)
    logs.configure(settings.log_format, settings.log_level, sys.stderr)
    parts = partial(broken, limits=options.limits, egress=options.egress)
    asyncio.run(serve(Program(options, SystemClock(), parts)))


if __name__ == "__main__":
    main()
