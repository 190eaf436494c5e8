"""What the Partner API answers to heads that are not what they must be."""

from collections.abc import Mapping
from types import MappingProxyType

from webhook_dispatcher.api.calls import Refused
from webhook_dispatcher.api.catalogue import (
    HEAD_TOO_LARGE,
    MALFORMED_REQUEST,
    METHOD_NOT_ALLOWED,
    TOO_SLOW,
    UNKNOWN_EXPECTATION,
)
from webhook_dispatcher.web.heads import HeadFault

CODES: Mapping[HeadFault, int] = MappingProxyType(
    {
        HeadFault.MALFORMED: MALFORMED_REQUEST,
        HeadFault.TOO_LARGE: HEAD_TOO_LARGE,
        HeadFault.TOO_SLOW: TOO_SLOW,
        HeadFault.CONNECT: METHOD_NOT_ALLOWED,
        HeadFault.EXPECTATION: UNKNOWN_EXPECTATION,
    }
)


def refused(fault: HeadFault) -> Refused:
    """Return what such a head is refused with."""
    headers = {"Allow": "GET"} if fault is HeadFault.CONNECT else {}
    return Refused(CODES[fault], headers=headers, closes=True)
