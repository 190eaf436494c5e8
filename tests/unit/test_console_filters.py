"""What the console's pages may be asked for, and where lists go on: refused before the database is asked."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW
from webhook_dispatcher.storage.console import positions
from webhook_dispatcher.storage.console.commands import CommandFilter
from webhook_dispatcher.storage.console.deliveries import DeliveryFilter
from webhook_dispatcher.storage.console.filters import EARLIEST, LATEST, FilterRefused, Refusal, check_text

BEYOND = Refusal.INSTANT_BEYOND


def refused(wanted: DeliveryFilter | CommandFilter) -> tuple[str, Refusal]:
    with pytest.raises(FilterRefused) as caught:
        wanted.check()
    return caught.value.field, caught.value.refusal


@pytest.mark.parametrize(
    ("wanted", "field", "refusal"),
    [
        (DeliveryFilter(since=EARLIEST - timedelta(microseconds=1)), "since", BEYOND),
        (DeliveryFilter(until=LATEST), "until", BEYOND),
        (DeliveryFilter(since=datetime.max.replace(tzinfo=UTC)), "since", BEYOND),
        (DeliveryFilter(until=datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))), "until", BEYOND),
        (DeliveryFilter(since=NOW.replace(tzinfo=None)), "since", BEYOND),
        (DeliveryFilter(since=NOW, until=NOW), "until", Refusal.RANGE_IS_EMPTY),
        (DeliveryFilter(merchant_id="x" * 256), "merchant_id", Refusal.TOO_LONG),
        (DeliveryFilter(merchant_id="a\0b"), "merchant_id", Refusal.UNREADABLE),
        (DeliveryFilter(charge_id="\ud800"), "charge_id", Refusal.UNREADABLE),
        (DeliveryFilter(state="lost"), "state", Refusal.UNKNOWN),
        (DeliveryFilter(type="Refund"), "type", Refusal.UNKNOWN),
        (DeliveryFilter(outcome="lost"), "outcome", Refusal.UNKNOWN),
        (DeliveryFilter(status=1000), "status", Refusal.UNKNOWN),
        (DeliveryFilter(status=-1), "status", Refusal.UNKNOWN),
        (DeliveryFilter(endpoint=2), "endpoint", Refusal.WHOSE),
        (CommandFilter(command="lost"), "command", Refusal.UNKNOWN),
        (CommandFilter(status="lost"), "status", Refusal.UNKNOWN),
        (CommandFilter(requested_by="\udfff"), "requested_by", Refusal.UNREADABLE),
    ],
)
def test_what_cannot_be_is_refused(
    wanted: DeliveryFilter | CommandFilter, field: str, refusal: Refusal
) -> None:
    assert refused(wanted) == (field, refusal)


def test_the_ends_of_time_are_let_through() -> None:
    DeliveryFilter(since=EARLIEST, until=LATEST - timedelta(microseconds=1)).check()
    DeliveryFilter("m", "failed", "charge.created", "status", 500, "ch_1").check()


@given(st.text(max_size=300))
def test_text_is_refused_or_can_be_stored(text: str) -> None:
    try:
        check_text("text", text)
    except FilterRefused:
        assert (
            len(text) > 255
            or "\0" in text
            or "\x1f" in text
            or any("\ud800" <= character <= "\udfff" for character in text)
        )
    else:
        assert "\0" not in text.encode().decode()


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.text("abc \N{SNOWMAN}'\"%", max_size=128))
def test_a_place_is_read_as_it_was_written(number: int, text: str) -> None:
    written = positions.write(number, text)
    assert positions.read(written, int, str) == [number, text]
    assert not set(written) & set("+/=&?%# ")


@given(st.text(max_size=100))
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(FilterRefused):
        positions.read(text, int, int, str, str)


@pytest.mark.parametrize("parts", [(True,), (2**63,), ("1",), (None,), (1, 2), (1.5,), ()])
def test_only_numbers_that_a_column_holds_are_places(parts: tuple[int | str, ...]) -> None:
    with pytest.raises(FilterRefused) as caught:
        positions.read(positions.write(*parts), int)
    assert caught.value.refusal is Refusal.NOT_A_CURSOR


def test_nested_places_and_long_ones_are_refused() -> None:
    for text in (positions.write("x" * 300), "W1tb" * 400, positions.write("[" * 200)):
        with pytest.raises(FilterRefused):
            positions.read(text, int)
    with pytest.raises(FilterRefused):
        positions.instant_of(2**62)


def test_an_instant_survives_a_place() -> None:
    assert positions.instant_of(positions.number_of(NOW)) == NOW
