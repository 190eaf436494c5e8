"""A new secret is stored as it was sealed by the key of now, or not at all."""

from collections.abc import Awaitable, Callable

import pytest

from webhook_dispatcher.domain.signing import Keyring, SealedSecret, SealingKey
from webhook_dispatcher.storage.api.endpoints import PutOutcome, Rotated, Rotation
from webhook_dispatcher.storage.api.new_secrets import MAX_SEALINGS, NotSealed, store_new_secret

KEYRING = Keyring({"k1": bytes(32), "k2": bytes(range(32))})
K1, K2 = (SealingKey(key_id, KEYRING.public_half(key_id)) for key_id in KEYRING.key_ids)


class Keys:
    """Gives these keys, one for each time that it is asked, and the last of them again and again."""

    def __init__(self, *keys: SealingKey | None) -> None:
        self._keys = list(keys)

    async def __call__(self) -> SealingKey | None:
        return self._keys.pop(0) if len(self._keys) > 1 else self._keys[0]


def storing(
    stored: list[SealedSecret], *results: PutOutcome
) -> Callable[[SealedSecret], Awaitable[PutOutcome]]:
    """Return what notes each sealed secret, and answers with one of the results after the other."""

    async def store(sealed: SealedSecret) -> PutOutcome:
        stored.append(sealed)
        return results[len(stored) - 1]

    return store


async def test_a_new_secret_is_stored_as_it_is_returned() -> None:
    stored: list[SealedSecret] = []
    result, secret = await store_new_secret("m1", Keys(K1), storing(stored, PutOutcome.CREATED))
    assert result is PutOutcome.CREATED
    assert [KEYRING.open("m1", sealed).revealed for sealed in stored] == [secret.revealed]


async def test_a_secret_is_sealed_again_by_the_key_that_has_come_meanwhile() -> None:
    stored: list[SealedSecret] = []
    results = PutOutcome.KEY_IS_OLD, PutOutcome.CREATED
    result, secret = await store_new_secret("m1", Keys(K1, K2), storing(stored, *results))
    assert result is PutOutcome.CREATED
    assert [sealed.opened_by for sealed in stored] == ["k1", "k2"]
    assert {KEYRING.open("m1", sealed).revealed for sealed in stored} == {secret.revealed}


async def test_a_rotation_is_tried_again_too() -> None:
    results = [Rotated(Rotation.KEY_IS_OLD), Rotated(Rotation.ROTATED)]

    async def store(_sealed: SealedSecret) -> Rotated:
        return results.pop(0)

    result, _ = await store_new_secret("m1", Keys(K1, K2), store)
    assert result.result is Rotation.ROTATED


async def test_without_a_key_nothing_is_stored() -> None:
    stored: list[SealedSecret] = []
    with pytest.raises(NotSealed, match="no dispatcher has confirmed"):
        await store_new_secret("m1", Keys(None), storing(stored))
    assert stored == []


async def test_a_key_that_changes_all_the_time_is_not_waited_for() -> None:
    stored: list[SealedSecret] = []
    results = [PutOutcome.KEY_IS_OLD] * MAX_SEALINGS
    with pytest.raises(NotSealed, match="changes all the time"):
        await store_new_secret("m1", Keys(K1), storing(stored, *results))
    assert len(stored) == MAX_SEALINGS
