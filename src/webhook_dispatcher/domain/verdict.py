"""What one attempt showed, and what follows from it for the delivery.

The sender reports an Answer or a Failure; `judge` turns it into a verdict by the schedule. A test event has
none: `dispatch/control/sample_event.py` ends it with its one attempt.
Source: contract 2.1 to 2.4.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import ClassVar, NamedTuple

from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.domain.schedule import Schedule

MAX_DETAIL = 200
_CUT = "..."
_PHRASES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class Outcome(StrEnum):
    """How one attempt ended; the contract's closed list."""

    DELIVERED = "delivered"
    STATUS = "status"
    TIMEOUT = "timeout"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    DISCONNECTED = "disconnected"
    BAD_RESPONSE = "bad_response"
    BLOCKED = "blocked"
    UNSENDABLE = "unsendable"


@dataclass(frozen=True, slots=True)
class Answer:
    """A status line and headers arrived in time.

    origin: the network of who answered; the host's name behind an egress proxy.
    is_fresh: its connection was made for it, and a name server was asked for that, or the egress proxy.
    excerpt: how the body of a failed attempt begins, where that is asked for. Anybody may have written it.
    lingered: for so many seconds behind the headers it was waited for that.
    is_costly: its connection was made for it, and took much of the event loop.
    outcome: any 2xx is a delivery; everything else is a status.
    """

    status: int
    origin: str = field(default="", compare=False)
    is_fresh: bool = field(default=True, compare=False)
    excerpt: str | None = field(default=None, compare=False)
    lingered: float = field(default=0.0, compare=False)
    is_costly: bool = field(default=False, compare=False)
    outcome: Outcome = field(init=False)

    def __post_init__(self) -> None:
        outcome = Outcome.DELIVERED if 200 <= self.status <= 299 else Outcome.STATUS
        object.__setattr__(self, "outcome", outcome)

    @property
    def detail(self) -> str:
        """Name the status as the standard does; what the receiver calls it is not looked at."""
        return _PHRASES.get(self.status) or f"{self.status:03}"


@dataclass(frozen=True, slots=True)
class Failure:
    """No usable answer. `detail` says why, in one line that is safe to show: merchants read it too.

    is_ours: it came about on our side (no file descriptors, no route, our proxy), whoever the merchant is.
    origin: the network that was dialled, or the host's name where there was no address to dial.
    has_address: there was one.
    is_costly: what was done for a connection took much of the event loop.
    """

    outcome: Outcome
    detail: str
    is_ours: bool = False
    origin: str = field(default="", compare=False)
    has_address: bool = field(default=True, compare=False)
    is_costly: bool = field(default=False, compare=False)
    excerpt: ClassVar[None] = None
    lingered: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        # A merchant may have chosen parts of it, such as the names in a certificate.
        line = "".join(char if " " <= char <= "~" else "?" for char in self.detail[: MAX_DETAIL + 1])
        detail = line if len(line) <= MAX_DETAIL else line[: MAX_DETAIL - len(_CUT)] + _CUT
        object.__setattr__(self, "detail", detail)

    @property
    def status(self) -> None:
        """A failure has no status."""
        return


NOT_SENT = Failure(Outcome.TIMEOUT, "nothing was sent: this process stood still for too long")
"""The attempt was held up until another process might make it. It does not count."""


def may_always() -> bool:
    """Tell that a request may be sent, whenever that is."""
    return True


class Verdict(NamedTuple):
    """What becomes of a delivery after an attempt.

    state: DELIVERED or FAILED when no attempt follows by itself; None while one does.
    reason: why it has failed. delay: from the end of the attempt to the next, where one follows; None
        where that stays due when it was.
    """

    state: State | None
    reason: FailedReason | None = None
    delay: timedelta | None = None


def judge(result: Answer | Failure, event: Event, schedule: Schedule) -> Verdict:
    """Decide what becomes of a delivery after one more attempt; what was delivered once stays so."""
    if result.outcome is Outcome.DELIVERED or event.on_failure is State.DELIVERED:
        return Verdict(State.DELIVERED)
    if result.outcome is Outcome.UNSENDABLE:
        return Verdict(State.FAILED, FailedReason.UNSENDABLE)
    if event.on_failure is State.FAILED:
        return Verdict(State.FAILED, FailedReason.EXHAUSTED)
    if event.scheduled_at is not None:
        return Verdict(None)
    delay = schedule.delay_after(event.attempts - event.attempts_by_hand + 1)
    if delay is None:
        return Verdict(State.FAILED, FailedReason.EXHAUSTED)
    return Verdict(None, delay=delay)
