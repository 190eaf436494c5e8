"""A new signing secret: made, sealed with the public half of the dispatchers' key, and stored.

The Partner API and the console hold no keys: each asks the database which public half to seal with. That may
be replaced between the asking and the storing; the database then refuses what was sealed with the one before.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.domain.signing import SECRET_RANDOM_BYTES, SealedSecret, SealingKey, Secret
from webhook_dispatcher.storage.api.endpoints import Added, AddOutcome, PutOutcome, Rotated, Rotation

MAX_SEALINGS = 3
"""How often a secret is sealed, the key having been replaced in between, before that is given up."""
_KEY_IS_OLD = (PutOutcome.KEY_IS_OLD, Rotated(Rotation.KEY_IS_OLD), Added(AddOutcome.KEY_IS_OLD))

Stored = TypeVar("Stored", PutOutcome, Rotated, Added)


class NotSealed(DispatcherError):
    """A new secret could not be sealed, so it was not stored. Reaction: say so; try again later."""


async def store_new_secret(
    merchant_id: str,
    read_key: Callable[[], Awaitable[SealingKey | None]],
    store: Callable[[SealedSecret], Awaitable[Stored]],
) -> tuple[Stored, Secret]:
    """Make a secret and store it sealed; return what became of it, and the secret, to be shown once.

    read_key: asks for the key to seal with, for now. Errors: NotSealed; nothing was stored.
    """
    secret = Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES))
    for _ in range(MAX_SEALINGS):
        if (key := await read_key()) is None:
            raise NotSealed(
                "no dispatcher has confirmed its sealing key within the last hour: is one running?"
            )
        stored = await store(key.seal(merchant_id, secret))
        if stored not in _KEY_IS_OLD:
            return stored, secret
    raise NotSealed("the sealing key changes all the time")
