"""Signing in and out. Passwords and codes are in forms alone; wrong ones are all answered alike."""

from dataclasses import replace

from webhook_dispatcher.console.authenticator import new_token
from webhook_dispatcher.console.calls import Page, PublicRequest, Redirect, Request, Response
from webhook_dispatcher.console.passwords import PasswordHasher, TooBusy
from webhook_dispatcher.console.reader import zone_of
from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.domain.account import SessionToken, SignInCode, parse_name
from webhook_dispatcher.domain.password import MAX_CHARACTERS
from webhook_dispatcher.storage.console.sessions import Sessions, SignIn, SignInOutcome

_REASONS = frozenset({"over", "idle"})
_REFUSED = SignIn(SignInOutcome.REFUSED)


class Signing:
    """Signs people in by a password or a code, and out. is_by_proxy: a proxy signs them in instead."""

    def __init__(self, sessions: Sessions, hasher: PasswordHasher, is_by_proxy: bool) -> None:
        self._sessions = sessions
        self._hasher = hasher
        self._is_by_proxy = is_by_proxy

    async def show(self, request: PublicRequest) -> Response:
        """Show the form."""
        if self._is_by_proxy:
            return Redirect("/")
        why = request.query_value("why")
        return _form(next_page(request.query_value("next")), f"sign_in.{why}" if why in _REASONS else None)

    async def sign_in(self, request: PublicRequest) -> Response:
        """Begin a session, or say why not."""
        if self._is_by_proxy:
            return Redirect("/")
        token, code = new_token(), request.form_value("code")
        onwards = next_page(request.form_value("next"))
        try:
            tried = await self._tried(request, token)
        except TooBusy:
            return _form(onwards, "sign_in.busy", request.form_value("name"), status=503)
        if tried.outcome is SignInOutcome.SIGNED_IN:
            await self._adopt_zone(token, request.form_value("zone"))
            return Redirect(onwards, begins=token)
        if tried.outcome is SignInOutcome.REFUSED:
            key = "sign_in.code_refused" if code else "sign_in.refused"
            return _form(onwards, key, request.form_value("name"), is_code=bool(code), status=403)
        wait = amounts.span(tried.retry_after, request.reader.language) if tried.retry_after else ""
        return _form(
            onwards,
            f"sign_in.{tried.outcome}",
            request.form_value("name"),
            is_code=bool(code),
            status=429 if tried.outcome is SignInOutcome.LOCKED else 403,
            wait=wait,
        )

    async def _tried(self, request: PublicRequest, token: SessionToken) -> SignIn:
        if typed := request.form_value("code"):
            code = SignInCode.parse(typed)
            # A text that cannot be a code is counted as a wrong one: the database knows no code of this hash.
            code_hash = b"" if code is None else code.hash
            return await self._sessions.sign_in_by_code(code_hash, token.hash, request.browser)
        name, password = parse_name(request.form_value("name")) or "", request.form_value("password")
        if len(password) > MAX_CHARACTERS:
            password = ""
        if (wait := await self._sessions.wait(name, request.browser)) is not None:
            return SignIn(SignInOutcome.LOCKED, wait)
        parameters = await self._sessions.parameters(name)
        proof = await self._hasher.prove(password, parameters, request.browser.address)
        return await self._sessions.sign_in(name, proof, token.hash, request.browser)

    async def _adopt_zone(self, token: SessionToken, zone: str) -> None:
        """Take the browser's time zone over for who has chosen none."""
        person = await self._sessions.person(token.hash, is_active=True)
        if person is not None and person.preferences.time_zone is None and zone_of(zone) is not None:
            await self._sessions.prefer(token.hash, replace(person.preferences, time_zone=zone))

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        await self._sessions.sign_out(request.key)
        return Redirect("/sign-in", ends=True)


def next_page(text: str) -> str:
    """Return where to go after signing in: a page of ours, whatever was asked for."""
    is_path = text.startswith("/") and not text.startswith(("//", "/sign-")) and "\\" not in text
    return text if is_path and text.isascii() and text.isprintable() and " " not in text else "/"


def _form(
    onwards: str,
    problem: str | None,
    name: str = "",
    *,
    is_code: bool = False,
    status: int = 200,
    **problem_facts: object,
) -> Page:
    facts = {
        "next": onwards,
        "problem": problem,
        "problem_facts": problem_facts,
        "name": name,
        "is_code": is_code,
    }
    return Page("sign_in.html", facts, status)
