"""A merchant's endpoint: its URL, and secrets that never show themselves."""

import base64
from dataclasses import dataclass
from datetime import datetime

SECRET_PREFIX = "whsec_"
SECRET_RANDOM_BYTES = 32
SECRET_MINIMUM_LENGTH = 24


class Secret:
    """A signing secret that does not appear in repr, str, logs or tracebacks."""

    __slots__ = ("_key",)

    def __init__(self, text: str) -> None:
        if len(text) < SECRET_MINIMUM_LENGTH:
            raise ValueError(f"a signing secret has at least {SECRET_MINIMUM_LENGTH} characters")
        self._key = text.encode()

    @classmethod
    def from_random(cls, random: bytes) -> "Secret":
        """Make a secret of the published form out of random bytes."""
        return cls(SECRET_PREFIX + base64.urlsafe_b64encode(random).rstrip(b"=").decode())

    def reveal(self) -> bytes:
        """Return the whole secret string, the prefix included: that is the HMAC key."""
        return self._key

    def __repr__(self) -> str:
        return "Secret(hidden)"


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret as stored: which key sealed it, and nonce plus ciphertext."""

    key_id: str
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a merchant is reached, as read with its lane; secrets newest first, still sealed."""

    merchant_id: str
    url: str
    secrets: tuple[SealedSecret, ...]


@dataclass(frozen=True, slots=True)
class EndpointView:
    """An endpoint as shown to people: no secret."""

    merchant_id: str
    url: str
    paused: bool
    created_at: datetime
    updated_at: datetime
    secret_created_at: datetime
