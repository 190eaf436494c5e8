"""Proofs of passwords, and which passwords are taken."""

import hashlib

import pytest

from webhook_dispatcher.domain.password import (
    MAX_CHARACTERS,
    SALT_BYTES,
    PasswordParameters,
    find_fault,
    make_verifier,
    prove,
)

CHEAP = PasswordParameters(b"s" * SALT_BYTES, memory_kib=64, passes=1, parallelism=1)
WORDS = "correct horse battery"


def test_the_proof_is_argon2ids() -> None:
    """Source: the reference implementation's src/test.c, the first vector of argon2id."""
    given = PasswordParameters(b"somesalt", memory_kib=65536, passes=2, parallelism=1)
    expected = "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7"
    assert prove("password", given).hex() == expected


def test_what_is_kept_is_not_what_proves() -> None:
    verifier = make_verifier(WORDS, bytes(SALT_BYTES))
    proof = prove(WORDS, verifier.parameters)
    assert verifier.hash == hashlib.sha256(proof).digest() != proof
    assert (verifier.parameters.memory_kib, verifier.parameters.passes) == (65536, 3)
    assert verifier.hash.hex() not in repr(verifier)
    assert prove("correct horse batterY", verifier.parameters) != proof
    assert prove(WORDS, PasswordParameters(b"1" * SALT_BYTES)) != proof


def test_the_same_letters_are_the_same_password_however_a_keyboard_writes_them() -> None:
    assert prove("пароль й é", CHEAP) == prove("пароль \u0438\u0306 e\u0301", CHEAP)


@pytest.mark.parametrize("text", ["", "\ud800", "\x00" * 300, "я" * 5000])
def test_whatever_was_typed_has_a_proof(text: str) -> None:
    assert len(prove(text, CHEAP)) == 32


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(("x" * 11, "at least 12"), ("", "at least 12"), ("x" * (MAX_CHARACTERS + 1), "at most 256")),
        *(("correct\nhorse battery", "printable"), ("correct \udcff battery", "printable")),
    ],
)
def test_a_password_that_is_not_taken_is_told_why(text: str, said: str) -> None:
    assert said in (find_fault(text) or "")


@pytest.mark.parametrize(
    "text", [WORDS, "тўғри от батарея", "x" * 12, "y" * MAX_CHARACTERS, "🐎🐎🐎🐎 horses!"]
)
def test_a_long_password_of_any_letters_is_taken(text: str) -> None:
    assert find_fault(text) is None
