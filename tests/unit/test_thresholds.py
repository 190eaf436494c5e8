"""Who fails: from how many attempts on a merchant is shown, reported and left out."""

import pytest

from tests.unit.builders import NOW
from webhook_dispatcher.domain.thresholds import is_failing


@pytest.mark.parametrize(
    ("attempted", "failed", "in_a_row", "expected"),
    [
        (100, 11, 0, True),
        (100, 10, 10, False),
        (19, 2, 0, True),
        (20, 2, 2, False),
        (1, 1, 1, False),
        (1, 1, 2, True),
        (0, 0, 1, True),
        (0, 0, 0, False),
    ],
)
def test_who_fails_is_told_by_over_a_tenth_of_the_latest_attempts(
    attempted: int, failed: int, in_a_row: int, expected: bool
) -> None:
    assert is_failing(attempted, failed, NOW if in_a_row else None, in_a_row) is expected
