"""How answers are written: by the models that the OpenAPI document is made from, so that both are alike."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, Field, PlainSerializer, WithJsonSchema

from webhook_dispatcher.api.validation import Model
from webhook_dispatcher.domain.event import render_instant

INSTANT = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
}
Instant = Annotated[
    datetime, PlainSerializer(render_instant, return_type=str), WithJsonSchema(INSTANT, mode="serialization")
]
"""ISO 8601, UTC, milliseconds, Z."""

Moment = Annotated[
    AwareDatetime, Field(ge=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(2100, 1, 1, tzinfo=UTC))
]
"""What a client gives: with its offset from UTC, and within the years that events may have."""


def write(model: type[Model], source: object = None, **values: Any) -> bytes:
    """Write an answer by its model: `values`, and else the source's attributes of the fields' names."""
    found = {name: getattr(source, name) for name in model.model_fields if name not in values}
    return model.model_construct(None, **found, **values).model_dump_json(by_alias=True).encode()
