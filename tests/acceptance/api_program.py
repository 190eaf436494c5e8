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
from webhook_dispatcher.api.calls import FORM, JSON, Admitted, ApiError, Operation, Request, Response
from webhook_dispatcher.api.catalogue import TOKEN_MISSING
from webhook_dispatcher.api.idempotency import CarryOut
from webhook_dispatcher.api.program import Options, Parts, Program
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.api.validation import Model
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


async def read(asked: Request) -> Response:
    shown = {
        **asked.parameters,
        "address": str(asked.address),
        "query": asked.query and asked.query.model_dump(),
    }
    return Response(orjson.dumps(shown))


async def create(asked: Request) -> Response:
    return Response(asked.raw_body or b"null", 201)


async def fail(asked: Request) -> Response:
    raise RuntimeError(SECRET)


async def time_out(asked: Request) -> Response:
    raise TimeoutError


async def wait(asked: Request) -> Response:
    await until(Path(os.environ[RELEASE]).exists)
    return Response(b'"released"')


async def give_much(asked: Request) -> Response:
    return Response(orjson.dumps("x" * LARGE))


async def page(asked: Request) -> Response:
    return Response(b"[1.10,\n 2]", next_cursor="c2")


async def answer_hidden(asked: Request) -> Response:
    raise ApiError(-13001, status=409)


async def answer_in_range(asked: Request) -> Response:
    raise ApiError(-3005, status=409, extra={"failureReason": "closed", "code": 1})


OPERATIONS = (
    Operation("GET", "/v1/things/{id}", "read_thing", read, query=Page, limit="none"),
    Operation("POST", "/v1/things", "create_thing", create, body=Thing, limit="none"),
    Operation("PUT", "/v1/things", "put_thing", create, body=Thing, limit="none"),
    Operation(
        "POST", "/v1/forms", "create_by_form", create, body=Thing, limit="none", content_types=(JSON, FORM)
    ),
    Operation("POST", "/v1/actions", "act", create, limit="none"),
    Operation("GET", "/v1/broken", "fail", fail, limit="none"),
    Operation("GET", "/v1/late", "time_out", time_out, limit="none"),
    Operation("GET", "/v1/slow", "wait", wait, limit="none"),
    Operation("GET", "/v1/large", "give_much", give_much, limit="none"),
    Operation("GET", "/v1/pages", "page", page, limit="none"),
    Operation("GET", "/v1/hidden", "answer_hidden", answer_hidden, limit="none"),
    Operation("GET", "/v1/in-range", "answer_in_range", answer_in_range, limit="none"),
    Operation("POST", "/v1/private", "private", create, body=Thing),
)


class ForTests(ByToken):
    """Admits everybody to what has no limit, and nobody else: there is no database to ask."""

    def __init__(self) -> None:
        super().__init__(Databases({}), RateLimits())

    async def admit(self, asked: Request) -> Admitted:
        if asked.operation.limit != "none":
            raise ApiError(TOKEN_MISSING)
        return Admitted(headers={"RateLimit": '"key";r=599'})


class EachTime:
    """Keeps no answers."""

    async def once(self, asked: Request, carry_out: CarryOut) -> Response:
        answer = await carry_out(asked)
        assert isinstance(answer, Response)
        return answer


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
        parts = Parts(OPERATIONS, ForTests(), EachTime())
        asyncio.run(serve(Program(options, SystemClock(), lambda _: parts)))


if __name__ == "__main__":
    main()
