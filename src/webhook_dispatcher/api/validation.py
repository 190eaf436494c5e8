"""What is wrong with a request's fields, in the client's language: pydantic's error types, put into words.

Models say what is right (`Model`); every field that they do not name is an error.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from webhook_dispatcher import words
from webhook_dispatcher.api.calls import ApiError, Detail
from webhook_dispatcher.api.catalogue import NOT_JSON, VALIDATION_FAILED
from webhook_dispatcher.domain.language import Language

MAX_DETAILS = 50
"""Faults of one request that its answer lists, at most."""
MAX_FIELD = 200
"""Characters of a field's path that are shown; a client may have made up the name."""

M = TypeVar("M", bound=BaseModel)


class Model(BaseModel):
    """What a request or an answer holds; names are in camel case outside."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, hide_input_in_errors=True
    )


class Nothing(Model):
    """No fields at all."""


INSTANTS = {"greater_than_equal": "not_before", "less_than": "before"}
"""What is said of a bound that is an instant, which pydantic gives as text."""
SAME_AS = {
    "string_type": "string",
    "string_unicode": "string",
    "int_type": "integer",
    "int_parsing": "integer",
    "int_parsing_size": "integer",
    "int_from_float": "integer",
    "float_type": "number",
    "float_parsing": "number",
    "finite_number": "number",
    "bool_type": "bool",
    "bool_parsing": "bool",
    "literal_error": "choice",
    "enum": "choice",
    "uuid_type": "uuid",
    "uuid_parsing": "uuid",
    "datetime_type": "instant",
    "datetime_parsing": "instant",
    "datetime_from_date_parsing": "instant",
    "timezone_aware": "instant",
    "list_type": "list",
    "tuple_type": "list",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
}


def from_json(model: type[M], text: bytes, language: Language) -> M:
    """Read a body that is JSON, or refuse it field by field."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise _refused(error, language) from None


def from_strings(model: type[M], fields: Mapping[str, str], language: Language) -> M:
    """Read the fields of a query or of a form, or refuse them one by one."""
    try:
        return model.model_validate_strings(fields)
    except ValidationError as error:
        raise _refused(error, language) from None


def refuse_field(field: str, kind: str, language: Language, **facts: str) -> ApiError:
    """Refuse one field for what no model sees. kind: the key of its text, behind `field.`."""
    text = words.template(f"field.{kind}", language).format(**facts)
    return ApiError(VALIDATION_FAILED, (Detail(field[:MAX_FIELD], text, kind),))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands; its path is put together only when it is told."""

    above: "_Place | None"
    name: str
    value: object

    def path(self) -> str:
        names, place = [], self
        while place.above is not None:
            names.append(place.name)
            place = place.above
        return ".".join(reversed(names)).replace("\0", "\N{REPLACEMENT CHARACTER}")

    def below(self) -> Iterator["_Place"]:
        if isinstance(self.value, dict):
            for name, each in self.value.items():
                # A name is looked at as a value that stands under itself.
                yield from (_Place(self, name, name), _Place(self, name, each))
        elif isinstance(self.value, list):
            for index, each in enumerate(self.value):
                yield _Place(self, str(index), each)


def refuse_nul(value: object, language: Language) -> None:
    """Refuse U+0000 anywhere in what was decoded from JSON: no column can hold it."""
    waiting = [_Place(None, "", value)]
    while waiting:
        place = waiting.pop()
        if isinstance(place.value, str) and "\0" in place.value:
            raise refuse_field(place.path(), "nul", language)
        waiting += place.below()


def _refused(error: ValidationError, language: Language) -> ApiError:
    found = error.errors(include_url=False, include_input=False)
    if any(each["type"] == "json_invalid" for each in found):
        return ApiError(NOT_JSON)
    return ApiError(VALIDATION_FAILED, tuple(_detail(each, language) for each in found[:MAX_DETAILS]))


def _detail(error: ErrorDetails, language: Language) -> Detail:
    kind, values = error["type"], error.get("ctx", {})
    if isinstance(values.get("ge", values.get("lt")), str):
        kind = INSTANTS.get(kind, kind)
    kind = SAME_AS.get(kind, kind)
    field = ".".join(map(str, error["loc"]))
    return Detail(field[:MAX_FIELD], _message(kind, values, language), kind)


def _message(kind: str, values: Mapping[str, Any], language: Language) -> str:
    text = words.find(f"field.{kind}", language)
    if text is None or not {name for _, name, _, _ in Formatter().parse(text) if name} <= values.keys():
        return words.template("field.otherwise", language)
    if "expected" in values:
        # Between choices pydantic puts an English "or".
        choices = values["expected"].replace(" or ", f" {words.template('field.or', language)} ")
        values = {**values, "expected": choices}
    return text.format_map(values)
