"""Cursors go on where they were made, and nowhere else."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from webhook_dispatcher.api.operations.cursors import MAX_LENGTH, CursorRefused, Cursors, Listing

KEY = bytes(range(32))
HERE = Cursors(KEY)
ELSEWHERE = Cursors(bytes(32))
LISTING = Listing("listDeliveries", "m", {"state": "failed", "type": None})
CURSOR = HERE.make(LISTING, 7)


def _refusal(cursor: str, listing: Listing = LISTING, cursors: Cursors = HERE) -> str:
    with pytest.raises(CursorRefused) as refused:
        cursors.position(listing, cursor)
    return str(refused.value)


@given(st.integers(0, 2**63 - 1))
def test_a_cursor_says_its_position_to_the_list_it_was_made_for(position: int) -> None:
    cursor = HERE.make(LISTING, position)
    assert HERE.position(LISTING, cursor) == position
    assert Cursors(KEY).position(LISTING, cursor) == position, "any process of this database reads it"
    assert len(cursor) < MAX_LENGTH


def test_filters_that_were_not_given_and_their_order_do_not_matter() -> None:
    cursor = HERE.make(replace(LISTING, filters={"state": "failed", "since": "a", "until": "b"}), 7)
    same = replace(LISTING, filters={"until": "b", "type": None, "since": "a", "state": "failed"})
    assert HERE.position(same, cursor) == 7


def test_the_longest_merchant_fits() -> None:
    listing = replace(LISTING, merchant_id="\N{GRINNING FACE}" * 128)
    cursor = HERE.make(listing, 2**63 - 1)
    assert HERE.position(listing, cursor) == 2**63 - 1


@pytest.mark.parametrize(
    ("listing", "why"),
    [
        (replace(LISTING, operation="listEvents"), "another list"),
        (replace(LISTING, merchant_id="other"), "another list"),
        (replace(LISTING, filters={"state": "delivered"}), "other filters"),
        (replace(LISTING, filters={}), "other filters"),
    ],
)
def test_a_cursor_of_something_else_is_refused(listing: Listing, why: str) -> None:
    assert why in _refusal(HERE.make(LISTING, 7), listing)


def test_a_cursor_of_another_database_is_refused() -> None:
    assert "not from here" in _refusal(ELSEWHERE.make(LISTING, 7))


@given(st.integers(0, len(CURSOR.rstrip("=")) - 2), st.sampled_from("Az09-_"))
def test_a_damaged_cursor_is_refused(place: int, sign: str) -> None:
    assume(sign != CURSOR[place])
    assert "damaged" in _refusal(CURSOR[:place] + sign + CURSOR[place + 1 :])


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    assert "damaged" in _refusal(text)


@pytest.mark.parametrize("text", ["", "\ud800", "A" * 100_000, "gAAAAA==", "7", "{}"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    assert "damaged" in _refusal(text)
