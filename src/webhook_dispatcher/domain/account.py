"""Accounts of the console: their names and roles, and what signs somebody in besides a password.

The random part of a session's token has 256 bits, that of a code 50: codes live for a minute, are good once,
and wrong ones are counted by address. What is kept of either is the SHA-256 (docs/adr/0015, docs/adr/0019).
"""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

SESSION_BYTES = 32
CODE_CHARACTERS = 10
NAME_RULE = "1 to 64 of a-z, 0-9 and . _ @ + -, the first of them a letter or a digit"
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Letters that are taken for each other are left out. Source: Crockford's base 32."""
_CODE = re.compile(rf"[{_ALPHABET}]{{{CODE_CHARACTERS}}}")
_AS_MEANT = str.maketrans({"I": "1", "L": "1", "O": "0", " ": None, "-": None})


class Role(StrEnum):
    """What an account may do: operators change things, viewers look, and see no payload."""

    OPERATOR = "operator"
    VIEWER = "viewer"


def parse_name(text: str) -> str | None:
    """Read an account's name as people write it, in capitals too; None where the text can be none."""
    name = text.strip().lower()
    return name if _NAME.fullmatch(name) else None


@dataclass(frozen=True, slots=True)
class SessionToken:
    """What a browser shows with each request; it does not appear in repr, str, logs or tracebacks."""

    revealed: str = field(repr=False)

    @classmethod
    def from_random(cls, random: bytes) -> Self:
        """Make one out of 256 random bits."""
        if len(random) != SESSION_BYTES:
            raise ValueError(f"{SESSION_BYTES} random bytes are needed, not {len(random)}")
        return cls(base64.urlsafe_b64encode(random).rstrip(b"=").decode())

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read one; None where the text is none."""
        return cls(text) if _TOKEN.fullmatch(text) else None

    @property
    def hash(self) -> bytes:
        """What is kept of it, and what finds the session."""
        return hashlib.sha256(self.revealed.encode()).digest()


@dataclass(frozen=True, slots=True)
class SignInCode:
    """A code of one use that somebody types in; it does not appear in repr, str, logs or tracebacks."""

    revealed: str = field(repr=False)

    @classmethod
    def from_random(cls, random: bytes) -> Self:
        """Make one out of as many random bytes as it has characters."""
        if len(random) != CODE_CHARACTERS:
            raise ValueError(f"{CODE_CHARACTERS} random bytes are needed, not {len(random)}")
        return cls("".join(_ALPHABET[byte % len(_ALPHABET)] for byte in random))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read what was typed, in small letters and with dashes too; None where it is none."""
        meant = text.strip().upper().translate(_AS_MEANT)
        return cls(meant) if _CODE.fullmatch(meant) else None

    @property
    def shown(self) -> str:
        """The code as people read it, in two halves."""
        half = CODE_CHARACTERS // 2
        return f"{self.revealed[:half]}-{self.revealed[half:]}"

    @property
    def hash(self) -> bytes:
        """What is kept of it."""
        return hashlib.sha256(self.revealed.encode()).digest()
