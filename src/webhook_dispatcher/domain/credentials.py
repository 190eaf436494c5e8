"""Credentials of the Partner API: client ids, their secrets, and access tokens; how they look and are hashed.

The random part of a client id has 128 bits, that of a secret or a token 256, in base64 that URLs may hold.
Where databases have names, client ids and tokens begin with that of the merchant's (`eu1.…`). What is kept of
a secret or a token is the SHA-256 of its random part (docs/adr/0015).
"""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from typing import Self

CLIENT_ID_BYTES = 16
SECRET_BYTES = 32
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_NAMED = re.compile(r"(?:(?P<shard>[a-z0-9_-]{1,32})\.)?(?P<random>[A-Za-z0-9_-]+)")
_CLIENT_ID_CHARACTERS = 22
_TOKEN_CHARACTERS = 43


@dataclass(frozen=True, slots=True)
class ClientId:
    """The public half of a key. shard: the database that it is of, where databases have names."""

    shard: str | None
    random: str

    @classmethod
    def from_random(cls, random: bytes, shard: str | None) -> Self:
        """Make one out of 128 random bits. It begins with no dash: command lines take that for an option."""
        return cls(shard, re.sub("^-", "_", _encoded(random, CLIENT_ID_BYTES)))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read one; None where the text is none."""
        found = _parsed(text, _CLIENT_ID_CHARACTERS)
        return found and cls(*found)

    def __str__(self) -> str:
        return _named(self.shard, self.random)


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """The half of a key that is told once; it does not appear in repr, str, logs or tracebacks."""

    revealed: str = field(repr=False)

    @classmethod
    def from_random(cls, random: bytes) -> Self:
        """Make one out of 256 random bits."""
        return cls(_encoded(random, SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read one; None where the text is none."""
        return cls(text) if _SECRET.fullmatch(text) else None

    @property
    def hash(self) -> bytes:
        """What is kept of it."""
        return _hash(self.revealed)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What a client shows with each request; it does not appear in repr, str, logs or tracebacks."""

    shard: str | None
    random: str = field(repr=False)

    @classmethod
    def from_random(cls, random: bytes, shard: str | None) -> Self:
        """Make one out of 256 random bits."""
        return cls(shard, _encoded(random, SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read one; None where the text is none."""
        found = _parsed(text, _TOKEN_CHARACTERS)
        return found and cls(*found)

    @property
    def revealed(self) -> str:
        """The whole token, as a client sends it."""
        return _named(self.shard, self.random)

    @property
    def hash(self) -> bytes:
        """What is kept of it."""
        return _hash(self.random)


def _encoded(random: bytes, size: int) -> str:
    if len(random) != size:
        raise ValueError(f"{size} random bytes are needed, not {len(random)}")
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def _parsed(text: str, characters: int) -> tuple[str | None, str] | None:
    match = _NAMED.fullmatch(text)
    return (match["shard"], match["random"]) if match and len(match["random"]) == characters else None


def _named(shard: str | None, random: str) -> str:
    return random if shard is None else f"{shard}.{random}"


def _hash(random: str) -> bytes:
    return hashlib.sha256(random.encode()).digest()
