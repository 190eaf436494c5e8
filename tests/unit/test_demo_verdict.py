"""The demo's verdict finds what is lost, repeated, out of order, signed wrong or not on record."""

from collections import deque
from typing import Any

import pytest

from tests.unit.test_demo_audit import EVENT, LATER, arrival, delivery
from webhook_dispatcher.cli.demo import cast, feed
from webhook_dispatcher.cli.demo.ledger import MAX_UNSHOWN, Ledger, Request
from webhook_dispatcher.cli.demo.verdict import DemoVerdict, judge
from webhook_dispatcher.domain.delivery import DeliveryView
from webhook_dispatcher.domain.event import TEST_EVENT_TYPE, State
from webhook_dispatcher.local.arrivals import Arrival, Signature

WRITTEN = {str(event.id): event.seq for event in (EVENT, LATER)}
BOTH = [delivery(EVENT), delivery(LATER)]


def ledger_of(*arrivals: Arrival) -> Ledger:
    """Tell a ledger of arrivals as the receiver does: at the start and at the end."""
    ledger = Ledger()
    for came in arrivals:
        ended_at, status = came.ended_at, came.status
        came.ended_at = came.status = None
        ledger.take_in(came)
        came.ended_at, came.status = ended_at, status
        ledger.take_in(came)
    return ledger


def verdict(deliveries: list[DeliveryView], *arrivals: Arrival) -> DemoVerdict:
    found = {str(view.event_id): view for view in deliveries}
    return judge(found, ledger_of(*arrivals), WRITTEN)


def test_what_agrees_is_counted_and_not_complained_about() -> None:
    test = arrival(EVENT, 3, event_id="t", type=TEST_EVENT_TYPE)
    found = verdict(BOTH, arrival(EVENT, 1), arrival(LATER, 2), test)
    assert found.problems() == []
    assert next(found.lines()) == "  events         2  2 delivered, 0 to retry, 0 failed, 0 not sent yet"
    assert (found.requests, found.merchants, found.repeated) == (3, 1, [])


def test_an_event_that_failed_once_and_is_still_owed_is_not_lost() -> None:
    owed = delivery(LATER, state=State.PENDING_RETRY, attempts=1)
    found = verdict([delivery(EVENT), owed], arrival(EVENT, 1), arrival(LATER, 2, status=503))
    assert (found.problems(), found.states) == ([], {State.DELIVERED: 1, State.PENDING_RETRY: 1})


@pytest.mark.parametrize(
    ("deliveries", "arrivals", "problem"),
    [
        (BOTH[:1], [arrival(EVENT, 1)], f"lost: {LATER.id}"),
        (BOTH, [arrival(EVENT, 1), arrival(LATER, 2, status=500)], f"lost: {LATER.id}"),
        (BOTH, [arrival(LATER, 1), arrival(EVENT, 2)], f"sent out of order: {cast.HEALTHY.id}"),
        (
            [delivery(EVENT, attempts=2), BOTH[1]],
            [arrival(EVENT, 1), arrival(LATER, 2)],
            f"sent more or less often than is on record: {EVENT.id}",
        ),
        (BOTH, [arrival(EVENT, 1, signature=Signature.WRONG), arrival(LATER, 2)], "signed wrong: 1 requests"),
    ],
)
def test_what_is_wrong_is_found(
    deliveries: list[DeliveryView], arrivals: list[Arrival], problem: str
) -> None:
    assert verdict(deliveries, *arrivals).problems() == [problem]


def test_what_the_partner_api_answered_wrong_is_a_problem() -> None:
    ledger = ledger_of(arrival(EVENT, 1), arrival(LATER, 2))
    for is_right in (True, False):
        ledger.note_api(is_right)
    ledger.note_api_fault()
    found = judge({str(view.event_id): view for view in BOTH}, ledger, WRITTEN)
    assert found.problems() == ["answered wrong by the Partner API: 2 requests"]
    assert [*found.lines()][-1] == "  API            2  asked by a merchant, 2 answered wrong"


def test_what_was_accepted_twice_is_counted() -> None:
    deliveries = [delivery(EVENT, attempts=2), BOTH[1]]
    found = verdict(deliveries, arrival(EVENT, 1), arrival(LATER, 2), arrival(EVENT, 3, attempt=2))
    assert (found.repeated, found.problems()) == ([str(EVENT.id)], [])


def test_a_merchant_that_moved_is_one_merchant_and_its_attempts_go_on() -> None:
    moved: dict[str, Any] = {"merchant_id": cast.MOVED_TO, "attempt": 1}
    ledger = ledger_of(
        arrival(EVENT, 1, merchant_id=cast.HANGING.id, status=None), arrival(EVENT, 2, **moved)
    )
    assert ledger.sequences[cast.HANGING.id].sent == 1
    assert [(one.merchant_id, one.attempt, one.status) for one in ledger.unshown] == [
        (cast.HANGING.id, 1, None),
        (cast.HANGING.id, 2, 200),
    ]


def test_feed_has_the_latest_lines_and_how_many_there_were_besides() -> None:
    unshown = deque(Request("kiosk", "charge.created", n, 502, 3.2) for n in range(1, 6))
    assert [line.plain for line in feed.lines(unshown, 2)] == [
        "… 3 more",
        "charge.created           kiosk     attempt 4  502           3 ms",
        "charge.created           kiosk     attempt 5  502           3 ms",
    ]
    assert list(feed.lines(unshown, 2)) == []


def test_ledger_keeps_a_bounded_number_of_lines_that_nobody_looks_at() -> None:
    ledger = ledger_of(*(arrival(EVENT, n) for n in range(2 * MAX_UNSHOWN)))
    assert len(ledger.unshown) == MAX_UNSHOWN
