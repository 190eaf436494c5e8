"""What a request says in its body or its query: whether a body may come, and how both are read."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar
from urllib.parse import parse_qsl

import orjson
from aiohttp.web_request import BaseRequest
from pydantic import BaseModel

from webhook_dispatcher.api import validation
from webhook_dispatcher.api.calls import FORM, ApiError, Head, Operation
from webhook_dispatcher.api.catalogue import (
    BODY_NOT_ALLOWED,
    CHARSET,
    COMPRESSED,
    MALFORMED_REQUEST,
    NOT_JSON,
    REPEATED_NAME,
    TOO_DEEP,
    TOO_MANY_MEMBERS,
    WRONG_CONTENT_TYPE,
)
from webhook_dispatcher.domain.language import Language
from webhook_dispatcher.web.faults import Fault, RequestRefused

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

MAX_MEMBERS = 10_000
"""Members that the objects of one body may have together."""
MAX_QUERY_FIELDS = 32
UTF_8 = ("utf-8", "utf8")
"""The charset's name, and what many clients call it."""

T = TypeVar("T", bound=BaseModel)
NUL = b"\\u0000"
"""The only form in which JSON can hold the character U+0000, which Postgres stores in no text."""


def check_head(request: BaseRequest, operation: Operation) -> None:
    """Refuse a body by what the head says of it, before any of it is read."""
    if not request.body_exists:
        return
    if not operation.takes_body:
        raise ApiError(MALFORMED_REQUEST, extra={"cause": BODY_NOT_ALLOWED}, closes=True)
    if (request.content_length or 0) > operation.max_body:
        raise RequestRefused(Fault.BODY_TOO_LARGE)
    if request.headers.getall("Content-Encoding", ["identity"]) != ["identity"]:
        raise ApiError(WRONG_CONTENT_TYPE, extra={"cause": COMPRESSED}, closes=True)
    if content_type(request.headers) not in operation.content_types:
        raise ApiError(WRONG_CONTENT_TYPE, closes=True)
    if (request.charset or "utf-8").lower() not in UTF_8:
        raise ApiError(WRONG_CONTENT_TYPE, extra={"cause": CHARSET}, closes=True)


def content_type(headers: "CIMultiDictProxy[str]") -> str:
    """Return the content type without its parameters, in small letters; empty: none, or several."""
    values = headers.getall("Content-Type", [])
    return values[0].partition(";")[0].strip().lower() if len(values) == 1 else ""


def parse(model: type[T], head: Head, body: bytes, form: type[T] | None = None) -> T:
    """Read an operation's input by its model, or by another where it comes as a form.

    Where it is in the body, there must be no query.
    """
    if not head.operation.takes_body:
        return parse_query(model, head)
    parse_query(validation.Nothing, head)
    if model is validation.Nothing and not body:
        return model()
    language = head.language
    if content_type(head.headers) == FORM:
        fields = fields_of(body.decode("latin-1"), language)
        # A field without a value counts as left out (RFC 6749 3.2).
        filled = {name: value for name, value in fields.items() if value}
        return validation.from_strings(form or model, filled, language)
    decoded = decode(body)
    if NUL in body:
        validation.refuse_nul(decoded, language)
    return validation.from_json(model, body, language)


def parse_query(model: type[T], head: Head) -> T:
    """Read the query by a model."""
    query = head.target.partition("?")[2]
    if model is validation.Nothing and not query:
        return model()
    return validation.from_strings(model, fields_of(query, head.language), head.language)


def fields_of(text: str, language: Language) -> Mapping[str, str]:
    """Return the fields of a query or form; each may be there once, and none may hold U+0000."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_QUERY_FIELDS)
    except ValueError:
        raise validation.refuse_field("", "undecodable", language) from None
    fields = dict(pairs)
    for name in fields:
        if "\0" in name or "\0" in fields[name]:
            raise validation.refuse_field(name.replace("\0", "\N{REPLACEMENT CHARACTER}"), "nul", language)
        if sum(name == other for other, _ in pairs) > 1:
            raise validation.refuse_field(name, "repeated", language)
    return fields


def decode(body: bytes) -> object:
    """Decode JSON, and refuse what other parsers would refuse or read differently.

    That is a name that comes twice in an object, NaN, a lone surrogate, and nesting without end. orjson
    refuses the last three; of names that come twice only the standard library's parser tells.
    """
    members = 0

    def unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        nonlocal members
        members += len(pairs)
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ApiError(NOT_JSON, extra={"cause": REPEATED_NAME})
        if members > MAX_MEMBERS:
            raise ApiError(NOT_JSON, extra={"cause": TOO_MANY_MEMBERS})
        return found

    try:
        orjson.loads(body)
        return json.loads(body, object_pairs_hook=unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        is_deep = isinstance(error, RecursionError) or str(error).startswith("depth limit exceeded")
        raise ApiError(NOT_JSON, extra={"cause": TOO_DEEP} if is_deep else {}) from None


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)
