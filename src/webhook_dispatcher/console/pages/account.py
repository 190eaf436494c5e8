"""A person's own account: how pages look, the password, sessions."""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import Answer, Asked, Moved, Shown
from webhook_dispatcher.console.prover import Prover, TooBusy
from webhook_dispatcher.console.reader import OWN_NAMES, THEMES, zone_names, zone_of
from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.domain.language import LANGUAGES
from webhook_dispatcher.domain.password import MAX_CHARACTERS, MIN_CHARACTERS, SALT_BYTES, find_fault
from webhook_dispatcher.storage.console.sessions import PasswordOutcome, Preferences, Sessions

_SAID = {
    "saved": "common.saved",
    "password": "account.password_changed",
    "session": "account.session_ended",
    "no_session": "account.session_was_over",
}


@dataclass(frozen=True, slots=True)
class AccountPages:
    """Shows and changes what is a person's own."""

    sessions: Sessions
    prover: Prover

    async def show(self, asked: Asked) -> Answer:
        """Show the page."""
        note = _SAID.get(asked.given("said"))
        ended = asked.given("ended")
        if ended.isascii() and ended.isdecimal() and len(ended) < 6:
            return await self._page(
                asked, note=texts.say("account.ended", asked.reader.language, count=int(ended))
            )
        return await self._page(asked, note=texts.say(note, asked.reader.language) if note else "")

    async def prefer(self, asked: Asked) -> Answer:
        """Keep language, time zone and theme."""
        zone = asked.entered("zone").strip()
        if zone and zone_of(zone) is None:
            return await self._page(
                asked, zone_problem=texts.say("account.zone_refused", asked.reader.language), status=422
            )
        language, theme = asked.entered("language"), asked.entered("theme")
        await self.sessions.prefer(
            asked.key,
            Preferences(
                language=language if language in LANGUAGES else None,
                time_zone=zone or None,
                theme=theme if theme in THEMES else None,
            ),
        )
        return Moved("/account?said=saved")

    async def change_password(self, asked: Asked) -> Answer:
        """Replace the password, by the present one."""
        old, new = asked.entered("old"), asked.entered("new")
        if find_fault(new) is not None:
            return await self._refused(
                asked, "account.password_fault", 422, least=MIN_CHARACTERS, most=MAX_CHARACTERS
            )
        if len(old) > MAX_CHARACTERS:
            return await self._refused(asked, "account.password_refused", 403)
        name, address = asked.signed_in.person.name, asked.browser.address
        if (wait := await self.sessions.wait(name, asked.browser)) is not None:
            return await self._locked(asked, wait)
        try:
            proof = await self.prover.prove(old, await self.sessions.parameters(name), address)
            verifier = await self.prover.make_verifier(new, secrets.token_bytes(SALT_BYTES), address)
        except TooBusy:
            return await self._refused(asked, "sign_in.busy", 503)
        changed = await self.sessions.change_password(asked.key, proof, verifier)
        match changed.outcome:
            case PasswordOutcome.CHANGED:
                return Moved("/account?said=password")
            case PasswordOutcome.REFUSED:
                return await self._refused(asked, "account.password_refused", 403)
            case PasswordOutcome.NO_PASSWORD:
                return await self._refused(asked, "account.no_password", 409)
            case PasswordOutcome.LOCKED:
                return await self._locked(asked, changed.retry_after)

    async def _locked(self, asked: Asked, span: timedelta | None) -> Answer:
        wait = amounts.span(span, asked.reader.language) if span else ""
        return await self._refused(asked, "sign_in.locked", 429, wait=wait)

    async def _refused(self, asked: Asked, key: str, status: int, **facts: object) -> Answer:
        problem = texts.say(key, asked.reader.language, **facts)
        return await self._page(asked, problem=problem, status=status)

    async def end_one(self, asked: Asked) -> Answer:
        """End one session of the person; where it is this one, they sign in next."""
        is_ended = await self.sessions.revoke(asked.key, _mark(asked.entered("session")))
        return Moved(f"/account?said={'session' if is_ended else 'no_session'}")

    async def end_others(self, asked: Asked) -> Answer:
        """End all other sessions of the person."""
        return Moved(f"/account?ended={await self.sessions.revoke_others(asked.key)}")

    async def _page(
        self, asked: Asked, *, problem: str = "", zone_problem: str = "", note: str = "", status: int = 200
    ) -> Shown:
        facts = {
            "languages": OWN_NAMES,
            "zones": zone_names(),
            "themes": THEMES,
            "entered_zone": asked.entered("zone") or asked.signed_in.person.preferences.time_zone or "",
            "sessions": await self.sessions.own(asked.key),
            "problem": problem,
            "zone_problem": zone_problem,
            "note": note,
        }
        return Shown("account.html", facts, status)


def _mark(text: str) -> bytes:
    """Read the mark of a session; what is no mark becomes one that no session has."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
