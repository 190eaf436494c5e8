"""The schedule, and what follows from an attempt."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW, make_event
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.verdict import MAX_DETAIL, Answer, Failure, Outcome, Verdict, judge

SCHEDULE = Schedule()
TIMEOUT = Failure(Outcome.TIMEOUT, "")
UNSENDABLE = Failure(Outcome.UNSENDABLE, "")
DELIVERED = Verdict(State.DELIVERED)
EXHAUSTED = Verdict(State.FAILED, FailedReason.EXHAUSTED)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 226, 299])
def test_any_2xx_is_a_delivery(status: int) -> None:
    assert judge(Answer(status), make_event(1), SCHEDULE) == DELIVERED


@pytest.mark.parametrize("status", [0, 99, 100, 101, 199, 300, 301, 304, 400, 404, 410, 429, 500, 503, 999])
def test_any_other_status_is_retried_alike(status: int) -> None:
    assert Answer(status).outcome is Outcome.STATUS
    assert judge(Answer(status), make_event(1), SCHEDULE) == Verdict(None, delay=timedelta(minutes=1))


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.DELIVERED, Outcome.UNSENDABLE}))
def test_every_failure_is_retried_alike(outcome: Outcome) -> None:
    assert judge(Failure(outcome, ""), make_event(1), SCHEDULE) == Verdict(None, delay=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        *((0, "000"), (99, "099"), (101, "101 Switching Protocols"), (302, "302 Found")),
        *((404, "404 Not Found"), (503, "503 Service Unavailable"), (529, "529"), (999, "999")),
    ],
)
def test_a_status_is_called_what_the_standard_calls_it(status: int, words: str) -> None:
    assert Answer(status).detail == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ECONNREFUSED", "ECONNREFUSED"),
        ("a\r\nb\tc\0d\x1b[2J\x7f\x9b", "a??b?c?d?[2J??"),
        ("paypal\u202emoc.\u2066\u200f\u2028\ufeff", "paypal?moc.????"),
        ("\u0430pple\ud800", "?pple?"),
        ("x" * MAX_DETAIL, "x" * MAX_DETAIL),
        ("x" * MAX_DETAIL + "y", "x" * (MAX_DETAIL - 3) + "..."),
    ],
)
def test_what_a_failure_says_is_one_line_that_is_safe_to_show(text: str, shown: str) -> None:
    assert Failure(Outcome.TLS, text).detail == shown


@pytest.mark.parametrize(
    ("seen", "attempts", "on_failure", "verdict"),
    [
        (TIMEOUT, 20, None, EXHAUSTED),
        *((TIMEOUT, 0, State.FAILED, EXHAUSTED), (TIMEOUT, 8, State.FAILED, EXHAUSTED)),
        (TIMEOUT, 1, State.DELIVERED, DELIVERED),
        (UNSENDABLE, 0, None, Verdict(State.FAILED, FailedReason.UNSENDABLE)),
        (UNSENDABLE, 8, State.FAILED, Verdict(State.FAILED, FailedReason.UNSENDABLE)),
        *((UNSENDABLE, 1, State.DELIVERED, DELIVERED), (Answer(204), 7, None, DELIVERED)),
        *((Answer(204), 8, State.FAILED, DELIVERED), (Answer(204), 1, State.DELIVERED, DELIVERED)),
    ],
)
def test_verdicts(seen: Answer | Failure, attempts: int, on_failure: State | None, verdict: Verdict) -> None:
    assert judge(seen, make_event(1, attempts=attempts, on_failure=on_failure), SCHEDULE) == verdict


@pytest.mark.parametrize(
    ("seen", "on_failure", "verdict"),
    [
        (TIMEOUT, None, Verdict(None)),
        (TIMEOUT, State.FAILED, EXHAUSTED),
        (UNSENDABLE, None, Verdict(State.FAILED, FailedReason.UNSENDABLE)),
        (Answer(204), None, DELIVERED),
    ],
)
def test_what_follows_one_beside_the_schedule(
    seen: Answer | Failure, on_failure: State | None, verdict: Verdict
) -> None:
    event = make_event(1, attempts=7, on_failure=on_failure, scheduled_at=NOW)
    assert judge(seen, event, SCHEDULE) == verdict


def test_attempts_by_hand_do_not_move_the_schedule() -> None:
    delays = [
        judge(TIMEOUT, make_event(1, attempts=made, attempts_by_hand=3), SCHEDULE) for made in range(3, 11)
    ]
    assert delays == [*(Verdict(None, delay=delay) for delay in SCHEDULE.delays), EXHAUSTED]


@given(st.lists(st.timedeltas(min_value=timedelta(0)), max_size=10).map(tuple))
def test_a_delivery_is_attempted_once_more_than_there_are_delays(delays: tuple[timedelta, ...]) -> None:
    verdicts = [judge(TIMEOUT, make_event(1, attempts=made), Schedule(delays)) for made in range(12)]
    assert verdicts[: len(delays)] == [Verdict(None, delay=delay) for delay in delays]
    assert set(verdicts[len(delays) :]) == {EXHAUSTED}
