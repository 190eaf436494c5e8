"""The delays between attempts, as the contract has them."""

from datetime import timedelta

import pytest

from webhook_dispatcher.domain.schedule import Schedule


def test_default_schedule_is_that_of_the_contract() -> None:
    assert Schedule().delays == (
        *(timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15), timedelta(hours=1)),
        *(timedelta(hours=3), timedelta(hours=6), timedelta(hours=12)),
    )


@pytest.mark.parametrize(
    ("attempt", "delay"), [(1, timedelta(minutes=1)), (7, timedelta(hours=12)), (8, None), (9, None)]
)
def test_delay_after_an_attempt_counts_attempts_from_one(attempt: int, delay: timedelta | None) -> None:
    assert Schedule().delay_after(attempt) == delay
