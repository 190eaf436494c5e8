"""ISO 8601 durations."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook_dispatcher.domain.duration import parse_duration, render_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        *(("PT10S", timedelta(seconds=10)), ("PT0.025S", timedelta(milliseconds=25))),
        *(("PT1H30M", timedelta(hours=1, minutes=30)), ("PT24H", timedelta(days=1))),
        *(("P1DT12H", timedelta(days=1, hours=12)), ("P2W", timedelta(weeks=2)), ("PT0S", timedelta(0))),
    ],
)
def test_durations_are_read(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "10", "10s", "PT10", "P1M", "P1Y", "-PT1S", "PT-1S", "PT1.S", "PT1,5S", "PT.5S"]
    + ["P1W1D", "PT1M1H", "PT1.5H", " PT1S", "PT1S\n", "PT٣S", "PT99999999S", "PT0.0000001S"],
)
def test_anything_else_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="is not an ISO 8601 duration") as caught:
        parse_duration(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"), [("10", "PT10S"), ("0.5", "PT0.5S"), ("pt1m", "PT1M"), ("ten", "such as PT10S")]
)
def test_a_refusal_says_what_would_be_right(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=meant):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9_999_999)))
def test_what_is_written_reads_the_same(duration: timedelta) -> None:
    assert parse_duration(render_duration(duration)) == duration


@pytest.mark.parametrize("text", ["PT1M", "PT12H", "P30D", "PT0.025S", "P1DT1H1M1.5S", "PT0S"])
def test_canonical_text_is_kept(text: str) -> None:
    assert render_duration(parse_duration(text)) == text
