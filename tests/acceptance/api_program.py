"""The Partner API's program with operations made for tests, on no database.

Deadlines are a second, and bodies together a little more than two.
"""

import asyncio
import os
from pathlib import Path

import orjson
from pydantic import AwareDatetime, Field

from tests.waiting import until
from webhook_dispatcher.api.admission import ByToken
from webhook_dispatcher.api.calls import (
    FORM,
    JSON,
    ApiError,
    Head,
    MerchantOperation,
    PublicOperation,
    Request,
    Response,
)
from webhook_dispatcher.api.program import Options, Parts, Program
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.api.validation import Model, Nothing
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.app.serving import serve
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.telemetry import logs
from webhook_dispatcher.web import body, server

RELEASE = "TEST_RELEASE"
"""The variable that names a file; while it is not there, slow operations wait."""
SECRET = "sesame-in-a-traceback"
LARGE = 7 * 1_048_576
"""Within what the answers of one client may take."""


class Share(Model):
    share: int = Field(ge=1)


class Thing(Model):
    name: str = Field(min_length=1, max_length=20)
    recipients: list[Share] = Field(default=[], max_length=3)
    created_at: AwareDatetime | None = None


class Page(Model):
    limit: int = Field(default=10, ge=1, le=100)


async def read(head: Head, query: Page) -> Response:
    shown = {**head.parameters, "address": str(head.address), "query": query.model_dump()}
    return Response(orjson.dumps(shown))


async def create(_head: Head, body: Model) -> Response:
    return Response(body.model_dump_json(exclude_unset=True, by_alias=True).encode(), 201)


async def fail(_head: Head, _: Nothing) -> Response:
    raise RuntimeError(SECRET)


async def time_out(_head: Head, _: Nothing) -> Response:
    raise TimeoutError


async def wait(_head: Head, _: Nothing) -> Response:
    await until(Path(os.environ[RELEASE]).exists)
    return Response(b'"released"')


async def give_much(_head: Head, _: Nothing) -> Response:
    return Response(orjson.dumps("x" * LARGE))


async def page(_head: Head, _: Nothing) -> Response:
    return Response(b"[1.10,\n 2]", headers={"RateLimit": '"key";r=599'}, next_cursor="c2")


async def answer_hidden(_head: Head, _: Nothing) -> Response:
    raise ApiError(-13001, status=409)


async def answer_in_range(_head: Head, _: Nothing) -> Response:
    raise ApiError(-3005, status=409, extra={"failureReason": "closed", "code": 1})


async def never(_request: Request, _body: Thing) -> Response:
    raise AssertionError


OPERATIONS = (
    PublicOperation("GET", "/v1/things/{id}", "read_thing", Page, read),
    PublicOperation("POST", "/v1/things", "create_thing", Thing, create),
    PublicOperation("PUT", "/v1/things", "put_thing", Thing, create),
    PublicOperation("POST", "/v1/forms", "create_by_form", Thing, create, content_types=(JSON, FORM)),
    PublicOperation("POST", "/v1/actions", "act", Nothing, create),
    PublicOperation("GET", "/v1/broken", "fail", Nothing, fail),
    PublicOperation("GET", "/v1/late", "time_out", Nothing, time_out),
    PublicOperation("GET", "/v1/slow", "wait", Nothing, wait),
    PublicOperation("GET", "/v1/large", "give_much", Nothing, give_much),
    PublicOperation("GET", "/v1/pages", "page", Nothing, page),
    PublicOperation("GET", "/v1/hidden", "answer_hidden", Nothing, answer_hidden),
    PublicOperation("GET", "/v1/in-range", "answer_in_range", Nothing, answer_in_range),
    MerchantOperation("POST", "/v1/private", "private", Thing, never),
)


def main() -> None:
    """Serve until told to stop."""
    server.MAX_HEAD_SECONDS = server.MAX_DRAIN_SECONDS = 1.0
    body.MAX_SECONDS = body.MAX_SECONDS_OF_STRANGERS = 1.0
    server.LOOK_INTERVAL_SECONDS = 0.1
    with open("/dev/stderr", "w") as stream:
        logs.configure("json", "info", stream)
        settings = load_settings(
            {name: text for name, text in os.environ.items() if name.startswith("WEBHOOK_")}
        )
        options = Options(
            address=settings.api_address,
            ops_address=settings.api_ops_address,
            trusted_proxies=settings.api_trusted_proxies,
            max_connections=settings.api_max_connections,
            grace=settings.shutdown_grace.total_seconds(),
            databases={},
        )
        parts = Parts(OPERATIONS, ByToken(Databases({}), RateLimits()))
        asyncio.run(serve(Program(options, SystemClock(), lambda _: parts)))


if __name__ == "__main__":
    main()
