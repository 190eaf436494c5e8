"""What the receiver got against what outbox and log hold, when nothing is in flight any more."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from webhook_dispatcher.cli.demo.ledger import Ledger
from webhook_dispatcher.domain.delivery import DeliveryView
from webhook_dispatcher.domain.event import State


@dataclass(frozen=True, slots=True)
class DemoVerdict:
    """The figures, and what is wrong.

    merchants: how many were sent anything. lost: written but not in the database, or delivered according to
    the database and not to the receiver. repeated: accepted more than once, which at-least-once allows.
    """

    states: Counter[str]
    requests: int
    merchants: int
    lost: list[str]
    repeated: list[str]
    out_of_order: list[str]
    unrecorded: list[str]
    wrong_signatures: int
    api_requests: int = 0
    api_wrong: int = 0

    def problems(self) -> list[str]:
        """Say what is wrong, a line each."""
        wrong = {
            "lost": self.lost,
            "sent out of order": self.out_of_order,
            "sent more or less often than is on record": self.unrecorded,
            "signed wrong": [f"{self.wrong_signatures} requests"] if self.wrong_signatures else [],
            "answered wrong by the Partner API": [f"{self.api_wrong} requests"] if self.api_wrong else [],
        }
        return [f"{name}: {which}" for name, found in wrong.items() for which in found]

    def lines(self) -> Iterator[str]:
        """Say it in figures."""
        counts = {
            "delivered": self.states[State.DELIVERED],
            "to retry": self.states[State.PENDING_RETRY],
            "failed": self.states[State.FAILED],
            "not sent yet": self.states[State.PENDING],
        }
        in_order = self.merchants - len(self.out_of_order)
        yield f"  events    {self.states.total():>6}  " + ", ".join(
            f"{n} {name}" for name, n in counts.items()
        )
        yield f"  lost      {len(self.lost):>6}"
        yield f"  repeated  {len(self.repeated):>6}  accepted more than once"
        yield f"  in order  {in_order:>6}  of {self.merchants} merchants, by seq"
        yield f"  requests  {self.requests:>6}  {self.wrong_signatures} signed wrong"
        yield f"  API       {self.api_requests:>6}  asked by a merchant, {self.api_wrong} answered wrong"


def judge(found: Mapping[str, DeliveryView], ledger: Ledger, written: Mapping[str, int]) -> DemoVerdict:
    """Compare. found: all deliveries by event; written: the seq of each event that the producer committed."""
    seqs = {event_id: delivery.seq for event_id, delivery in found.items()}
    for sequence in ledger.sequences.values():
        sequence.judge(seqs)
    unaccepted = [
        event_id
        for event_id, delivery in found.items()
        if delivery.state == State.DELIVERED and not ledger.receipts[event_id].accepted
    ]
    return DemoVerdict(
        states=Counter(delivery.state for delivery in found.values()),
        requests=ledger.requests,
        merchants=sum(sequence.sent > 0 for sequence in ledger.sequences.values()),
        lost=[*(written.keys() - found.keys()), *unaccepted],
        repeated=[event_id for event_id, receipt in ledger.receipts.items() if receipt.accepted > 1],
        out_of_order=[name for name, sequence in ledger.sequences.items() if not sequence.is_in_order],
        unrecorded=[
            event_id
            for event_id, delivery in found.items()
            if delivery.attempts != ledger.receipts[event_id].requests
        ],
        wrong_signatures=ledger.wrong_signatures,
        api_requests=ledger.api_requests,
        api_wrong=ledger.api_wrong,
    )
