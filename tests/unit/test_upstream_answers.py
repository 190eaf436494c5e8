"""What of the charge service's answers reaches a client: each rule, and nothing else of what it wrote."""

import json
from typing import Any

import pytest

from tests.unit.builders import PUBLISHED
from webhook_dispatcher.api.charge_service.upstream_answers import (
    FieldProblem,
    Forwarded,
    Reply,
    UpstreamAway,
    UpstreamBroken,
    UpstreamError,
    judge,
)


def error(status: int, code: Any, retry_after: str | None = None, **fields: Any) -> Reply:
    return judge(status, json.dumps({"code": code, **fields}).encode(), PUBLISHED, retry_after)


@pytest.mark.parametrize("status", [200, 201, 202])
def test_a_success_passes_byte_for_byte(status: int) -> None:
    numbers = [b'{"b": 1.10, "a": 1e3}', b"0", b"-0.0"]
    for body in [*numbers, b"[]", b" null\n", b'"\\u00e9"', '"é"'.encode(), b'{"a":1,"a":2}']:
        assert judge(status, body, PUBLISHED) == Forwarded(status, body)


def test_a_success_without_a_body_is_null() -> None:
    assert judge(204, b"", PUBLISHED) == Forwarded(200, b"null")


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"NaN", b'{"a": Infinity}', b'{"a": -Infinity}', b"1e999", b"{'a': 1}", b"[1,]"),
        *(b'{}, "meta": {}', b"{}{}", b'{"a": 1', b"\xef\xbb\xbf{}", b'"\xff"', b'"\\ud800"', b"\x00", b"01"),
        *(b"// a\n{}", b'"a\nb"', b"[" * 5000 + b"]" * 5000),
    ],
)
def test_a_success_that_is_not_strictly_one_json_value_is_broken(body: bytes) -> None:
    assert isinstance(judge(200, body, PUBLISHED), UpstreamBroken)


@pytest.mark.parametrize("status", [101, 203, 206, 226, 300, 301, 302, 304, 307, 308, 401, 407, 600, 999])
def test_other_statuses_are_broken_whatever_the_body_says(status: int) -> None:
    for body in (b"{}", b'{"code": -9002}'):
        assert judge(status, body, PUBLISHED) == UpstreamBroken(f"it answered with status {status}")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *((-1007, 422), (-11001, 400), (-11002, 422), (-11003, 409), (-2006, 422), (-3004, 409)),
        *((-3006, 422),),
        *((-3007, 409), (-6004, 422), (-8004, 422), (-8006, 403), (-9002, 422), (-9004, 422), (-12004, 422)),
    ],
)
def test_a_code_of_the_table_has_the_tables_status(code: int, status: int) -> None:
    judged = {answered: error(answered, code) for answered in (400, 404, 422, 500, 503)}
    assert judged == dict.fromkeys(judged, UpstreamError(code, status))


@pytest.mark.parametrize("code", [-1001, -2009, -3001, -4004, -5006, -6007, -7002, -8008, -9009, -12001])
def test_another_code_of_a_range_has_its_own_status(code: int) -> None:
    statuses = (400, 404, 409, 410, 422, 451)
    assert [error(status, code) for status in statuses] == [UpstreamError(code, each) for each in statuses]


@pytest.mark.parametrize(
    "code",
    [-13001, -13016, -15001, -15005, -14005, -10001, -10002, -10003, -16001, -16010, -1010, -1, 0, 1007],
)
def test_other_codes_never_leave(code: int) -> None:
    for status in (400, 404, 422, 500):
        said = f"it answered with status {status} and the code {code}"
        assert error(status, code, message="for insiders") == UpstreamBroken(said)


@pytest.mark.parametrize("code", ["-9002", -9002.0, None, True, [-9002], {"code": -9002}, 10**30])
def test_what_is_no_whole_number_is_no_code(code: object) -> None:
    assert isinstance(error(422, code), UpstreamBroken)


@pytest.mark.parametrize("body", [b"", b"not now", b"[]", b'"-9002"', b"-9002", b'{"error": "x"}'])
def test_an_error_without_a_code_is_broken(body: bytes) -> None:
    assert judge(409, body, PUBLISHED) == UpstreamBroken("it answered with status 409 and no code")


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("body", [b"Bad gateway", b'{"code": -9005}', b'{"code": -13001}'])
def test_what_stands_before_it_may_say_that_it_is_away(status: int, body: bytes) -> None:
    assert judge(status, body, PUBLISHED) == UpstreamAway(f"it answered with status {status}", True)


def test_an_own_error_of_a_range_is_not_passed() -> None:
    assert isinstance(error(500, -9005), UpstreamBroken)


def test_other_fields_stay_but_never_ours() -> None:
    given: dict[str, Any] = {
        "failureReason": "insufficient_funds",
        "limit": {"left": 3},
        "message": "m",
        "type": "t",
    }
    kept = {"failureReason": "insufficient_funds", "limit": {"left": 3}}
    assert error(422, -9004, details=[], **given) == UpstreamError(-9004, 422, extra=kept)


def test_details_of_a_validation_have_their_two_fields_and_the_rest_is_dropped() -> None:
    good = {"field": "recipients.0.share", "message": "must not be less than 1"}
    given = [good, {**good, "value": "4111"}, {"field": "a"}, {"field": 1, "message": "m"}, "x", None]
    problem = FieldProblem(**good)
    assert error(422, -1007, details=given) == UpstreamError(-1007, 422, (problem, problem))
    assert error(422, -1003, details=[good]) == UpstreamError(-1003, 422, (problem,))


@pytest.mark.parametrize("details", [None, {}, "text", 1, [[]]])
def test_details_of_another_form_are_dropped(details: object) -> None:
    assert error(422, -1007, details=details) == UpstreamError(-1007, 422)


def test_details_of_other_errors_are_dropped() -> None:
    assert error(422, -2006, details=[{"field": "a", "message": "m"}]) == UpstreamError(-2006, 422)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        *((None, 1), ("17", 17), ("0", 1), ("00000017", 17), ("99999999", 86_400), ("999999999", 1)),
        *(("-1", 1), ("1.5", 1), ("\u0663", 1), ("Wed, 21 Oct 2026 07:28:00 GMT", 1), ("9" * 5000, 1)),
        *(("", 1),),
    ],
)
def test_too_many_requests_always_says_how_long_to_wait(given: str | None, seconds: int) -> None:
    assert error(429, -11005, given) == UpstreamError(-11005, 429, retry_after=seconds)


def test_other_errors_wait_only_where_it_says_so() -> None:
    assert error(409, -11003, "3") == UpstreamError(-11003, 409, retry_after=3)
    assert error(409, -11003) == UpstreamError(-11003, 409)
