"""The catalogue of errors: complete, and each text in its own language."""

from typing import Literal

import pytest
from pydantic import Field

from tests.unit.test_words import KEYS, SAID
from webhook_dispatcher.api.calls import ApiError
from webhook_dispatcher.api.catalogue import CATALOGUE, INTERNAL, RANGES, entry_of, message
from webhook_dispatcher.api.operations.models import Moment
from webhook_dispatcher.api.validation import SAME_AS, Model, from_json, from_strings
from webhook_dispatcher.domain.language import Language

STATUSES = (
    "-1007 422, -10001 401, -10002 401, -10003 401, -11001 400, -11002 422, -11003 409, -11005 429, "
    "-2006 422, -3004 409, -3006 422, -3007 409, -6004 422, -8004 422, -8006 403, -9002 422, -9004 422, "
    "-12004 422, -14001 422, -14002 404, -14003 404, -14004 409"
)


def test_a_text_ends_as_a_sentence() -> None:
    told = [key for key in KEYS if key.startswith(("api.", "field.")) and key != "field.or"]
    assert len(told) > 80
    assert all(said[key][0].endswith(".") for said in SAID.values() for key in told)


def test_statuses_are_those_that_partners_were_told() -> None:
    told = dict(pair.split() for pair in STATUSES.split(", "))
    assert {int(code): int(status) for code, status in told.items()}.items() <= {
        code: entry.status for code, entry in CATALOGUE.items()
    }.items()


def test_a_row_has_the_label_of_its_range() -> None:
    for known in RANGES:
        assert known.last <= known.first
        labels = {entry.type for code, entry in CATALOGUE.items() if code in known}
        assert labels <= {known.type, *(["request"] if known.type == "authentication" else [])}


def test_a_code_of_a_range_has_the_ranges_words_and_any_other_is_internal() -> None:
    assert entry_of(-3005).type == "charge"
    assert entry_of(-3005).status is None
    for hidden in (-13001, -13016, -15001, -15005, -1, 0, 7, -99999):
        assert entry_of(hidden) is CATALOGUE[INTERNAL]


def test_every_alias_of_an_error_type_leads_to_a_text() -> None:
    assert {f"field.{kind}" for kind in SAME_AS.values()} <= set(KEYS)


def test_what_is_not_there_behind_the_api_is_called_so() -> None:
    told = {code: message(code, "en") for code in (-3001, -3002, -5001, -6001)}
    assert told == {
        -3001: "There is no such charge.",
        -3002: "The charge does not allow this.",
        -5001: "There is no such merchant.",
        -6001: "There is no such recipient.",
    }
    assert {(entry_of(code).status, entry_of(code).type) for code in (-3001, -3002)} == {(None, "charge")}


class Asked(Model):
    since: Moment
    state: Literal["new", "paid", "gone"]
    limit: int = Field(1, ge=1)


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        (
            "en",
            [
                "The instant must not be earlier than 2000-01-01T00:00:00Z.",
                "This must be one of: 'new', 'paid' or 'gone'.",
                "The number must not be less than 1.",
            ],
        ),
        (
            "ru",
            [
                "Момент времени не должен быть раньше 2000-01-01T00:00:00Z.",
                "Допустимые значения: 'new', 'paid' или 'gone'.",
                "Число не должно быть меньше 1.",
            ],
        ),
        (
            "uz",
            [
                "Vaqt 2000-01-01T00:00:00Z dan oldin bo‘lmasligi kerak.",
                "Ruxsat etilgan qiymatlar: 'new', 'paid' yoki 'gone'.",
                "Son 1 dan kichik bo‘lmasligi kerak.",
            ],
        ),
    ],
)
def test_instants_and_choices_are_told_in_the_clients_language(language: Language, texts: list[str]) -> None:
    with pytest.raises(ApiError) as refused:
        from_strings(Asked, {"since": "1999-01-01T00:00:00Z", "state": "lost", "limit": "0"}, language)
    assert [detail.message for detail in refused.value.details] == texts


def test_an_instant_that_is_too_late_is_no_number() -> None:
    with pytest.raises(ApiError) as refused:
        from_json(Asked, b'{"since":"2100-01-01T00:00:00Z","state":"new"}', "en")
    assert refused.value.details[0].message == "The instant must be earlier than 2100-01-01T00:00:00Z."
