"""The Partner API's small parts: paths, request ids, connections in order."""

import ast
from pathlib import Path

import pytest

from tests.unit.test_words import KEYS
from webhook_dispatcher.api import request_ids, validation
from webhook_dispatcher.api.calls import MAX_BODY_BYTES, ApiError
from webhook_dispatcher.api.catalogue import UNAVAILABLE
from webhook_dispatcher.api.fair_share import FairShare
from webhook_dispatcher.api.memory import MAX_UNCOUNTED, Reservation


def test_a_request_id_that_is_not_fit_is_replaced_by_a_new_one() -> None:
    assert request_ids.choose("abc~1") == "abc~1"
    assert request_ids.choose("a\nb") != request_ids.choose("a\nb")


def test_one_client_takes_no_more_than_a_share_of_the_budget_and_gives_it_back() -> None:
    """A merchant, or nobody, who begins many bodies and ends none shuts out himself alone."""
    share = FairShare(4 * MAX_BODY_BYTES, MAX_BODY_BYTES)
    with (
        Reservation(share, "a") as first,
        Reservation(share, "a") as second,
        Reservation(share, "b") as other,
    ):
        first.grow(MAX_BODY_BYTES - 1)
        with pytest.raises(ApiError) as caught:
            second.grow(2)
        assert caught.value.code == UNAVAILABLE
        other.grow(MAX_BODY_BYTES)
    with Reservation(share, "a") as again:
        again.grow(MAX_BODY_BYTES)


def test_an_answer_is_counted_once_however_it_came() -> None:
    share = FairShare(8 * MAX_UNCOUNTED, 4 * MAX_UNCOUNTED)
    with (
        Reservation(share, "a") as small,
        Reservation(share, "a") as forwarded,
        Reservation(share, "a") as own,
    ):
        small.cover(MAX_UNCOUNTED)
        forwarded.grow(2 * MAX_UNCOUNTED)
        forwarded.cover(2 * MAX_UNCOUNTED)
        own.cover(2 * MAX_UNCOUNTED)
        assert (small.size, forwarded.size, own.size) == (0, 2 * MAX_UNCOUNTED, 2 * MAX_UNCOUNTED)
        with pytest.raises(ApiError):
            small.cover(MAX_UNCOUNTED + 1)


def test_every_kind_of_fault_that_is_told_has_its_texts() -> None:
    """A kind without texts would be an error of our own, met by whoever makes that mistake first."""
    sources = [file.read_text() for file in Path(validation.__file__).parent.rglob("*.py")]
    calls = [call for text in sources for call in ast.walk(ast.parse(text)) if isinstance(call, ast.Call)]
    kinds = {
        ast.literal_eval(call.args[1])
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] == "refuse_field"
    }
    assert "cursor" in kinds
    assert {f"field.{kind}" for kind in kinds} <= set(KEYS)
