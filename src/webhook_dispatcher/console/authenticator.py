"""Who asks: sessions by their tokens, and people whom a proxy has signed in."""

import secrets

from webhook_dispatcher.console.calls import SignedIn, SignInRequired
from webhook_dispatcher.domain.account import SESSION_BYTES, SessionToken
from webhook_dispatcher.storage.console.sessions import Browser, Sessions, SignInOutcome


def new_token() -> SessionToken:
    """Make a session's token."""
    return SessionToken.from_random(secrets.token_bytes(SESSION_BYTES))


class Authenticator:
    """Asks the database at each request, so that what an administrator changes holds from the next one on."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def find(self, token: SessionToken, is_active: bool) -> SignedIn | None:
        """Return whose session this is; None where it is over.

        Errors: SignInWanted where an operator has done nothing for too long; the session was ended.
        """
        person = await self._sessions.person(token.hash, is_active=is_active)
        if person is None:
            return None
        if person.is_idle:
            await self._sessions.sign_out(token.hash)
            raise SignInRequired("idle")
        return SignedIn(token, person)

    async def admit(self, name: str, browser: Browser) -> SessionToken | None:
        """Begin a session for whom a trusted proxy has signed in; None where there is no account for that."""
        token = new_token()
        begun = await self._sessions.sign_in_by_proxy(name, token.hash, browser)
        return token if begun.outcome is SignInOutcome.SIGNED_IN else None
