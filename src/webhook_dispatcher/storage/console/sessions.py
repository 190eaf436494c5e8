"""Who uses the console: signing in and out, and what a session may do; console_sessions.sql, bound.

Passwords get here as proofs, sessions and codes as hashes, and nothing of what is stored of them leaves the
database. What a person may be told comes back as a value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.password import PasswordParameters, Verifier
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console.database import SessionOver, ask
from webhook_dispatcher.storage.statements import load

MAX_OWN = 50
_SESSIONS = load("console_sessions")


class SignInOutcome(StrEnum):
    """What came of signing in. LOCKED: it was not looked at. DISABLED: only who is right is told."""

    SIGNED_IN = "signed_in"
    REFUSED = "refused"
    LOCKED = "locked"
    DISABLED = "disabled"


class PasswordOutcome(StrEnum):
    """What came of changing one's own password. NO_PASSWORD: there is none to be changed."""

    CHANGED = "changed"
    REFUSED = "refused"
    LOCKED = "locked"
    NO_PASSWORD = "no_password"


@dataclass(frozen=True, slots=True)
class Browser:
    """Where somebody signs in from. agent: as the browser says, of which 200 characters are kept."""

    address: IPv4Address | IPv6Address | None
    agent: str


@dataclass(frozen=True, slots=True)
class SignIn:
    """What came of signing in. name, expires_at: of who is signed in.

    retry_after: whole seconds; how long the next try will be locked, after a refusal too, where it will.
    """

    outcome: SignInOutcome
    retry_after: timedelta | None = None
    name: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PasswordChange:
    """What came of changing one's own password; retry_after as of SignIn."""

    outcome: PasswordOutcome
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Preferences:
    """How a person wants pages; None: as the browser says. theme: light or dark."""

    language: str | None = None
    time_zone: str | None = None
    theme: str | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """Whose a session is, and what it may do.

    may_change: an operator's, and not idle. changes_until: when it will be, without another request; None for
    viewers. is_by_proxy: a proxy signed the person in.
    """

    name: str
    role: Role
    is_by_proxy: bool
    preferences: Preferences
    may_change: bool
    changes_until: datetime | None
    expires_at: datetime

    @property
    def is_idle(self) -> bool:
        """Tell whether it could change things, and cannot any more until the person signs in again."""
        return self.role is Role.OPERATOR and not self.may_change


@dataclass(frozen=True, slots=True)
class OwnSession:
    """A session of somebody who looks at their own. mark: names it, and opens nothing.

    acted_at: the last request that the person made, to the minute. is_this: by which they look.
    """

    mark: bytes
    began_at: datetime
    acted_at: datetime
    expires_at: datetime
    address: IPv4Address | IPv6Address | None
    agent: str | None
    is_this: bool


class Sessions:
    """Works on a pool, each call by itself: a failure that is rolled back was not counted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def parameters(self, name: str) -> PasswordParameters:
        """Return what a proof is to be computed with; a name that does not exist has some, too."""
        return PasswordParameters(**await self._row("sign_in_parameters", name))

    async def wait(self, name: str, browser: Browser) -> timedelta | None:
        """Return for how long tries of this name are locked, whatever they send; None: they are not."""
        found: timedelta | None = (await self._row("sign_in_wait", name, browser.address))["retry_after"]
        return found

    async def sign_in(self, name: str, proof: bytes, session_hash: bytes, browser: Browser) -> SignIn:
        """Begin a session for who has the password; all else is refused alike."""
        return _sign_in(await self._row("sign_in", name, proof, session_hash, browser.address, browser.agent))

    async def sign_in_by_code(self, code_hash: bytes, session_hash: bytes, browser: Browser) -> SignIn:
        """Begin a session for who has a code of the command line's."""
        return _sign_in(
            await self._row("sign_in_by_code", code_hash, session_hash, browser.address, browser.agent)
        )

    async def sign_in_by_proxy(self, name: str, session_hash: bytes, browser: Browser) -> SignIn:
        """Begin a session for whom a trusted proxy names; REFUSED unless the account is one for that."""
        return _sign_in(
            await self._row("sign_in_by_proxy", name, session_hash, browser.address, browser.agent)
        )

    async def person(self, session_hash: bytes, *, is_active: bool) -> Person | None:
        """Return whose session this is; None where it is over.

        is_active: the person asked for something, which keeps the right to change things; a page that
        refreshes by itself did not.
        """
        rows = await ask(self._database, _SESSIONS["read_person"], session_hash, is_active)
        return _person(rows[0]) if rows else None

    async def sign_out(self, session_hash: bytes) -> bool:
        """End a session; False where it was over."""
        return bool((await self._row("sign_out", session_hash))["is_ended"])

    async def own(self, session_hash: bytes) -> Sequence[OwnSession]:
        """Return the person's sessions, this one first, MAX_OWN at most. SessionOver."""
        rows = await ask(self._database, _SESSIONS["read_own_sessions"], session_hash, MAX_OWN)
        if not rows:
            raise SessionOver
        return [OwnSession(**row) for row in rows]

    async def revoke(self, session_hash: bytes, mark: bytes) -> bool:
        """End one of the person's sessions; False where it was over. SessionOver."""
        return bool((await self._row("revoke_session", session_hash, mark))["is_ended"])

    async def revoke_others(self, session_hash: bytes) -> int:
        """End all other sessions of the person, and return how many these were. SessionOver."""
        return int((await self._row("revoke_sessions", session_hash))["revoked"])

    async def prefer(self, session_hash: bytes, preferences: Preferences) -> None:
        """Keep how the person wants pages. SessionOver; StatementRefused where a value can be none."""
        await self._row(
            "keep_preferences",
            session_hash,
            preferences.language,
            preferences.time_zone,
            preferences.theme,
        )

    async def change_password(self, session_hash: bytes, proof: bytes, new: Verifier) -> PasswordChange:
        """Replace the person's password, whose proof is given; their other sessions end. SessionOver."""
        parameters = new.parameters
        row = await self._row(
            "change_password",
            session_hash,
            proof,
            parameters.salt,
            parameters.memory_kib,
            parameters.passes,
            parameters.parallelism,
            new.hash,
        )
        return PasswordChange(PasswordOutcome(row["outcome"]), row["retry_after"])

    async def _row(self, name: str, *arguments: object) -> Mapping[str, Any]:
        [row] = await ask(self._database, _SESSIONS[name], *arguments)
        found: Mapping[str, Any] = row
        return found


def _sign_in(row: Mapping[str, Any]) -> SignIn:
    return SignIn(SignInOutcome(row["outcome"]), row["retry_after"], row["name"], row["expires_at"])


def _person(row: Mapping[str, Any]) -> Person:
    return Person(
        row["name"],
        Role(row["role"]),
        row["is_by_proxy"],
        Preferences(row["language"], row["time_zone"], row["theme"]),
        row["may_change"],
        row["changes_until"],
        row["expires_at"],
    )
