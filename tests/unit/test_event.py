"""The body that a merchant receives."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import make_event
from webhook_dispatcher.domain.event import (
    CHARGE_TYPES,
    EVENT_TYPES,
    SAMPLE_CHARGE,
    SAMPLES,
    TEST_EVENT_TYPE,
    render_instant,
    sample_of,
)

MILLISECOND = timedelta(milliseconds=1)


def test_the_body_is_the_contracts() -> None:
    event = make_event(
        1,
        id=UUID("00000000-0000-4000-8000-00000000000a"),
        type="charge.succeeded",
        created_at=datetime(2026, 11, 20, 8, 15, 30, 123999, tzinfo=UTC),
        object='{"b":1.50, "a":"é\\u00e9" }'.encode(),
    )
    assert event.body().decode() == (
        '{"id":"00000000-0000-4000-8000-00000000000a","type":"charge.succeeded",'
        '"createdAt":"2026-11-20T08:15:30.123Z","data":{"object":{"b":1.50, "a":"é\\u00e9" }}}'
    )


def test_a_test_is_told_as_its_sample_is() -> None:
    assert SAMPLES.keys() == {*CHARGE_TYPES}
    assert len({*SAMPLES.values(), SAMPLE_CHARGE}) == len(CHARGE_TYPES) + 1
    for name, charge in SAMPLES.items():
        event = make_event(1, type=TEST_EVENT_TYPE, object=charge)
        body = json.loads(event.body())
        assert (body["type"], event.headers("")["Service-Event-Type"]) == (name, name)
        assert body["data"]["object"]["id"] == f"ch_test_{name.removeprefix('charge.')}"
        assert body["data"]["object"]["externalId"] == "order_test"
    plain = make_event(1, type=TEST_EVENT_TYPE, object=SAMPLE_CHARGE)
    assert json.loads(plain.body())["type"] == "webhook.test"
    assert make_event(1, type="charge.created", object=charge).sent_type == "charge.created"


@given(st.binary())
def test_the_producers_text_is_passed_on_byte_for_byte(text: bytes) -> None:
    assert make_event(1, object=text).body().endswith(b'"data":{"object":' + text + b"}}")


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()))
def test_the_body_is_json(charge: dict[str, object]) -> None:
    event = make_event(7, object=json.dumps(charge, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if "\\ud" in json.dumps(charge):
        return
    assert json.loads(event.body())["data"]["object"] == charge


@given(
    st.datetimes(
        min_value=datetime(2000, 1, 2),  # noqa: DTZ001 - hypothesis asks for naive bounds
        max_value=datetime(2099, 12, 30),  # noqa: DTZ001
        timezones=st.timezones(),
    )
)
def test_instants_are_cut_to_the_millisecond_and_never_rounded_up(instant: datetime) -> None:
    text = render_instant(instant)
    assert len(text) == len("2026-11-20T08:15:30.123Z")
    assert timedelta() <= instant - datetime.fromisoformat(text) < MILLISECOND


@pytest.mark.parametrize(
    "text",
    [b"{}", b'{"a":1}', b' \t\r\n{"a":1}', b"{" + b" " * 262_143],
    ids=["empty", "one", "white", "large"],
)
def test_an_event_by_the_rules_has_no_fault(text: bytes) -> None:
    assert make_event(1, object=text).fault is None


@pytest.mark.parametrize("event_type", ["", "charge.created ", "charge\nX: y", "Refund", "a" * 65])
def test_a_malformed_type_is_not_known_and_no_fault(event_type: str) -> None:
    event = make_event(1, type=event_type)
    assert (event.is_known, event.fault) == (False, None)
    assert all(make_event(1, type=known).is_known for known in (*EVENT_TYPES, "refund.created", "a" * 64))


@pytest.mark.parametrize(
    ("sample", "told"),
    [
        (sample_of("refund.created", "id"), "refund.created"),
        (sample_of("refund.created", "charge.of.it"), "refund.created"),
        (b'{"a":"ch_test:b","id":"ch_test:c"}', "b"),
        (b'{"id":"ch_test:charge.failed"}', TEST_EVENT_TYPE),
        (b'{"id":"ch_test:delivery.failed"}', TEST_EVENT_TYPE),
        (b'{"id":"ch_test:Refund"}', TEST_EVENT_TYPE),
        (b'{"note":"\\"ch_test:b\\""}', TEST_EVENT_TYPE),
    ],
)
def test_a_test_of_ones_own_type_is_told_by_its_charge(sample: bytes, told: str) -> None:
    event = make_event(1, type=TEST_EVENT_TYPE, object=sample)
    assert (event.sent_type, event.type) == (told, TEST_EVENT_TYPE)
    assert make_event(1, type="charge.created", object=sample).sent_type == "charge.created"
    assert json.loads(event.body())["data"]["object"] == json.loads(sample)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"created_at": datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)}, "created_at"),
        ({"created_at": datetime(2100, 1, 1, tzinfo=UTC)}, "created_at"),
        ({"created_at": datetime.max.replace(tzinfo=UTC)}, "created_at"),
        ({"created_at": datetime.min.replace(tzinfo=UTC)}, "created_at"),
        ({"object": b""}, "object"),
        ({"object": b" [{}]"}, "object"),
        ({"object": b"null"}, "object"),
    ],
)
def test_an_event_past_the_rules_says_which_it_breaks(changed: dict[str, Any], named: str) -> None:
    fault = make_event(1, **changed).fault
    assert fault is not None
    assert fault.startswith(f"its {named} is not ")
