"""The catalogue of errors: complete, and each text in its own language."""

from tests.unit.test_words import KEYS, SAID
from webhook_dispatcher.api.catalogue import CATALOGUE, INTERNAL, RANGES, entry_of
from webhook_dispatcher.api.validation import SAME_AS

STATUSES = (
    "-1007 422, -10001 401, -10002 401, -10003 401, -11001 400, -11002 422, -11003 409, -11005 429, "
    "-2006 422, -3004 409, -3006 422, -3007 409, -6004 422, -8004 422, -8006 403, -9002 422, -9004 422, "
    "-12004 422, -14001 422, -14002 404, -14003 404, -14004 409"
)


def test_a_text_ends_as_a_sentence() -> None:
    told = [key for key in KEYS if key.startswith(("api.", "field."))]
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
