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

from webhook_dispatcher.api.calls import Detail, Refused
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


TEXTS: Mapping[str, Mapping[Language, str]] = {
    "missing": {
        "en": "This field is required.",
        "ru": "Это поле обязательно.",
        "uz": "Bu maydon majburiy.",
    },
    "extra_forbidden": {
        "en": "There is no such field.",
        "ru": "Такого поля нет.",
        "uz": "Bunday maydon yo‘q.",
    },
    "string": {
        "en": "This must be a text.",
        "ru": "Значение должно быть строкой.",
        "uz": "Qiymat matn bo‘lishi kerak.",
    },
    "string_too_short": {
        "en": "The text must have at least {min_length} characters.",
        "ru": "Минимальное количество символов: {min_length}.",
        "uz": "Belgilar soni kamida {min_length} ta bo‘lishi kerak.",
    },
    "string_too_long": {
        "en": "The text must have at most {max_length} characters.",
        "ru": "Максимальное количество символов: {max_length}.",
        "uz": "Belgilar soni ko‘pi bilan {max_length} ta bo‘lishi kerak.",
    },
    "string_pattern_mismatch": {
        "en": "The text is not of the right form.",
        "ru": "Строка имеет неверный формат.",
        "uz": "Matn formati noto‘g‘ri.",
    },
    "nul": {
        "en": "The text must not contain the character U+0000.",
        "ru": "Строка не должна содержать символ U+0000.",
        "uz": "Matnda U+0000 belgisi bo‘lmasligi kerak.",
    },
    "integer": {
        "en": "This must be a whole number.",
        "ru": "Значение должно быть целым числом.",
        "uz": "Qiymat butun son bo‘lishi kerak.",
    },
    "number": {
        "en": "This must be a number.",
        "ru": "Значение должно быть числом.",
        "uz": "Qiymat son bo‘lishi kerak.",
    },
    "greater_than": {
        "en": "The number must be greater than {gt}.",
        "ru": "Число должно быть больше {gt}.",
        "uz": "Son {gt} dan katta bo‘lishi kerak.",
    },
    "greater_than_equal": {
        "en": "The number must not be less than {ge}.",
        "ru": "Число не должно быть меньше {ge}.",
        "uz": "Son {ge} dan kichik bo‘lmasligi kerak.",
    },
    "less_than": {
        "en": "The number must be less than {lt}.",
        "ru": "Число должно быть меньше {lt}.",
        "uz": "Son {lt} dan kichik bo‘lishi kerak.",
    },
    "less_than_equal": {
        "en": "The number must not be greater than {le}.",
        "ru": "Число не должно быть больше {le}.",
        "uz": "Son {le} dan katta bo‘lmasligi kerak.",
    },
    "bool": {
        "en": "This must be true or false.",
        "ru": "Значение должно быть true или false.",
        "uz": "Qiymat true yoki false bo‘lishi kerak.",
    },
    "choice": {
        "en": "This must be one of: {expected}.",
        "ru": "Допустимые значения: {expected}.",
        "uz": "Ruxsat etilgan qiymatlar: {expected}.",
    },
    "uuid": {
        "en": "This must be a UUID.",
        "ru": "Значение должно быть UUID.",
        "uz": "Qiymat UUID bo‘lishi kerak.",
    },
    "instant": {
        "en": "This must be an instant in ISO 8601, such as 2026-11-20T08:30:00Z.",
        "ru": "Значение должно быть моментом времени в формате ISO 8601, например 2026-11-20T08:30:00Z.",
        "uz": "Qiymat ISO 8601 formatidagi vaqt bo‘lishi kerak, masalan 2026-11-20T08:30:00Z.",
    },
    "list": {
        "en": "This must be a list.",
        "ru": "Значение должно быть списком.",
        "uz": "Qiymat ro‘yxat bo‘lishi kerak.",
    },
    "too_short": {
        "en": "There must be at least {min_length} items.",
        "ru": "Минимальное количество элементов: {min_length}.",
        "uz": "Elementlar soni kamida {min_length} ta bo‘lishi kerak.",
    },
    "too_long": {
        "en": "There must be at most {max_length} items.",
        "ru": "Максимальное количество элементов: {max_length}.",
        "uz": "Elementlar soni ko‘pi bilan {max_length} ta bo‘lishi kerak.",
    },
    "object": {
        "en": "This must be an object.",
        "ru": "Значение должно быть объектом.",
        "uz": "Qiymat obyekt bo‘lishi kerak.",
    },
    "repeated": {
        "en": "This field is there more than once.",
        "ru": "Это поле указано более одного раза.",
        "uz": "Bu maydon bir martadan ortiq ko‘rsatilgan.",
    },
    "cursor": {
        "en": "This cursor is not of this list: begin again without it.",
        "ru": "Этот курсор не относится к данному списку: начните заново без него.",
        "uz": "Bu kursor ushbu ro‘yxatga tegishli emas: usiz qaytadan boshlang.",
    },
    "cursor_elsewhere": {
        "en": "The cursor is from before the database was replaced: begin again by an instant (since).",
        "ru": "Курсор получен до замены базы данных: начните заново с момента времени (since).",
        "uz": "Kursor ma’lumotlar bazasi almashtirilishidan oldin olingan: since bilan qaytadan boshlang.",
    },
    "cursor_expired": {
        "en": "Some of what follows this cursor is not kept any more: begin again without it.",
        "ru": "Часть того, что следует за этим курсором, больше не хранится: начните заново без него.",
        "uz": "Bu kursordan keyingi ma’lumotlarning bir qismi endi saqlanmaydi: usiz qaytadan boshlang.",
    },
    "cursor_and_since": {
        "en": "Give this or a cursor, not both.",
        "ru": "Укажите либо это поле, либо курсор, но не оба.",
        "uz": "Bu maydonni yoki kursorni ko‘rsating, ikkalasini emas.",
    },
    "empty_window": {
        "en": "The end must be later than the beginning.",
        "ru": "Конец должен быть позже начала.",
        "uz": "Oxiri boshlanishidan keyin bo‘lishi kerak.",
    },
    "undecodable": {
        "en": "This is not UTF-8 with percent-encoding.",
        "ru": "Значение не является корректным UTF-8 в процентном кодировании.",
        "uz": "Qiymat foizli kodlangan yaroqli UTF-8 emas.",
    },
}
OTHERWISE: Mapping[Language, str] = {
    "en": "The value is not valid.",
    "ru": "Недопустимое значение.",
    "uz": "Qiymat yaroqsiz.",
}
"""Said of an error type that has no text."""
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


def refuse_field(field: str, kind: str, language: Language) -> Refused:
    """Refuse one field for what no model sees. kind: a key of TEXTS."""
    return Refused(VALIDATION_FAILED, (Detail(field[:MAX_FIELD], TEXTS[kind][language]),))


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


def _refused(error: ValidationError, language: Language) -> Refused:
    found = error.errors(include_url=False, include_input=False)
    if any(each["type"] == "json_invalid" for each in found):
        return Refused(NOT_JSON)
    return Refused(VALIDATION_FAILED, tuple(_detail(each, language) for each in found[:MAX_DETAILS]))


def _detail(error: ErrorDetails, language: Language) -> Detail:
    field = ".".join(map(str, error["loc"]))
    return Detail(field[:MAX_FIELD], _said(error["type"], error.get("ctx", {}), language))


def _said(kind: str, values: Mapping[str, Any], language: Language) -> str:
    text = TEXTS.get(SAME_AS.get(kind, kind), OTHERWISE)[language]
    needed = {name for _, name, _, _ in Formatter().parse(text) if name}
    return text.format_map(values) if needed <= values.keys() else OTHERWISE[language]
