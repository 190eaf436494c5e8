"""Names that requests have: the headers' prefix, the User-Agent, and which signatures are sent.

Stored in the database, so that all programs agree, and read again by each of them every five seconds.
Source: contract 1; of the second signature Standard Webhooks (https://www.standardwebhooks.com).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

SERVICE, STANDARD = "service", "standard"
SIGNATURES = ((SERVICE,), (SERVICE, STANDARD))
STANDARD_PREFIX = "webhook-"
STANDARD_ID, STANDARD_TIMESTAMP = f"{STANDARD_PREFIX}id", f"{STANDARD_PREFIX}timestamp"
STANDARD_SIGNATURE = f"{STANDARD_PREFIX}signature"
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,30}-")
_USER_AGENT = re.compile(r"[!-~](?:[ -~]{0,254}[!-~])?")


@dataclass(frozen=True)
class Names:
    """One set of them. user_agent: None is each program's own, with its version."""

    header_prefix: str = "Service-"
    user_agent: str | None = None
    signatures: tuple[str, ...] = (SERVICE,)

    @cached_property
    def event_id(self) -> str:
        """The header with the event's id."""
        return f"{self.header_prefix}Event-Id"

    @cached_property
    def event_type(self) -> str:
        """The header with the event's type."""
        return f"{self.header_prefix}Event-Type"

    @cached_property
    def signature(self) -> str:
        """The header with the service signature."""
        return f"{self.header_prefix}Signature"

    @cached_property
    def has_standard(self) -> bool:
        """Whether requests bear the signature of Standard Webhooks too."""
        return STANDARD in self.signatures


def prefix_in(headers: Mapping[str, str]) -> str | None:
    """Return what the service's headers begin with in a request, its names in lower case; None: none are."""
    last = DEFAULT_NAMES.event_type.removeprefix(DEFAULT_NAMES.header_prefix).lower()
    for prefix in (name.removesuffix(last) for name in headers if name.endswith(last)):
        names = Names(prefix)
        if (
            prefix_fault(prefix) is None
            and {names.event_id.lower(), names.signature.lower()} <= headers.keys()
        ):
            return prefix
    return None


def standard(event_id: str, stamp: str, signature: str) -> dict[str, str]:
    """Return the headers of Standard Webhooks."""
    return {STANDARD_ID: event_id, STANDARD_TIMESTAMP: stamp, STANDARD_SIGNATURE: signature}


DEFAULT_NAMES = Names()
"""Those of an installation that has chosen none."""


def prefix_fault(text: str) -> str | None:
    """Say why headers cannot begin with this; None when they can. Underscores are dropped by some servers."""
    if not _PREFIX.fullmatch(text):
        return (
            "a prefix is 2 to 32 letters, digits and hyphens, a letter first and a hyphen last, such as Acme-"
        )
    if text.lower().startswith(STANDARD_PREFIX):
        return f"{STANDARD_PREFIX} begins the headers of Standard Webhooks: choose another prefix"
    return None


def user_agent_fault(text: str) -> str | None:
    """Say why this cannot be the User-Agent; None when it can. Source: RFC 9110, 5.5 and 10.1.5."""
    if not _USER_AGENT.fullmatch(text):
        return "a User-Agent is 1 to 256 printable ASCII characters, without spaces at its ends"
    return None
