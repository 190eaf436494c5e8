"""A person's own account: how pages look, the password, sessions."""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import Page, Redirect, Request, Response
from webhook_dispatcher.console.passwords import PasswordHasher, TooBusy
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
    hasher: PasswordHasher

    async def show(self, request: Request) -> Response:
        """Show the page."""
        note = _SAID.get(request.query_value("said"))
        ended = request.query_value("ended")
        if ended.isascii() and ended.isdecimal() and len(ended) < 6:
            return await self._page(
                request, note=texts.say("account.ended", request.reader.language, count=int(ended))
            )
        return await self._page(request, note=texts.say(note, request.reader.language) if note else "")

    async def prefer(self, request: Request) -> Response:
        """Keep language, time zone and theme."""
        zone = request.form_value("zone").strip()
        if zone and zone_of(zone) is None:
            return await self._page(
                request, zone_problem=texts.say("account.zone_refused", request.reader.language), status=422
            )
        language, theme = request.form_value("language"), request.form_value("theme")
        await self.sessions.prefer(
            request.key,
            Preferences(
                language=language if language in LANGUAGES else None,
                time_zone=zone or None,
                theme=theme if theme in THEMES else None,
            ),
        )
        return Redirect("/account?said=saved")

    async def change_password(self, request: Request) -> Response:
        """Replace the password, by the present one."""
        old, new = request.form_value("old"), request.form_value("new")
        if find_fault(new) is not None:
            return await self._refused(
                request, "account.password_fault", 422, least=MIN_CHARACTERS, most=MAX_CHARACTERS
            )
        if len(old) > MAX_CHARACTERS:
            return await self._refused(request, "account.password_refused", 403)
        name, address = request.session.person.name, request.browser.address
        if (wait := await self.sessions.wait(name, request.browser)) is not None:
            return await self._locked(request, wait)
        try:
            proof = await self.hasher.prove(old, await self.sessions.parameters(name), address)
            verifier = await self.hasher.make_verifier(new, secrets.token_bytes(SALT_BYTES), address)
        except TooBusy:
            return await self._refused(request, "sign_in.busy", 503)
        changed = await self.sessions.change_password(request.key, proof, verifier)
        match changed.outcome:
            case PasswordOutcome.CHANGED:
                return Redirect("/account?said=password")
            case PasswordOutcome.REFUSED:
                return await self._refused(request, "account.password_refused", 403)
            case PasswordOutcome.NO_PASSWORD:
                return await self._refused(request, "account.no_password", 409)
            case PasswordOutcome.LOCKED:
                return await self._locked(request, changed.retry_after)

    async def _locked(self, request: Request, span: timedelta | None) -> Response:
        wait = amounts.span(span, request.reader.language) if span else ""
        return await self._refused(request, "sign_in.locked", 429, wait=wait)

    async def _refused(self, request: Request, key: str, status: int, **facts: object) -> Response:
        problem = texts.say(key, request.reader.language, **facts)
        return await self._page(request, problem=problem, status=status)

    async def end_one(self, request: Request) -> Response:
        """End one session of the person; where it is this one, they sign in next."""
        is_ended = await self.sessions.revoke(request.key, _mark(request.form_value("session")))
        return Redirect(f"/account?said={'session' if is_ended else 'no_session'}")

    async def end_others(self, request: Request) -> Response:
        """End all other sessions of the person."""
        return Redirect(f"/account?ended={await self.sessions.revoke_others(request.key)}")

    async def _page(
        self,
        request: Request,
        *,
        problem: str = "",
        zone_problem: str = "",
        note: str = "",
        status: int = 200,
    ) -> Page:
        facts = {
            "languages": OWN_NAMES,
            "zones": zone_names(),
            "themes": THEMES,
            "entered_zone": request.form_value("zone") or request.session.person.preferences.time_zone or "",
            "sessions": await self.sessions.own(request.key),
            "problem": problem,
            "zone_problem": zone_problem,
            "note": note,
        }
        return Page("account.html", facts, status)


def _mark(text: str) -> bytes:
    """Read the mark of a session; what is no mark becomes one that no session has."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
