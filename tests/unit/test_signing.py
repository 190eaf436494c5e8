"""The signature header, against vectors made by openssl and Stripe's published scheme."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook_dispatcher.domain.signing import (
    Secret,
    is_signed,
    is_standard_signed,
    signature,
    standard_headers,
)

FIRST = Secret("whsec_test_secret_of_some_length")
SECOND = Secret("whsec_" + "b" * 43)
BODY = b'{"id":"evt"}'
FIRST_HEX = "23853938fedc4f0386ac0d94e57875a9645ce395ba3ce595076adc8853eed963"
SECOND_HEX = "689f509bbb0b442e756b191c25107fc9991c6441c3f11cc23d6d843b708eed3a"


def test_one_secret() -> None:
    assert signature(BODY, (FIRST,), 1492774577) == f"t=1492774577,v1={FIRST_HEX}"


def test_two_secrets_newest_first() -> None:
    assert signature(BODY, (SECOND, FIRST), 1492774577) == f"t=1492774577,v1={SECOND_HEX},v1={FIRST_HEX}"


@given(st.binary(), st.text(min_size=24), st.integers(0, 2**33))
def test_the_whole_secret_is_the_key(body: bytes, text: str, stamp: int) -> None:
    text = text.encode(errors="replace").decode()
    expected = hmac.new(text.encode(), b"%d.%b" % (stamp, body), hashlib.sha256).hexdigest()
    assert signature(body, (Secret(text),), stamp) == f"t={stamp},v1={expected}"


@given(st.binary(), st.lists(st.text("ab", min_size=24, max_size=200), min_size=1, max_size=3))
def test_what_is_signed_well_verifies_and_nothing_else(body: bytes, texts: list[str]) -> None:
    secrets = tuple(map(Secret, texts))
    header = signature(body, secrets, 1492774577)
    assert is_signed(body, header, secrets)
    assert not is_signed(body + b" ", header, secrets)
    assert not is_signed(body, header.replace("t=1", "t=2"), secrets)
    assert not is_signed(body, header[:-1], secrets)
    assert not is_signed(body, header, (*secrets, FIRST))


STANDARD = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
"""Of the published libraries' own tests, with what they sign."""
STANDARD_SIGNED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
MESSAGE, TEST = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'


def test_the_standard_signature_is_the_published_one_and_of_each_secret_that_has_a_key() -> None:
    headers = standard_headers(MESSAGE, TEST, (STANDARD,), 1614265330)
    assert headers == {
        "webhook-id": MESSAGE,
        "webhook-timestamp": "1614265330",
        "webhook-signature": STANDARD_SIGNED,
    }
    other = Secret.from_random(bytes(range(32)))
    both = standard_headers(MESSAGE, TEST, (other, FIRST, STANDARD), 1614265330)["webhook-signature"]
    alone = standard_headers(MESSAGE, TEST, (other,), 1614265330)["webhook-signature"]
    assert both == f"{alone} {STANDARD_SIGNED}"
    assert standard_headers(MESSAGE, TEST, (FIRST,), 1614265330) == {}


@pytest.mark.parametrize(
    "text",
    [
        "whsec_" + "-_" * 21 + "A",  # url-safe, as they were made earlier
        "whsec_" + "A" * 43,  # without padding
        "whsec_" + "A" * 42 + "B=",  # bits beyond the last byte
        "whsec_" + "A" * 20 + "\n" + "A" * 23 + "=",
        "whsec_" + "A" * 40 + "é===",
        "sk_" + "A" * 43 + "=",
        "A" * 43 + "=",
        "whsec_whsec_" + "A" * 43 + "=",
    ],
)
def test_what_is_no_standard_base64_behind_the_prefix_has_no_standard_key(text: str) -> None:
    assert Secret(text).standard_key is None


@given(st.binary(min_size=24, max_size=64))
def test_every_secret_that_we_make_has_a_standard_key(random: bytes) -> None:
    assert Secret.from_random(random).standard_key == random


def test_a_standard_signature_verifies_as_it_was_signed_and_no_other_does() -> None:
    secrets = (Secret.from_random(bytes(range(64))), FIRST, STANDARD)
    headers = standard_headers(MESSAGE, TEST, secrets, 1614265330)
    assert is_standard_signed(TEST, headers, secrets)
    assert is_standard_signed(TEST, {}, secrets), "there is none to be wrong"
    assert not is_standard_signed(TEST + b" ", headers, secrets)
    assert not is_standard_signed(TEST, headers, secrets[:2])
    for name, value in headers.items():
        assert not is_standard_signed(TEST, {**headers, name: f"{value}0"}, secrets)
