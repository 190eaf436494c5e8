"""The Partner API's own documents, against which every answer to a test's merchant is held."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jsonschema_rs
import orjson

from webhook_dispatcher.api.calls import Operation, Request, Response
from webhook_dispatcher.api.charge_service import forwarded
from webhook_dispatcher.api.openapi.document import document
from webhook_dispatcher.api.operations.table import table
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.web.router import NoSuchMethod, NoSuchPath, Router

OWN = table(Databases({}), RateLimits(), Guard(EgressPolicy()))
"""What a program answers by itself."""
Answers = tuple[jsonschema_rs.Validator, frozenset[str]]
"""The schema of an answer's body, and the headers that it must have."""


class Described:
    """What one document says of answers."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._document: dict[str, Any] = document(operations)
        self._router = Router((each.method, each.template, each) for each in operations)
        self._answers: dict[tuple[str, str, int], Answers | None] = {}

    def undocumented(
        self, method: str, path: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> str | None:
        """Say what of an answer is not as it stands here; of a path that is not here, nothing is."""
        try:
            operation, _ = self._router.find(method, path.partition("?")[0])
        except (NoSuchPath, NoSuchMethod):
            return None
        if method == "HEAD":
            return None
        answers, asked = self._of(operation, status), f"{operation.name}: {status}"
        if answers is None:
            return f"{asked} is not in the document"
        schema, required = answers
        if missing := required - set(map(str.lower, headers)):
            return f"{asked} lacks {', '.join(sorted(missing))}"
        wrong = next(schema.iter_errors(orjson.loads(body)), None)
        return f"{asked}: {wrong}" if wrong else None

    def _of(self, operation: Operation, status: int) -> Answers | None:
        key = operation.method.lower(), operation.template, status
        if key not in self._answers:
            self._answers[key] = self._compiled(*key)
        return self._answers[key]

    def _compiled(self, method: str, template: str, status: int) -> Answers | None:
        described = self._document["paths"][template][method]["responses"]
        response = described.get(str(status)) or described.get(f"{status // 100}XX")
        if response is None:
            return None
        named = self._document["components"]["headers"]
        required = {
            name.lower()
            for name, header in response["headers"].items()
            if named[header["$ref"].rpartition("/")[2]].get("required")
        }
        schema = response["content"]["application/json"]["schema"]
        return jsonschema_rs.validator_for({**self._document, **schema}), frozenset(required)


@cache
def documents() -> tuple[Described, Described]:
    """Return those of a program by itself, and of one with a charge service behind it."""
    return Described(OWN), Described(forwarded.instead(OWN, forwarded.operations(_nobody)))


async def _nobody(asked: Request) -> Response:
    raise NotImplementedError


def undocumented(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> str | None:
    """Say what of an answer neither document has."""
    found = [each.undocumented(method, path, status, headers, body) for each in documents()]
    return None if None in found else found[0]
