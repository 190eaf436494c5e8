"""Whether our encryption keys are those that their ids stand for: the statements of keys.sql, bound.

For each key id a few bytes are kept that only the key's holder can compute. They are written by who has
opened a stored secret with the key, and never changed: a wrong key under a right id is refused before it
seals anything, and two processes with two keys under one new id cannot both seal with it. Beside them the
public half of the key that seals is published, for those who may seal and not open; until a secret was
opened, another half under our id says that our key is wrong.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.lane import merchant_of
from webhook_dispatcher.domain.sealing import by_public_half
from webhook_dispatcher.domain.signing import Keyring, SealedSecret
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

MAX_SAMPLES = 5
"""Secrets of a key id without a check that are tried: where one of them opens, the others are damaged."""
REMEDY = "give each id the key that it was first used with; a new key takes a new id"

_KEYS = load("keys")

Connection = asyncpg.Connection | asyncpg.Pool | PoolConnectionProxy


@dataclass(frozen=True, slots=True)
class WrongKey:
    """A key that is not the one its id stands for. tried: merchants whose secrets it does not open."""

    key_id: str
    tried: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.tried:
            return f"WEBHOOK_SECRET_KEYS: {self.key_id!r} is not the key that this database knows by that id"
        merchants = ", ".join(map(repr, self.tried))
        return (
            f"WEBHOOK_SECRET_KEYS: {self.key_id!r} opens none of the secrets tried that are sealed under "
            f"that id (of {merchants})"
        )


@dataclass(frozen=True, slots=True)
class Examined:
    """What became of our keys. opened: for each that has no check yet, a secret that it opens, and whose."""

    wrong: tuple[WrongKey, ...]
    opened: tuple[tuple[str, SealedSecret], ...]


def refusal(wrong: Sequence[WrongKey]) -> ConfigurationError:
    """Say which keys are wrong, and what to do."""
    return ConfigurationError(*map(str, wrong), remedy=REMEDY, separator="; ")


async def examine(connection: Connection, keyring: Keyring) -> Examined:
    """Compare our keys with their checks, or have them open a few secrets; writes nothing."""
    checks = {
        row["key_id"]: row["value"] for row in await _rows(connection, "read_key_checks", [*keyring.key_ids])
    }
    wrong = [WrongKey(key_id) for key_id, value in checks.items() if value != keyring.check_value(key_id)]
    opened = []
    unchecked = [key_id for key_id in keyring.key_ids if key_id not in checks]
    published = {row["key_id"]: row for row in await _rows(connection, "read_public_halves", unchecked)}
    found = await _sample(connection, unchecked)
    for key_id in unchecked:
        samples, half = found[key_id], published.get(key_id)
        is_ours = half is not None and half["public_half"] == keyring.public_half(key_id)
        witnesses = _witnesses(keyring, samples, is_ours)
        fitting = [(merchant, sealed) for merchant, sealed in witnesses if keyring.fits(merchant, sealed)]
        if fitting:
            opened.append(fitting[0])
        elif witnesses:
            wrong.append(WrongKey(key_id, tuple(sorted({merchant for merchant, _ in witnesses}))))
        elif half is not None and not is_ours and (half["is_confirmed"] or samples):
            # One that nobody confirms, and that has sealed nothing, makes way (`confirm_sealing_key`).
            wrong.append(WrongKey(key_id))
    return Examined(tuple(wrong), tuple(opened))


def _witnesses(
    keyring: Keyring, samples: Sequence[tuple[str, SealedSecret]], is_published: bool
) -> list[tuple[str, SealedSecret]]:
    """Return those of the samples of a key id that show by opening, or not, whether our key is the right one.

    Anybody can seal for a public half, and badly: that shows something only where it opens with the half
    that is published, and is left out otherwise.
    """
    return [
        (merchant, sealed)
        for merchant, sealed in samples
        if not sealed.is_by_public_half or (is_published and keyring.fits(merchant, sealed))
    ]


async def settle(connection: Connection, keyring: Keyring) -> tuple[WrongKey, ...]:
    """Keep the checks of keys that have none and open a secret; return those that are wrong."""
    examined = await examine(connection, keyring)
    wrong = list(examined.wrong)
    for merchant_id, sealed in examined.opened:
        if not await _keep(connection, keyring, merchant_id, sealed):
            wrong.append(WrongKey(sealed.opened_by))
    return tuple(wrong)


async def verify(connection: Connection, keyring: Keyring) -> None:
    """Raise ConfigurationError if one of our keys is wrong; keep the checks that are missing."""
    if wrong := await settle(connection, keyring):
        raise refusal(wrong)


async def note(connection: Connection, keyring: Keyring, merchant_id: str, sealed: SealedSecret) -> None:
    """Keep the check of the key that has sealed a secret, in the transaction that stores the secret.

    Its public half is published too, if none is: a dispatcher confirms it. ConfigurationError: another key
    was stored under this id first; what was sealed must not be stored.
    """
    if not await _keep(connection, keyring, merchant_id, sealed):
        raise refusal([WrongKey(sealed.opened_by)])
    await _rows(connection, "add_sealing_key", keyring.sealing_id, keyring.public_half(keyring.sealing_id))


async def confirm_sealing_key(connection: Connection, keyring: Keyring) -> bool:
    """Publish the public half of the key that seals, or confirm it; False while another is published."""
    key_id = keyring.sealing_id
    value, public_half = keyring.check_value(key_id), keyring.public_half(key_id)
    rows = await _rows(connection, "confirm_sealing_key", key_id, public_half, value)
    return bool(rows) and bool(rows[0]["is_published"])


async def _keep(connection: Connection, keyring: Keyring, merchant_id: str, sealed: SealedSecret) -> bool:
    """Keep a check that a secret vouches for; False: there is one, and it is another key's."""
    key_id = sealed.opened_by
    value = keyring.check_value(key_id)
    if not keyring.fits(merchant_id, sealed):
        return False
    if await _rows(connection, "insert_key_check", key_id, value):
        return True
    return [row["value"] for row in await _rows(connection, "read_key_checks", [key_id])] == [value]


async def _sample(
    connection: Connection, key_ids: Sequence[str]
) -> dict[str, list[tuple[str, SealedSecret]]]:
    found: dict[str, list[tuple[str, SealedSecret]]] = defaultdict(list)
    if key_ids:
        stored = [*key_ids, *map(by_public_half, key_ids)]
        for row in await _rows(connection, "sample_sealed_secrets", stored, MAX_SAMPLES):
            sealed = SealedSecret(row["key_id"], row["sealed"])
            found[sealed.opened_by].append((merchant_of(row["merchant_id"]), sealed))
    return found


async def _rows(connection: Connection, name: str, *arguments: object) -> Sequence[Any]:
    with translated():
        rows: Sequence[Any] = await connection.fetch(_KEYS[name].text, *arguments)
    return rows
