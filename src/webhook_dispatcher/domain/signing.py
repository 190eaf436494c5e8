"""Signing: the headers, the secrets that sign, and the keys that these are sealed with.

The service signature is Stripe's scheme (`t=<unix seconds>,v1=<hex>`, HMAC-SHA256 over `t.body`), the other
one Standard Webhooks' (`v1,<base64>`, over `id.timestamp.body`); source: contract 1.
Secrets are sealed with AES-256-GCM. The merchant id is associated data: a sealed secret moved to another
merchant's row does not open, and whoever seals or opens may name the merchant's lane or any endpoint's.
Stored form: 12 bytes of nonce, then ciphertext and tag; the key's id beside it.
Who has no keys seals with the public half of one (`domain.sealing`); the id then begins with `hpke1:`.
A key's check is what only its holder can compute of its id: it tells a wrong key under a right id.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook_dispatcher.domain import sealing
from webhook_dispatcher.domain.errors import ConfigurationError, UnknownKey, UnopenedSecret
from webhook_dispatcher.domain.lane import merchant_of
from webhook_dispatcher.domain.names import STANDARD_ID, STANDARD_SIGNATURE, STANDARD_TIMESTAMP, standard

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

SECRET_PREFIX = "whsec_"
SECRET_RANDOM_BYTES = 32
MIN_RANDOM_BYTES, MAX_RANDOM_BYTES = 24, 64
"""How many a secret may have by Standard Webhooks (standardwebhooks.com, "Signature scheme")."""
SECRET_MINIMUM_LENGTH = 24
NONCE_BYTES = 12
KEY_BYTES = 32
CHECK_BYTES = 16
_CHECK_CONTEXT = b"webhook-dispatcher key check"
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BLOCK_BYTES = 64
NO_STANDARD_KEY = "its secret is no standard base64 behind whsec_"
"""Why a merchant has no standard signature."""


class Secret:
    """A signing secret that does not appear in repr, str, logs or tracebacks.

    revealed: the whole secret string, the prefix included: that is the service signature's HMAC key.
    """

    __slots__ = ("revealed",)

    def __init__(self, text: str) -> None:
        if len(text) < SECRET_MINIMUM_LENGTH:
            raise ValueError(f"a signing secret has at least {SECRET_MINIMUM_LENGTH} characters")
        self.revealed = text.encode()

    @classmethod
    def from_random(cls, random: bytes) -> "Secret":
        """Make a secret of the published form out of 24 to 64 random bytes; ValueError for fewer or more.

        In standard base64, padded: what decodes a secret, as libraries of Standard Webhooks do, reads
        another alphabet as other bytes or not at all.
        """
        if not MIN_RANDOM_BYTES <= len(random) <= MAX_RANDOM_BYTES:
            raise ValueError(
                f"{MIN_RANDOM_BYTES} to {MAX_RANDOM_BYTES} random bytes are needed, not {len(random)}"
            )
        return cls(SECRET_PREFIX + base64.b64encode(random).decode())

    @property
    def standard_key(self) -> bytes | None:
        """The key of Standard Webhooks: what follows the prefix; None where that is no standard base64."""
        prefix = SECRET_PREFIX.encode()
        try:
            key = base64.b64decode(self.revealed.removeprefix(prefix), validate=True)
        except ValueError:
            return None
        # Of what a sloppy encoder made, libraries make different things.
        return key if self.revealed == prefix + base64.b64encode(key) else None

    def __repr__(self) -> str:
        return "Secret(hidden)"


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret as stored: which key sealed it, and nonce plus ciphertext.

    key_id: the key's own id, or `hpke1:` and the id where its public half has sealed.
    """

    key_id: str
    sealed: bytes

    @property
    def opened_by(self) -> str:
        """The id of the key that opens it."""
        return sealing.opened_by(self.key_id)

    @property
    def is_by_public_half(self) -> bool:
        """Tell whether anybody can have sealed it."""
        return self.key_id.startswith(sealing.PREFIX)


@dataclass(frozen=True, slots=True)
class SealingKey:
    """The public half of a key: it seals, and opens nothing. key_id: of the key whose holder opens."""

    key_id: str
    public_half: bytes

    def seal(self, lane: str, secret: Secret) -> SealedSecret:
        """Encrypt a secret for storage; nobody without the key can open it, we included."""
        sealed = sealing.seal(self.public_half, merchant_of(lane), secret.revealed)
        return SealedSecret(sealing.by_public_half(self.key_id), sealed)


