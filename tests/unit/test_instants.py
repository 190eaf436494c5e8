"""Instants that Postgres has and Python has not."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook_dispatcher.storage.instants import decode, encode

LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
OFFSETS = st.timedeltas(timedelta(hours=-14), timedelta(hours=14)).map(timezone)


@given(st.datetimes(timezones=st.just(UTC) | OFFSETS))
def test_what_python_knows_goes_there_and_back_unchanged(instant: datetime) -> None:
    assert decode(encode(instant)) == min(max(instant, EARLIEST), LATEST)


@pytest.mark.parametrize(
    ("stored", "instant"),
    [(2**63 - 1, LATEST), (-(2**63), EARLIEST), (9_224_318_015_999_999_999, LATEST), (-(2**62), EARLIEST)],
)
def test_what_is_beyond_is_the_latest_or_earliest_that_python_knows(stored: int, instant: datetime) -> None:
    assert decode((stored,)) == instant


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_instant_can_be_compared_and_shown(stored: int) -> None:
    instant = decode((stored,))
    assert EARLIEST <= instant <= LATEST
    assert instant.astimezone(UTC).isoformat()


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(TypeError):
        encode(datetime(2026, 1, 1))  # noqa: DTZ001
