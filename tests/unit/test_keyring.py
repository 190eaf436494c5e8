"""Sealing and opening secrets."""

import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webhook_dispatcher.domain.errors import ConfigurationError, UnknownKey, UnopenedSecret
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, SealingKey, Secret, is_signed, signature

OLD = "old:" + base64.b64encode(b"o" * 32).decode()
NEW = "new:" + base64.b64encode(b"n" * 32).decode()
TEXT = "whsec_" + "s" * 43


@given(st.text(min_size=24, alphabet=st.characters(exclude_categories=["Cs"])), st.text(max_size=128))
def test_what_was_sealed_opens(text: str, merchant_id: str) -> None:
    merchant_id = merchant_id.encode(errors="ignore").decode()
    keyring = Keyring.parse(NEW)
    assert keyring.open(merchant_id, keyring.seal(merchant_id, Secret(text))).revealed == text.encode()


def test_the_first_key_seals_and_any_opens() -> None:
    both = Keyring.parse(f"{NEW}, {OLD}")
    assert both.key_ids == ("new", "old")
    assert both.seal("m", Secret(TEXT)).key_id == "new"
    assert both.open("m", Keyring.parse(OLD).seal("m", Secret(TEXT))).revealed == TEXT.encode()


def test_the_same_secret_is_never_sealed_to_the_same_bytes() -> None:
    keyring = Keyring.parse(NEW)
    assert keyring.seal("m", Secret(TEXT)) != keyring.seal("m", Secret(TEXT))


def test_a_key_that_is_not_held_is_named() -> None:
    sealed = Keyring.parse(OLD).seal("m", Secret(TEXT))
    with pytest.raises(UnknownKey, match="WEBHOOK_SECRET_KEYS") as caught:
        Keyring.parse(NEW).open("m", sealed)
    assert caught.value.key_id == "old"


def tampered(sealed: SealedSecret) -> list[tuple[str, SealedSecret]]:
    return [
        *(("another merchant", sealed), ("m", SealedSecret("old", sealed.sealed))),
        *(("m", SealedSecret("new", sealed.sealed[:-1])), ("m", SealedSecret("new", sealed.sealed[:5]))),
        *(("m", SealedSecret("new", sealed.sealed[:12])), ("m", SealedSecret("new", b""))),
        ("m", SealedSecret("new", bytes([sealed.sealed[0] ^ 1]) + sealed.sealed[1:])),
    ]


@pytest.mark.parametrize("which", range(7))
def test_a_secret_that_was_moved_or_damaged_does_not_open(which: int) -> None:
    keyring = Keyring.parse(f"{NEW},{OLD}")
    merchant_id, sealed = tampered(keyring.seal("m", Secret(TEXT)))[which]
    with pytest.raises(UnopenedSecret, match="does not open") as caught:
        keyring.open(merchant_id, sealed)
    assert not isinstance(caught.value, UnknownKey), "the key is there"
    assert not keyring.fits(merchant_id, sealed)


@pytest.mark.parametrize("plain", [b"", b"short", b"whsec_" + b"x" * 17, b"\xff" * 40])
def test_stored_bytes_that_are_no_secret_are_our_fault_and_sign_nothing(plain: bytes) -> None:
    keyring = Keyring.parse(NEW)
    sealed = SealedSecret("new", b"n" * 12 + keyring._ciphers["new"].encrypt(b"n" * 12, plain, b"m"))
    with pytest.raises(UnopenedSecret, match=r"merchant 'm' is too short or no text: rotate") as caught:
        keyring.open("m", sealed)
    assert not isinstance(caught.value, UnknownKey), "the key is there"
    assert keyring.fits("m", sealed), "the key is the right one, whatever it has sealed"
    assert "x" * 17 not in str(caught.value)


@pytest.mark.parametrize("text", ["", "x", "whsec_" + "x" * 17])
def test_there_is_no_empty_or_short_secret(text: str) -> None:
    with pytest.raises(ValueError, match="at least 24 characters") as caught:
        Secret(text)
    assert "x" * 17 not in str(caught.value)


def test_a_check_tells_keys_and_ids_apart_and_is_the_same_for_every_version() -> None:
    keyring = Keyring.parse(f"{NEW},{OLD}")
    # Kept in databases: another value would refuse every key that is in use.
    assert keyring.check_value("new").hex() == "83be92a4df8c118b0e1733024587dbdb"
    assert keyring.check_value("new") == Keyring.parse(NEW).check_value("new")
    other = Keyring.parse("new:" + base64.b64encode(b"N" * 32).decode())
    renamed = Keyring.parse("newer:" + base64.b64encode(b"n" * 32).decode())
    values = {keyring.check_value("new"), keyring.check_value("old")}
    values |= {other.check_value("new"), renamed.check_value("newer")}
    assert [len(value) for value in values] == [16] * 4


SHORT = base64.b64encode(b"x" * 31).decode()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "key 1 is not of the form id:base64key"),
        (base64.b64encode(b"x" * 32).decode(), "key 1 is not of the form"),
        *((f"{NEW},", "key 2 is not of the form"), (f":{SHORT}", "key 1 is not of the form")),
        *((f"a b:{SHORT}", "key 1 is not of the form"), ("k:not base64!", "key 'k' is not valid base64")),
        ("k:YQ", "key 'k' is not valid base64"),
        ("k:" + "é" * 43 + "=", "key 'k' is not valid base64"),
        (f"k:{SHORT}", "key 'k' has 31 bytes, not 32"),
        ("k:", "key 'k' has 0 bytes, not 32"),
        (f"{NEW},{NEW}", "key id 'new' is given twice"),
    ],
)
def test_malformed_keys_are_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        Keyring.parse(text)
    assert SHORT not in str(caught.value)


def test_no_key_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError):
        Keyring({})


def test_a_keyring_and_a_secret_do_not_show_themselves() -> None:
    assert repr(Keyring.parse(f"{NEW},{OLD}")) == "Keyring(new, old)"
    assert "s" * 10 not in f"{Secret(TEXT)!r} {Secret(TEXT)}"


@given(st.binary(min_size=24, max_size=64))
@example(b"\xff" * 32)
@example(b"\xfb\xef\xbe" * 10 + b"\xfb\xef")
def test_a_secret_is_random_bytes_in_the_base64_that_every_library_decodes(random: bytes) -> None:
    text = Secret.from_random(random).revealed.decode()
    assert base64.b64decode(text.removeprefix("whsec_"), validate=True) == random
    assert text == "whsec_" + base64.b64encode(random).decode()


@pytest.mark.parametrize("size", [0, 23, 65])
def test_a_secret_of_too_few_or_too_many_random_bytes_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="24 to 64 random bytes"):
        Secret.from_random(bytes(size))


@given(st.binary(min_size=32, max_size=32))
@example(b"\xfb\xff" * 16)
def test_a_secret_made_before_in_the_alphabet_of_urls_is_sealed_opened_and_signs(random: bytes) -> None:
    ring, text = Keyring.parse(NEW), "whsec_" + base64.urlsafe_b64encode(random).rstrip(b"=").decode()
    for sealer in (ring, SealingKey("new", ring.public_half("new"))):
        opened = ring.open("m", sealer.seal("m", Secret(text)))
        assert opened.revealed == text.encode()
        assert is_signed(b"{}", signature(b"{}", (opened,), 1492774577), (Secret(text),))
