"""The egress proxy: where it is, and what its answers to CONNECT mean.

With it every request goes through a tunnel that the proxy opens by name (as smokescreen and Squid do): it
resolves the name and has the last word on addresses. What goes wrong before it is asked for a tunnel is a
fault of ours. What it does then is ours only where that cannot depend on the target (it may break off where
one cannot be reached, or redirect where one is forbidden): one merchant's URL must never look like a broken
proxy. If it is broken all the same, all merchants fail alike, and dispatch sees that.
"""

import base64
import re
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote

from yarl import URL

from webhook_dispatcher.domain.verdict import Failure, Outcome
from webhook_dispatcher.transport.addresses import parse_address
from webhook_dispatcher.transport.failures import AttemptEnded, OutOfTime, Phase, words_for

PROXY_PHASES = frozenset((Phase.REACHING_PROXY, Phase.ASKING_PROXY))

_FORM = re.compile(
    r"http://(?:(?P<user>[^\s:@/?#]+):(?P<password>[^\s:@/?#]*)@)?"
    r"(?P<host>[A-Za-z0-9._\-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})/?"
)
# 405 and 501: it does not know CONNECT. 407: it wants to know who we are. 505: not our HTTP.
_OURS = frozenset((401, 405, 407, 501, 505))


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy that speaks CONNECT; `authorization` holds a password."""

    url: URL
    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read http://[user:password@]host:port. Raises ValueError, which never quotes the text."""
        match = _FORM.fullmatch(text)
        if match is None or not 0 < int(match["port"]) <= 65535:
            raise ValueError(
                "must be of the form http://host:port or http://user:password@host:port, "
                "special characters in the password percent-encoded"
            )
        host = match["host"].lower()
        if host.startswith("[") and parse_address(host[1:-1]) is None:
            raise ValueError("the proxy's host is not a valid name or address")
        url = URL(f"http://{host}:{match['port']}")
        if match["user"] is None:
            return cls(url)
        pair = f"{unquote(match['user'])}:{unquote(match['password'])}"
        return cls(url, f"Basic {base64.b64encode(pair.encode()).decode()}")

    @property
    def host(self) -> str:
        """The host as the resolver is asked for it."""
        return self.url.raw_host or ""

    def headers(self) -> dict[str, str]:
        """Return what the proxy, and only the proxy, is told with each CONNECT."""
        return {} if self.authorization is None else {"Proxy-Authorization": self.authorization}


class TunnelRefused(AttemptEnded):
    """The proxy answered CONNECT with something else than 200. is_challenge: it wants to know who we are."""

    def __init__(self, status: int, is_challenge: bool) -> None:
        super().__init__(f"{status}")
        self.status = status
        self.is_challenge = is_challenge


def classify_proxy(error: Exception, phase: Phase) -> Failure:
    """Say what it means that there is no tunnel."""
    if isinstance(error, TunnelRefused):
        detail = f"the egress proxy answered {error.status}"
        # smokescreen refuses a target with 407; a real one must say how to authenticate (RFC 9110, 15.5.8).
        if error.status == 403 or (error.status == 407 and not error.is_challenge):
            return Failure(Outcome.BLOCKED, detail)
        return Failure(Outcome.CONNECT, detail, is_ours=error.status in _OURS)
    # Asked for a tunnel, it is about to reach the receiver, or waits for it: Squid does so for a minute.
    is_ours = phase is Phase.REACHING_PROXY
    if isinstance(error, OutOfTime):
        return Failure(Outcome.TIMEOUT, f"{error} ({phase})", is_ours)
    return Failure(Outcome.CONNECT, f"the egress proxy: {words_for(error, phase)}", is_ours)
