"""Client ids, secrets and access tokens: how they look, what is kept of them, and that they stay hidden."""

import hashlib

import pytest

from webhook_dispatcher.domain.credentials import AccessToken, ClientId, ClientSecret

RANDOM = bytes(range(224, 256))
TEXT = "4OHi4-Tl5ufo6err7O3u7_Dx8vP09fb3-Pn6-_z9_v8"
ID = "4OHi4-Tl5ufo6err7O3u7w"


def test_they_are_random_bytes_in_base64_that_urls_may_hold() -> None:
    assert ClientSecret.from_random(RANDOM).revealed == TEXT
    assert AccessToken.from_random(RANDOM, None).revealed == TEXT
    assert str(ClientId.from_random(RANDOM[:16], None)) == ID


def test_they_begin_with_their_databases_name_where_it_has_one() -> None:
    token, client_id = AccessToken.from_random(RANDOM, "eu1"), ClientId.from_random(RANDOM[:16], "eu1")
    assert (token.revealed, str(client_id)) == (f"eu1.{TEXT}", f"eu1.{ID}")
    assert (AccessToken.parse(token.revealed), ClientId.parse(str(client_id))) == (token, client_id)


def test_no_client_id_looks_like_an_option_of_a_command() -> None:
    assert str(ClientId.from_random(b"\xf8" + bytes(15), None)) == "_" + "A" * 21


def test_what_is_kept_is_a_hash_of_the_random_part_alone() -> None:
    kept = hashlib.sha256(TEXT.encode()).digest()
    assert ClientSecret.from_random(RANDOM).hash == kept
    assert AccessToken.from_random(RANDOM, "eu1").hash == AccessToken.from_random(RANDOM, None).hash == kept


@pytest.mark.parametrize("size", [0, 31, 33])
def test_too_few_or_too_many_random_bytes_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=r"32 random bytes are needed"):
        ClientSecret.from_random(bytes(size))


@pytest.mark.parametrize(
    "text",
    [
        *("", TEXT[1:], TEXT + "A", TEXT + "\n", f".{TEXT}", f"EU1.{TEXT}", f"a.b.{TEXT}"),
        *(f"{'x' * 33}.{TEXT}", "é" + TEXT[1:], "٣" + TEXT[1:], "=" + TEXT[1:]),
    ],
)
def test_what_has_another_form_is_none(text: str) -> None:
    assert AccessToken.parse(text) is None
    assert ClientSecret.parse(text) is None
    assert ClientId.parse(text) is None


def test_a_secret_has_no_name_before_it() -> None:
    assert ClientSecret.parse(f"eu1.{TEXT}") is None
    assert ClientSecret.parse(TEXT) == ClientSecret(TEXT)


def test_neither_secrets_nor_tokens_show_themselves() -> None:
    token = AccessToken.from_random(RANDOM, "eu1")
    for hidden in (ClientSecret(TEXT), token):
        for text in (repr(hidden), str(hidden), f"{hidden}", repr([hidden])):
            assert TEXT not in text
