"""Names, codes and tokens of the console's accounts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook_dispatcher.domain.account import CODE_CHARACTERS, SessionToken, SignInCode, parse_name


def test_a_name_is_read_as_people_write_it() -> None:
    names = ("anna", "a", "anna.k@corp.uz", "a" * 64, "0-9_+", " Anna ", "ANNA")
    others = ("", " ", ".anna", "an na", "anna\n\x00", "a" * 65, "анна", "cli:anna", "-a")
    wanted = {**{text: text.strip().lower() for text in names}, **dict.fromkeys(others)}
    assert {text: parse_name(text) for text in wanted} == wanted


@given(st.binary(min_size=CODE_CHARACTERS, max_size=CODE_CHARACTERS))
def test_a_code_is_read_as_it_is_shown_and_as_it_may_be_typed(random: bytes) -> None:
    code = SignInCode.from_random(random)
    assert code.shown[CODE_CHARACTERS // 2] == "-"
    typed = code.shown.lower().replace("1", "l").replace("0", "o")
    for text in (code.shown, code.revealed, typed, f" {code.shown.replace('-', ' ')} "):
        read = SignInCode.parse(text)
        assert read == code, text
        assert read.hash == code.hash


def test_what_can_be_no_code_is_none() -> None:
    others = ("", "ABCDE", "ABCDE-FGHJKM", "ABCDE-FGHJU", "ABCDE-FGHЖK", "٣" * 10)
    assert [text for text in others if SignInCode.parse(text) is not None] == []


def test_a_token_is_read_as_it_was_made_and_shown_to_nobody() -> None:
    token = SessionToken.from_random(bytes(range(32)))
    assert (SessionToken.parse(token.revealed), len(token.hash)) == (token, 32)
    assert token.revealed not in f"{token} {token!r}"
    code = SignInCode.from_random(bytes(range(10)))
    assert code.revealed not in f"{code} {code!r}"


def test_what_can_be_no_token_is_none() -> None:
    others = ("", "a" * 42, "a" * 44, "a" * 42 + "=", "ä" * 43)
    assert [text for text in others if SessionToken.parse(text) is not None] == []


def test_too_little_chance_is_refused() -> None:
    for make in (SessionToken.from_random, SignInCode.from_random):
        with pytest.raises(ValueError, match="random bytes are needed, not 3"):
            make(b"abc")
