"""Sealing with a public half: only the right key opens it, and what was sealed once opens for ever."""

import base64
import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webhook_dispatcher.domain import sealing
from webhook_dispatcher.domain.errors import UnknownKey, UnopenedSecret
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, SealingKey, Secret

TEXT = "whsec_" + "s" * 43


def keyring(*letters: str) -> Keyring:
    """Make a keyring of keys named by a letter, each of that letter alone."""
    keys = [f"{letter}:{base64.b64encode(letter.encode() * 32).decode()}" for letter in letters]
    return Keyring.parse(",".join(keys))


def public(ring: Keyring, key_id: str = "k") -> SealingKey:
    return SealingKey(key_id, ring.public_half(key_id))


RING = keyring("k")


@given(st.binary(min_size=32, max_size=32), st.text(max_size=128).filter(lambda text: text.isprintable()))
def test_what_a_public_half_seals_its_key_opens(key: bytes, merchant_id: str) -> None:
    ring = Keyring({"k": key})
    assert ring.open(merchant_id, public(ring).seal(merchant_id, Secret(TEXT))).revealed == TEXT.encode()


def test_halves_and_what_they_sealed_are_the_same_for_every_version() -> None:
    # Kept in databases: another pair, or another form, would leave secrets there that nobody opens.
    assert RING.public_half("k").hex() == "3b1dd13dd4bc87ffdf520b24b25b269074b90c312ee37b8d44ca90e239c2f66f"
    sealed = SealedSecret(
        "hpke1:k",
        bytes.fromhex(
            "6a2f78b548468bd8ee9f8332d5aa7c0af0c9c91a7b818662443a2149fd63c848"
            "197064656a055f96e22a662c287d308a5294189bd75e5db497c693eaa1abb9c6"
            "47c29a82d59b8214f647ee50b0812a132893fb819f23f1d6fc9dfe676c0ddf37"
            "47"
        ),
    )
    assert RING.open("merchant-1", sealed).revealed == TEXT.encode()


def test_the_holder_of_the_key_opens_whichever_way_it_was_sealed() -> None:
    both = keyring("n", "k")
    by_half = public(RING).seal("m", Secret(TEXT))
    assert (by_half.key_id, by_half.opened_by, by_half.is_by_public_half) == ("hpke1:k", "k", True)
    assert both.open("m", by_half).revealed == both.open("m", RING.seal("m", Secret(TEXT))).revealed
    assert both.fits("m", by_half)
    plain = RING.seal("m", Secret(TEXT))
    assert (plain.opened_by, plain.is_by_public_half) == ("k", False)


def test_a_public_half_is_not_the_keys_check_nor_the_key() -> None:
    half = RING.public_half("k")
    assert half not in (b"k" * 32, RING.check_value("k"))
    assert half != hashlib.sha256(b"k" * 32).digest()
    assert keyring("n", "k").public_half("k") == half
    assert keyring("n").public_half("n") != half


def test_without_the_key_it_is_named() -> None:
    with pytest.raises(UnknownKey, match="WEBHOOK_SECRET_KEYS") as caught:
        keyring("n").open("m", public(RING).seal("m", Secret(TEXT)))
    assert caught.value.key_id == "k"


def test_a_form_that_is_not_known_is_a_missing_key_and_not_a_damaged_secret() -> None:
    with pytest.raises(UnknownKey) as caught:
        RING.open("m", SealedSecret("hpke2:k", bytes(97)))
    assert caught.value.key_id == "hpke2:k"


def refuses(ring: Keyring, merchant_id: str, sealed: SealedSecret) -> None:
    with pytest.raises(UnopenedSecret, match="does not open") as caught:
        ring.open(merchant_id, sealed)
    assert not isinstance(caught.value, UnknownKey), "the key is there"
    assert caught.value.key_id == "k"
    assert not ring.fits(merchant_id, sealed)


@given(st.text(max_size=128), st.text(max_size=128))
def test_another_merchants_does_not_open(merchant_id: str, other: str) -> None:
    names = [name.encode(errors="ignore").decode() for name in (merchant_id, other)]
    if names[0] != names[1]:
        refuses(RING, names[1], public(RING).seal(names[0], Secret(TEXT)))


@given(st.binary(min_size=32, max_size=32).filter(lambda key: key != b"k" * 32))
def test_what_was_sealed_for_another_key_under_our_id_does_not_open(key: bytes) -> None:
    refuses(RING, "m", public(Keyring({"k": key})).seal("m", Secret(TEXT)))


@given(st.integers(min_value=0, max_value=8 * 97 - 1))
@example(255)
def test_with_one_bit_changed_it_does_not_open(bit: int) -> None:
    sealed = bytearray(public(RING).seal("m", Secret(TEXT)).sealed)
    # The highest bit of a public half is not part of the number that it stands for: it is agreed on too.
    sealed[bit // 8] ^= 1 << bit % 8
    refuses(RING, "m", SealedSecret("hpke1:k", bytes(sealed)))


@given(st.one_of(st.binary(max_size=200), st.integers(0, 96)))
def test_cut_short_or_made_up_it_does_not_open(what: bytes | int) -> None:
    whole = public(RING).seal("m", Secret(TEXT)).sealed
    refuses(RING, "m", SealedSecret("hpke1:k", whole[:what] if isinstance(what, int) else what))


def test_the_two_forms_are_not_taken_for_each_other() -> None:
    by_half, by_key = public(RING).seal("m", Secret(TEXT)), RING.seal("m", Secret(TEXT))
    refuses(RING, "m", SealedSecret("k", by_half.sealed))
    refuses(RING, "m", SealedSecret("hpke1:k", by_key.sealed))


@pytest.mark.parametrize("plain", [b"", b"short", b"\xff" * 40])
def test_what_opens_and_is_no_secret_signs_nothing(plain: bytes) -> None:
    sealed = SealedSecret("hpke1:k", sealing.seal(RING.public_half("k"), "m", plain))
    with pytest.raises(UnopenedSecret, match=r"merchant 'm' is too short or no text: rotate") as caught:
        RING.open("m", sealed)
    assert caught.value.is_key_right


@pytest.mark.parametrize("half", [b"", bytes(31), bytes(32)])
def test_what_is_no_public_half_seals_nothing(half: bytes) -> None:
    with pytest.raises(ValueError, match=r"X25519 public key|shared key"):
        SealingKey("k", half).seal("m", Secret(TEXT))
