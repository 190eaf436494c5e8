"""Sealing without the key that opens: HPKE (RFC 9180), for processes that the internet reaches.

From each encryption key follows a pair of X25519: whoever holds the key has the private half and publishes
the public one. With that alone anybody can seal, and nobody open. The merchant id is part of what is agreed
(`info`): what was sealed for one merchant does not open for another. Stored form: 32 bytes of the sender's
public half, then ciphertext and tag. ADR 0017 says why it is done like this.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

PREFIX = "hpke1:"
"""Before the id of the key that opens, where a public half has sealed; no key's id has a colon."""
PUBLIC_BYTES = 32
_PAIR_CONTEXT = b"webhook-dispatcher sealing key pair"
_PURPOSE = b"webhook-dispatcher signing secret, merchant "


def by_public_half(key_id: str) -> str:
    """Return the id that is stored beside what a key's public half has sealed."""
    return PREFIX + key_id


def opened_by(stored_id: str) -> str:
    """Return the id of the key that opens what is stored under this one."""
    return stored_id.removeprefix(PREFIX)


def private_half(key: bytes) -> "X25519PrivateKey":
    """Derive what opens from an encryption key."""
    # Late, as below: most commands hold no keys.
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derived = HKDF(SHA256(), PUBLIC_BYTES, salt=None, info=_PAIR_CONTEXT).derive(key)
    return X25519PrivateKey.from_private_bytes(derived)


def seal(public_half: bytes, merchant_id: str, plain: bytes) -> bytes:
    """Encrypt for the holder of the other half; ValueError where this is no public half."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    receiver = X25519PublicKey.from_public_bytes(public_half)
    return _suite().encrypt(plain, receiver, info=_PURPOSE + merchant_id.encode())


def unseal(private: "X25519PrivateKey", merchant_id: str, sealed: bytes) -> bytes:
    """Decrypt; cryptography's InvalidTag when it is damaged, or was sealed for another key or merchant."""
    return _suite().decrypt(sealed, private, info=_PURPOSE + merchant_id.encode())


def _suite() -> "Suite":
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
