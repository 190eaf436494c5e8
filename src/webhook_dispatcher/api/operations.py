"""The table of operations: router, OpenAPI document and tests are made from it.

A template is a path whose parameters stand in braces, such as `/v1/deliveries/{eventId}`.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from pydantic import BaseModel

from webhook_dispatcher.api.calls import Answer, Asked, Given, Refused
from webhook_dispatcher.api.catalogue import METHOD_NOT_ALLOWED, NO_SUCH_PATH
from webhook_dispatcher.storage.api.endpoints import OwnCommand

Handler = Callable[[Asked], Awaitable[Answer | Given]]
IdempotencyRule = Literal["required", "accepted", "none"]
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MAX_BODY_BYTES = 1_048_576

PARAMETER = re.compile(r"\{(\w+)\}")
_VALUE = r"(?P<\1>[A-Za-z0-9._~%:@!$&'()*+,;=-]{1,3072})"


@dataclass(frozen=True, slots=True)
class Operation:
    """One row. limit: by which limits it is counted. statuses: every one that a success may have.

    is_secret: its answers hold something that nobody may keep, such as a token. created: what a 201 holds,
    where that is more than `answer`. refusals: the codes that are its own, beside those that follow from its
    limit, idempotency and body. summary: one sentence, for the OpenAPI document. is_forwarded: the charge
    service does it, and judges the body by itself. shows_endpoint: the merchant's endpoint is
    read by the statement that lets the request in.
    """

    method: str
    template: str
    name: str
    handler: Handler
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    form: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    created: type[BaseModel] | None = None
    outcome: Callable[[OwnCommand], bytes] | None = None
    limit: Literal["token", "key", "card", "none"] = "key"
    idempotency: IdempotencyRule = "none"
    statuses: tuple[int, ...] = (200,)
    refusals: tuple[int, ...] = ()
    summary: str = ""
    content_types: tuple[str, ...] = (JSON,)
    max_body: int = MAX_BODY_BYTES
    is_list: bool = False
    is_secret: bool = False
    is_forwarded: bool = False
    shows_endpoint: bool = False

    @property
    def takes_body(self) -> bool:
        """Whether its method comes with a body."""
        return self.method in ("POST", "PUT", "PATCH")


class Router:
    """Finds operations by path and method; a path of letters alone goes before one with parameters."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = tuple(operations)
        self._by_path: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            methods = self._by_path.setdefault(operation.template, {})
            if operation.method in methods:
                raise ValueError(f"{operation.method} {operation.template} is there twice")
            methods[operation.method] = operation
        self._patterns = [
            (re.compile(PARAMETER.sub(_VALUE, template.replace(".", r"\."))), methods)
            for template, methods in self._by_path.items()
            if "{" in template
        ]

    def find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        """Return the operation and its parameters; Refused says what there is instead."""
        methods, parameters = self._at(path)
        if method not in methods:
            raise Refused(METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(sorted(methods))})
        return methods[method], parameters

    def _at(self, path: str) -> tuple[Mapping[str, Operation], Mapping[str, str]]:
        if (methods := self._by_path.get(path)) is not None and "{" not in path:
            return methods, {}
        for pattern, methods in self._patterns:
            if (match := pattern.fullmatch(path)) is not None:
                return methods, {name: _decoded(value) for name, value in match.groupdict().items()}
        raise Refused(NO_SUCH_PATH)


def _decoded(value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise Refused(NO_SUCH_PATH) from None
