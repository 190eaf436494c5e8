"""What an Idempotency-Key may be, and which answers are not kept: as we do it, and as it is documented."""

import re
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from webhook_dispatcher.api.calls import ApiError, Head, MerchantOperation, Request, Response
from webhook_dispatcher.api.catalogue import (
    CATALOGUE,
    KEY_MISSING,
    KEY_REUSED,
    STATE_FORBIDS,
    STILL_RUNNING,
    UNAVAILABLE,
)
from webhook_dispatcher.api.charge_service.claims import is_kept
from webhook_dispatcher.api.idempotency import key_of
from webhook_dispatcher.api.openapi.document import REQUEST_HEADERS
from webhook_dispatcher.api.validation import Nothing

PATTERN = REQUEST_HEADERS["RequiredKey"]["schema"]["pattern"]
PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
NEVER_REACHED = {KEY_MISSING, KEY_REUSED, STILL_RUNNING}
"""Codes that idempotency itself refuses with, before there is anything to keep."""
ROOT = Path(__file__).parents[2]
IN_QUOTES = st.text(st.sampled_from(PRINTABLE), min_size=1, max_size=255)


async def never(_request: Request, _: Nothing) -> Response:
    raise AssertionError


def read(*values: str, rule: Literal["required", "accepted", "none"] = "required") -> str | None:
    """Return the key that a request has with these headers; ApiError where it has none."""
    operation = MerchantOperation("POST", "/v1/things", "createThing", Nothing, never, idempotency=rule)
    headers = CIMultiDictProxy(CIMultiDict([("Idempotency-Key", value) for value in values]))
    return key_of(Head(operation, {}, "r1", "en", headers, "/v1/things", IPv4Address("127.0.0.1")))


def is_read(value: str) -> bool:
    try:
        return read(value) is not None
    except ApiError:
        return False


@pytest.mark.parametrize(
    ("value", "key"),
    [
        *(("k", "k"), ('"k"', "k"), ("a b", "a b"), ('" a "', " a "), ("x" * 255, "x" * 255)),
        *((f'"{"x" * 255}"', "x" * 255), (r'"%s"' % (r"\"" * 255), '"' * 255)),
        *((r'"a\"b\\c"', 'a"b\\c'), (r"a\"b", r"a\"b"), ('"', '"'), ('"a', '"a'), ('"a"b"', '"a"b"')),
        *((r'"a\b"', r'"a\b"'), (" k\t", "k")),
    ],
)
def test_a_quoted_key_is_what_it_quotes_and_any_other_is_itself(value: str, key: str) -> None:
    assert read(value) == key
    assert re.fullmatch(PATTERN, value.strip(" \t")), "it is not documented"


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", '""', "x" * 256, f'"{"x" * 256}"', "ключ", "k\u00a0", "\u0085k", '"é"', "a\tb"),
        *("k\x7f", "\udcff"),
    ],
)
def test_what_is_no_key_is_told_as_if_there_were_none(value: str) -> None:
    with pytest.raises(ApiError) as refused:
        read(value)
    assert refused.value.code == KEY_MISSING
    assert not re.fullmatch(PATTERN, value.strip(" \t")), "it is documented"


def test_two_keys_are_none_and_where_none_is_asked_for_none_is_read() -> None:
    with pytest.raises(ApiError):
        read("k", "k")
    with pytest.raises(ApiError):
        read()
    assert read(rule="accepted") is None
    with pytest.raises(ApiError):
        read("", rule="accepted")
    assert read("", rule="none") is None


@given(
    st.text(st.sampled_from(PRINTABLE + "\t\x7f\x1fé"), max_size=8)
    | st.text(st.sampled_from('a "\\'), max_size=8)
)
def test_the_document_allows_what_is_read_and_nothing_else(value: str) -> None:
    bare = value.strip(" \t")
    assert is_read(bare) == bool(re.fullmatch(PATTERN, bare))


@given(st.from_regex(PATTERN, fullmatch=True))
def test_what_the_document_allows_is_read(value: str) -> None:
    assert is_read(value)


@given(IN_QUOTES)
def test_every_key_can_be_quoted(key: str) -> None:
    quoted = '"' + key.replace("\\", r"\\").replace('"', r"\"") + '"'
    assert read(quoted) == key
    assert re.fullmatch(PATTERN, quoted)


@pytest.mark.parametrize("page", ["docs/merchants/idempotency.md", "docs/contract.md"])
def test_the_documents_name_each_refusal_that_is_not_kept(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    [sentence] = re.findall(r"[Nn]ot kept, since [^:]+: (.*?)\. ", text)
    named = {int(code) for code in re.findall(r"-1\d{3,4}", sentence)}
    refusals = {code: ApiError(code) for code in CATALOGUE if 400 <= (CATALOGUE[code].status or 0) < 500}
    not_kept = {code for code, refused in refusals.items() if not is_kept(refused)}
    by_status = {code for code in not_kept if CATALOGUE[code].status in (401, 429)}
    assert named - NEVER_REACHED == not_kept - by_status
    assert all(word in sentence for word in ("401", "429", "5xx", "`Retry-After`"))
    assert not is_kept(ApiError(STATE_FORBIDS, headers={"Retry-After": "1"}))
    assert is_kept(ApiError(STATE_FORBIDS))
    assert not is_kept(ApiError(UNAVAILABLE))
