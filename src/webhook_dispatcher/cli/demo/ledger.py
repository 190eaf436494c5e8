"""What the receiver got, kept small: a demo may run for hours, and is judged by this in the end."""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook_dispatcher.cli.demo import cast
from webhook_dispatcher.domain.event import TEST_EVENT_TYPE
from webhook_dispatcher.local.arrivals import Arrival, Signature

MAX_UNSHOWN = 1_000
"""How many requests that nobody looks at are remembered."""


@dataclass(slots=True)
class Receipt:
    """How often an event was sent, and how often the receiver accepted it."""

    requests: int = 0
    accepted: int = 0


@dataclass(slots=True)
class Sequence:
    """The first requests of a merchant's events. unjudged: events in the order of these, not judged yet."""

    sent: int = 0
    last_seq: int = 0
    is_in_order: bool = True
    unjudged: deque[str] = field(default_factory=deque)

    def judge(self, seqs: Mapping[str, int]) -> None:
        """Compare with the order of seq, as far as that is known: an event may arrive before its seq does."""
        while self.unjudged and (seq := seqs.get(self.unjudged[0])) is not None:
            self.unjudged.popleft()
            self.is_in_order &= seq > self.last_seq
            self.last_seq = seq


@dataclass(frozen=True, slots=True)
class Request:
    """A request that has ended. status: None if it got no answer; ms: by the receiver's clock."""

    merchant_id: str
    type: str
    attempt: int
    status: int | None
    ms: float


class Ledger:
    """Counts what arrives. unshown: requests that ended since these were last looked at, the latest alone."""

    def __init__(self) -> None:
        self.receipts: defaultdict[str, Receipt] = defaultdict(Receipt)
        self.sequences = {merchant.id: Sequence() for merchant in cast.MERCHANTS}
        self.requests = 0
        self.wrong_signatures = 0
        self.api_requests = self.api_wrong = 0
        self.unshown: deque[Request] = deque(maxlen=MAX_UNSHOWN)

    def take_in(self, arrival: Arrival) -> None:
        """Note that a request has begun, or ended: the receiver tells both."""
        if arrival.ended_at is None:
            self._begin(arrival)
        else:
            self._end(arrival, arrival.ended_at)

    def note_api(self, is_right: bool) -> None:
        """Count a request to the Partner API that has ended. is_right: whether its answer is a success."""
        self.api_requests += 1
        self.api_wrong += not is_right

    def note_api_fault(self) -> None:
        """Count an answer of the Partner API that is a success and does not agree with the database."""
        self.api_wrong += 1

    def _begin(self, arrival: Arrival) -> None:
        self.requests += 1
        self.wrong_signatures += arrival.signature is not Signature.RIGHT
        receipt = self.receipts[arrival.event_id]
        receipt.requests += 1
        if receipt.requests == 1 and arrival.type != TEST_EVENT_TYPE:
            sequence = self.sequences[cast.merchant_at(arrival.merchant_id)]
            sequence.sent += 1
            sequence.unjudged.append(arrival.event_id)

    def _end(self, arrival: Arrival, ended_at: float) -> None:
        receipt = self.receipts[arrival.event_id]
        receipt.accepted += arrival.status is not None and 200 <= arrival.status <= 299
        ms = 1000 * (ended_at - arrival.started_at)
        merchant_id = cast.merchant_at(arrival.merchant_id)
        self.unshown.append(Request(merchant_id, arrival.type, receipt.requests, arrival.status, ms))
