"""The signature header, against vectors made by openssl and Stripe's published scheme."""

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from webhook_dispatcher.domain.signing import Secret, is_signed, signature

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
