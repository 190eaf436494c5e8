"""Passwords of the console: argon2id makes a proof of one, and the database keeps the SHA-256 of the proof.

The proof is computed here and compared in the database, so that the program's role reads no hash; who steals
what is stored has neither a password nor a proof. ADR 0019 says why it is done like this.
Source: RFC 9106 (the second recommended option); NIST SP 800-63B (length, no rules of composition, NFKC).
"""

import hashlib
import unicodedata
from dataclasses import dataclass, field

SALT_BYTES = 16
MIN_CHARACTERS = 12
MAX_CHARACTERS = 256
_PROOF_BYTES = 32


@dataclass(frozen=True, slots=True)
class PasswordParameters:
    """What a proof is computed with. The numbers are what new passwords get; old ones keep theirs."""

    salt: bytes
    memory_kib: int = 65536
    passes: int = 3
    parallelism: int = 4


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is kept of a password."""

    parameters: PasswordParameters
    hash: bytes = field(repr=False)


def find_fault(password: str) -> str | None:
    """Say why a new password cannot be taken; None where it can."""
    if len(password) < MIN_CHARACTERS:
        return f"a password has at least {MIN_CHARACTERS} characters: four words, drawn by lot, will do"
    if len(password) > MAX_CHARACTERS:
        return f"a password has at most {MAX_CHARACTERS} characters"
    if not password.isprintable():
        return "a password has printable characters alone"
    return None


def prove(password: str, parameters: PasswordParameters) -> bytes:
    """Compute what the database compares: a tenth of a second and 64 MiB, so not in an event loop."""
    # Late: most commands take no password.
    from argon2.low_level import Type, hash_secret_raw

    return hash_secret_raw(
        # What was typed may hold anything; it is wrong then, and no error.
        unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass"),
        parameters.salt,
        time_cost=parameters.passes,
        memory_cost=parameters.memory_kib,
        parallelism=parameters.parallelism,
        hash_len=_PROOF_BYTES,
        type=Type.ID,
    )


def make_verifier(password: str, salt: bytes) -> Verifier:
    """Compute what is kept of a new password, by the parameters of today."""
    parameters = PasswordParameters(salt)
    return Verifier(parameters, hashlib.sha256(prove(password, parameters)).digest())
