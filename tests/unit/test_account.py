"""Names, codes and tokens of the console's accounts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook_dispatcher.domain.account import CODE_CHARACTERS, SessionToken, SignInCode, parse_name


@pytest.mark.parametrize("text", ["anna", "a", "anna.k@corp.uz", "a" * 64, "0-9_+", " Anna ", "ANNA"])
def test_a_name_is_read_as_people_write_it(text: str) -> None:
    assert parse_name(text) == text.strip().lower()


@pytest.mark.parametrize(
    "text", ["", " ", ".anna", "an na", "anna\n\x00", "a" * 65, "анна", "cli:anna", "-a"]
)
def test_what_can_be_no_name_is_none(text: str) -> None:
    assert parse_name(text) is None


@given(st.binary(min_size=CODE_CHARACTERS, max_size=CODE_CHARACTERS))
def test_a_code_is_read_as_it_is_shown_and_as_it_may_be_typed(random: bytes) -> None:
    code = SignInCode.from_random(random)
    assert code.shown[CODE_CHARACTERS // 2] == "-"
    typed = code.shown.lower().replace("1", "l").replace("0", "o")
    for text in (code.shown, code.revealed, typed, f" {code.shown.replace('-', ' ')} "):
        read = SignInCode.parse(text)
        assert read == code, text
        assert read.hash == code.hash


@pytest.mark.parametrize("text", ["", "ABCDE", "ABCDE-FGHJKM", "ABCDE-FGHJU", "ABCDE-FGHЖK", "٣" * 10])
def test_what_can_be_no_code_is_none(text: str) -> None:
    assert SignInCode.parse(text) is None


def test_a_token_is_read_as_it_was_made_and_shown_to_nobody() -> None:
    token = SessionToken.from_random(bytes(range(32)))
    assert SessionToken.parse(token.revealed) == token
    assert len(token.hash) == 32
    assert token.revealed not in f"{token} {token!r}"
    code = SignInCode.from_random(bytes(range(10)))
    assert code.revealed not in f"{code} {code!r}"


@pytest.mark.parametrize("text", ["", "a" * 42, "a" * 44, "a" * 42 + "=", "ä" * 43])
def test_what_can_be_no_token_is_none(text: str) -> None:
    assert SessionToken.parse(text) is None


def test_too_little_chance_is_refused() -> None:
    for make in (SessionToken.from_random, SignInCode.from_random):
        with pytest.raises(ValueError, match="random bytes are needed, not 3"):
            make(b"abc")
