"""The catalogue of errors: complete, and each text in its own language."""

import re

import pytest

from webhook_dispatcher.api.catalogue import CATALOGUE, CAUSES, INTERNAL, RANGES, entry_of
from webhook_dispatcher.api.validation import OTHERWISE, SAME_AS, TEXTS
from webhook_dispatcher.domain.language import LANGUAGES

TOLD = {
    **{str(code): entry.messages for code, entry in CATALOGUE.items()},
    **{f"{known.first}…": known.messages for known in RANGES},
    **{f"{code} {cause}": words for code in CAUSES for cause, words in CAUSES[code].items()},
    **TEXTS,
    "otherwise": OTHERWISE,
}
STATUSES = (
    "-1007 422, -10001 401, -10002 401, -10003 401, -11001 400, -11002 422, -11003 409, -11005 429, "
    "-2006 422, -3004 409, -3006 422, -3007 409, -6004 422, -8004 422, -8006 403, -9002 422, -9004 422, "
    "-12004 422, -14001 422, -14002 404, -14003 404, -14004 409"
)


@pytest.mark.parametrize("name", TOLD)
def test_a_text_is_there_in_each_language_and_ends_as_a_sentence(name: str) -> None:
    messages = TOLD[name]
    assert set(messages) == set(LANGUAGES)
    assert all(text.endswith(".") and text == text.strip() for text in messages.values())
    assert not re.search("[А-Яа-яЁё‘’]", messages["en"])
    assert re.search("[А-Яа-яЁё]", messages["ru"])
    assert not re.search("[А-Яа-яЁё'ʻ`]", messages["uz"]), "o‘ and g‘ have U+2018, and ’ is U+2019"
    assert len({tuple(sorted(re.findall(r"\{\w+\}", text))) for text in messages.values()}) == 1


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
    assert set(SAME_AS.values()) <= set(TEXTS)