class Keyring:
    """The keys we hold; the first seals, any opens."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        if not keys:
            raise ConfigurationError("no encryption key: give at least one as id:base64key")
        # Late, as below: most commands hold no keys.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._keys = dict(keys)
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._private_halves: dict[str, X25519PrivateKey] = {}
        self._sealing_id = next(iter(keys))

    @classmethod
    def parse(cls, text: str) -> "Keyring":
        """Read `id:base64key[,id:base64key]`, each key 32 bytes."""
        keys: dict[str, bytes] = {}
        for position, part in enumerate(text.split(","), start=1):
            key_id, colon, encoded = part.strip().partition(":")
            if not colon or not _KEY_ID.fullmatch(key_id):
                raise ConfigurationError(
                    f"key {position} is not of the form id:base64key "
                    "(an id has 1 to 64 letters, digits, dots, dashes or underscores)"
                )
            try:
                key = base64.b64decode(encoded, validate=True)
            except ValueError:
                raise ConfigurationError(f"key {key_id!r} is not valid base64") from None
            if len(key) != KEY_BYTES:
                raise ConfigurationError(f"key {key_id!r} has {len(key)} bytes, not {KEY_BYTES}")
            if key_id in keys:
                raise ConfigurationError(f"key id {key_id!r} is given twice")
            keys[key_id] = key
        return cls(keys)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of all keys held, the sealing one first."""
        return tuple(self._ciphers)

    @property
    def sealing_id(self) -> str:
        """The id of the key that seals."""
        return self._sealing_id

    def public_half(self, key_id: str) -> bytes:
        """Return what anybody may know of a key: it seals for us, and opens nothing."""
        return self._private_half(key_id).public_key().public_bytes_raw()

    def seal(self, lane: str, secret: Secret) -> SealedSecret:
        """Encrypt a secret for storage."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        ciphertext = self._ciphers[self._sealing_id].encrypt(
            nonce, secret.revealed, merchant_of(lane).encode()
        )
        return SealedSecret(self._sealing_id, nonce + ciphertext)

    def open(self, lane: str, sealed: SealedSecret) -> Secret:
        """Decrypt a stored secret; UnopenedSecret when it is damaged or none, UnknownKey without its key."""
        from cryptography.exceptions import InvalidTag

        merchant_id, cipher = merchant_of(lane), self._ciphers.get(sealed.key_id)
        nonce, ciphertext = sealed.sealed[:NONCE_BYTES], sealed.sealed[NONCE_BYTES:]
        try:
            if cipher is None:
                plain = self._unseal(merchant_id, sealed)
            else:
                plain = cipher.decrypt(nonce, ciphertext, merchant_id.encode())
        except (InvalidTag, ValueError):
            reason = "does not open the stored secret, which is damaged unless the key is wrong"
            raise UnopenedSecret(sealed.opened_by, reason) from None
        try:
            return Secret(plain.decode())
        except ValueError:
            # Something else than us sealed it. To sign with it would be worse than to wait.
            reason = f"what it opens for merchant {merchant_id!r} is too short or no text: rotate that secret"
            raise UnopenedSecret(sealed.opened_by, reason, is_key_right=True) from None

    def _unseal(self, merchant_id: str, sealed: SealedSecret) -> bytes:
        """Decrypt what a public half has sealed; UnknownKey where we do not hold its key."""
        key_id = sealed.opened_by
        if key_id not in self._keys or not sealed.is_by_public_half:
            raise UnknownKey(key_id, "not among WEBHOOK_SECRET_KEYS")
        return sealing.unseal(self._private_half(key_id), merchant_id, sealed.sealed)

    def _private_half(self, key_id: str) -> "X25519PrivateKey":
        if key_id not in self._private_halves:
            self._private_halves[key_id] = sealing.private_half(self._keys[key_id])
        return self._private_halves[key_id]

    def fits(self, lane: str, sealed: SealedSecret) -> bool:
        """Tell whether we hold the key that sealed this, whatever it was that it sealed."""
        try:
            self.open(lane, sealed)
        except UnopenedSecret as error:
            return error.is_key_right
        return True

    def check_value(self, key_id: str) -> bytes:
        """Return what only the holder of a key can compute of its id; it tells nothing about the key."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        derived = HKDF(SHA256(), KEY_BYTES, salt=None, info=_CHECK_CONTEXT).derive(self._keys[key_id])
        return hmac.digest(derived, key_id.encode(), hashlib.sha256)[:CHECK_BYTES]

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._ciphers)})"


def signature(body: bytes, secrets: tuple[Secret, ...], unix_seconds: int) -> str:
    """Sign a body with every valid secret, newest first."""
    stamp = str(unix_seconds)
    signed = stamp.encode() + b"." + body
    parts = [f"t={stamp}"]
    parts += [f"v1={hmac.digest(secret.revealed, signed, hashlib.sha256).hex()}" for secret in secrets]
    return ",".join(parts)


def is_signed(body: bytes, header: str, secrets: tuple[Secret, ...]) -> bool:
    """Tell whether a header signs a body with every secret: by the definition, not by what signs."""
    stamp, *signatures = header.split(",")
    signed = stamp.removeprefix("t=").encode() + b"." + body
    return signatures == [f"v1={_hmac_sha256(secret.revealed, signed)}" for secret in secrets]


def standard_headers(
    event_id: str, body: bytes, secrets: tuple[Secret, ...], unix_seconds: int
) -> dict[str, str]:
    """Sign as Standard Webhooks has it, with every secret that can, newest first; nothing where none can."""
    signed = b"%b.%d.%b" % (event_id.encode(), unix_seconds, body)
    keys = [key for secret in secrets if (key := secret.standard_key) is not None]
    parts = [f"v1,{_base64(hmac.digest(key, signed, hashlib.sha256))}" for key in keys]
    return standard(event_id, str(unix_seconds), " ".join(parts)) if parts else {}


def is_standard_signed(body: bytes, headers: Mapping[str, str], secrets: tuple[Secret, ...]) -> bool:
    """Tell whether the headers of Standard Webhooks, if there are any, sign a body: as `is_signed` does."""
    if STANDARD_SIGNATURE not in headers:
        return True
    signed = f"{headers[STANDARD_ID]}.{headers[STANDARD_TIMESTAMP]}.".encode() + body
    keys = [key for secret in secrets if (key := secret.standard_key) is not None]
    expected = [f"v1,{_base64(bytes.fromhex(_hmac_sha256(key, signed)))}" for key in keys]
    return headers[STANDARD_SIGNATURE].split(" ") == expected


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _hmac_sha256(key: bytes, text: bytes) -> str:
    """Return what RFC 2104 says, without the library that signs."""
    if len(key) > _BLOCK_BYTES:
        key = hashlib.sha256(key).digest()
    key = key.ljust(_BLOCK_BYTES, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + text).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest()
