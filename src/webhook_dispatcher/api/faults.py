"""What the Partner API answers to requests whose form is not what it must be."""

from collections.abc import Mapping
from types import MappingProxyType

from webhook_dispatcher.api.calls import MAX_BODY_BYTES, ApiError
from webhook_dispatcher.api.catalogue import (
    BODY_TOO_LARGE,
    HEAD_TOO_LARGE,
    MALFORMED_REQUEST,
    METHOD_NOT_ALLOWED,
    TOO_SLOW,
    UNAVAILABLE,
    UNKNOWN_EXPECTATION,
)
from webhook_dispatcher.web.faults import Fault

CODES: Mapping[Fault, int] = MappingProxyType(
    {
        Fault.MALFORMED: MALFORMED_REQUEST,
        Fault.HEAD_TOO_LARGE: HEAD_TOO_LARGE,
        Fault.BODY_TOO_LARGE: BODY_TOO_LARGE,
        Fault.TOO_SLOW: TOO_SLOW,
        Fault.CONNECT: METHOD_NOT_ALLOWED,
        Fault.EXPECTATION: UNKNOWN_EXPECTATION,
        Fault.CROWDED: UNAVAILABLE,
    }
)
HEADERS: Mapping[Fault, Mapping[str, str]] = MappingProxyType(
    {Fault.CONNECT: {"Allow": "GET"}, Fault.CROWDED: {"Retry-After": "1"}}
)


def refused(fault: Fault, max_body: int = MAX_BODY_BYTES) -> ApiError:
    """Return what such a request is refused with. max_body: bytes that its body may have."""
    extra = {"maxBytes": max_body} if fault is Fault.BODY_TOO_LARGE else {}
    return ApiError(CODES[fault], headers=HEADERS.get(fault, {}), extra=extra, closes=True)
