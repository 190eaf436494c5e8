"""The bytes of every answer: one shape for successes, one for errors. Source: contract 7."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from webhook_dispatcher.api import request_ids
from webhook_dispatcher.api.calls import REPLAYED, ApiError, Response
from webhook_dispatcher.api.catalogue import CATALOGUE, INTERNAL, STATE, STATE_FORBIDS, entry_of, message
from webhook_dispatcher.domain.event import render_instant
from webhook_dispatcher.domain.language import Language

SERVER = "webhook-dispatcher"


@dataclass(frozen=True, slots=True)
class Meta:
    """What an answer says of its request. at: seconds since 1970; took: seconds."""

    request_id: str
    at: float
    took: float

    def fields(self) -> dict[str, object]:
        """Return it as it is shown."""
        return {
            "requestId": self.request_id,
            "timestamp": render_instant(datetime.fromtimestamp(self.at, UTC)),
            "processingTimeMs": int(self.took * 1000),
        }


@dataclass(frozen=True, slots=True)
class Envelope:
    """A finished answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def success(response: Response, meta: Meta, language: Language) -> Envelope:
    """Put a response's data into the envelope, byte for byte; a page stands for itself."""
    headers = headers_of(meta, response.language or language) | {**response.headers}
    if response.page is not None:
        return Envelope(response.status, headers | {"Content-Type": response.page}, response.data)
    fields = meta.fields() | {**response.meta} | _replayed(response.headers)
    if response.next_cursor is not None:
        fields["nextCursor"] = response.next_cursor
    body = b'{"success":true,"data":%b,"meta":%b}' % (response.data, orjson.dumps(fields))
    return Envelope(response.status, headers, body)


def error(refused: ApiError, meta: Meta, language: Language) -> Envelope:
    """Say what was refused, in the client's language; a code that may not leave is an internal error."""
    language = refused.language or language
    entry = entry_of(refused.code)
    is_known = entry is not CATALOGUE[INTERNAL]
    extra = {"cause": STATE, **refused.extra} if refused.code == STATE_FORBIDS else refused.extra
    fields = {
        "code": refused.code if is_known else INTERNAL,
        "type": entry.type,
        "message": message(refused.code, language, extra.get("cause")),
        "details": [{"field": detail.field, "message": detail.message} for detail in refused.details],
    }
    body = orjson.dumps(
        {
            "success": False,
            "error": {**extra, **fields},
            "meta": meta.fields() | _replayed(refused.headers),
        },
    )
    status = entry.status or refused.status or 422
    return Envelope(status, headers_of(meta, language) | {**refused.headers}, body)


def _replayed(headers: Mapping[str, str]) -> dict[str, object]:
    """Say in `meta` too what a header says: few clients show those."""
    return {"replayed": True} if REPLAYED.items() <= headers.items() else {}


def headers_of(meta: Meta, language: Language) -> dict[str, str]:
    """Return the headers that every answer has."""
    return {
        "Content-Type": "application/json",
        "Content-Language": language,
        "Vary": "Accept-Language",
        request_ids.HEADER: meta.request_id,
        "Server": SERVER,
        "X-Content-Type-Options": "nosniff",
    }
