"""One merchant: where its events go, its secret, a test event, its keys.

A secret is made here, sealed to the public half of the dispatchers' key, and shown in the answer to the form
that made it: it is in no URL, no log and no page that is asked for again. The form names what was there
before, so that a browser that sends it again makes no second one.
"""

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from importlib.resources import files

import structlog

from webhook_dispatcher.console import names, texts
from webhook_dispatcher.console.calls import HttpError, Page, Redirect, Request, Response
from webhook_dispatcher.console.pages import acting
from webhook_dispatcher.console.pages.acts import RECENT
from webhook_dispatcher.console.pages.filters import event_id
from webhook_dispatcher.console.rendering import label, merchant_path, reason, shown_instant, with_query
from webhook_dispatcher.domain.command import CommandName
from webhook_dispatcher.domain.credentials import CLIENT_ID_BYTES, SECRET_BYTES, ClientId, ClientSecret
from webhook_dispatcher.domain.endpoint import MAX_AT_ONCE, MAX_TYPES, OLDER_DISPATCHER
from webhook_dispatcher.domain.errors import NotHeld, StatementRefused
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.storage.api.endpoints import PutOutcome, Removal, Rotated, Rotation
from webhook_dispatcher.storage.api.held_rotation import when_held
from webhook_dispatcher.storage.api.new_secrets import NotSealed, store_new_secret
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.commands import CommandRow, Commands
from webhook_dispatcher.storage.console.merchants import Merchant, Merchants
from webhook_dispatcher.transport.guard import Guard

MAX_KEY_NAME = 100
HOLD = "hold"
"""A choice of overlap: none, but the merchant is paused first, and stays so."""
OVERLAPS: Mapping[str, tuple[timedelta | None, str]] = {
    "": (None, "merchant.overlap_none"),
    HOLD: (None, "merchant.overlap_hold"),
    "PT1H": (timedelta(hours=1), "merchant.overlap_hour"),
    "P1D": (timedelta(days=1), "merchant.overlap_day"),
    "P7D": (timedelta(days=7), "merchant.overlap_week"),
}
_SAID = {
    "removed": "merchant.removed",
    "url": "merchant.url_changed",
    "same": "merchant.url_unchanged",
    "types": "merchant.types_changed",
    "same_types": "merchant.types_unchanged",
    "order": "merchant.order_changed",
    "same_order": "merchant.order_unchanged",
    "revoked": "merchant.key_revoked",
}

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SecretOnce:
    """A secret that is told once. key: of the text beside it."""

    key: str
    text: str = field(repr=False)
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class UrlVerdict:
    """What the guard says of a URL."""

    is_good: bool
    text: str


class MerchantPages:
    """Shows a merchant, and changes what is its.

    guard: which URLs may be sent to. names: by which events are sent.
    """

    def __init__(
        self,
        merchants: Merchants,
        commands: Commands,
        actions: Actions,
        guard: Guard,
        shard: str | None,
        names: Callable[[], Names],
    ) -> None:
        self._names = names
        self._merchants = merchants
        self._commands = commands
        self._actions = actions
        self._guard = guard
        self._shard = shard
        self._snippet = (files("webhook_dispatcher.console") / "templates" / "verify.py.txt").read_text(
            encoding="utf-8"
        )

    async def show(self, request: Request) -> Response:
        """Show the merchant; one that nothing is known of can be configured."""
        return await self._page(request, is_new=request.query_value("new") == "yes")

    async def _page(
        self,
        request: Request,
        *,
        problem: str = "",
        entered_url: str | None = None,
        secret: SecretOnce | None = None,
        status: int = 200,
        is_new: bool = True,
    ) -> Page:
        """Make the page. is_new: a merchant that nothing is known of is meant."""
        merchant_id = wanted_merchant(request)
        # Before the merchant: a command that is done has changed what is read after it.
        command = await self._command(request, merchant_id)
        merchant = await self._merchants.get(request.key, merchant_id)
        # A key may be there before anything else of the merchant.
        keys = merchant.api_keys if merchant else await self._merchants.api_keys(request.key, merchant_id)
        is_unknown = merchant is None and not keys and not is_new
        url = entered_url if entered_url is not None else (merchant.url or "" if merchant else "")
        path = merchant_path(merchant_id)
        said = _SAID.get(request.query_value("said"))
        result = (command.result or {}) if command else {}
        facts = {
            "merchant_id": merchant_id,
            "merchant": merchant,
            "is_unknown": is_unknown,
            "like_path": with_query("/merchants", {"prefix": merchant_id[:3]}),
            "has_endpoint": merchant is not None and merchant.has_endpoint,
            "entered_url": url,
            "verdict": self._verdict(request, url, merchant) if url else None,
            "problem": problem,
            "secret": secret,
            "note": texts.say(said, request.reader.language) if said else "",
            "command": command,
            "status_badge": acting.status_badge(command, request.reader) if command else None,
            "test_answer": _tested(command, request) if command else "",
            "test_event": event_id(str(result.get("event_id"))),
            "is_moving": command is not None and not command.is_final,
            "here": with_query(path, {"command": command.id if command else None}),
            "api_keys": keys,
            "types": [
                (name, merchant is None or merchant.types is None or name in merchant.types)
                for name in await self._merchants.types(merchant_id)
            ],
            "max_at_once": MAX_AT_ONCE,
            "overlaps": [(value, key) for value, (_, key) in OVERLAPS.items()],
            "deliveries_path": with_query("/deliveries", {"merchant": merchant_id}),
            "recover_path": _recover_path(merchant),
            "waiting_path": with_query("/deliveries", {"merchant": merchant_id, "state": State.PENDING}),
            "retrying_path": with_query(
                "/deliveries", {"merchant": merchant_id, "state": State.PENDING_RETRY}
            ),
            "new_client_id": ClientId.from_random(secrets.token_bytes(CLIENT_ID_BYTES), self._shard),
            "snippet": self._snippet.replace(DEFAULT_NAMES.signature, self._names().signature),
        }
        return Page("merchant.html", facts, 404 if is_unknown else status)

    async def _command(self, request: Request, merchant_id: str) -> CommandRow | None:
        """Return the command that this page was led to by, if it is about this merchant."""
        number = acting.command_number(request.query_value("command"))
        command = None if number is None else await self._commands.get(request.key, number)
        return command if command is not None and command.merchant_id == merchant_id else None

    def _verdict(self, request: Request, url: str, merchant: Merchant | None) -> UrlVerdict:
        language = request.reader.language
        if (fault := self._guard.find_fault(url)) is not None:
            return UrlVerdict(
                False, texts.say("merchant.url_refused", language, reason=reason(request.reader, fault))
            )
        good = texts.say("merchant.url_good", language)
        if merchant is not None and merchant.url not in (None, url):
            good = f"{good} {texts.say('merchant.url_other', language)}"
        return UrlVerdict(True, good)

    async def judge_url(self, request: Request) -> Response:
        """Say what the guard says of a URL, while it is typed."""
        merchant = await self._merchants.get(request.key, wanted_merchant(request))
        url = request.query_value("url")
        if not url:
            return Page("_verdict.html", {"verdict": None})
        return Page("_verdict.html", {"verdict": self._verdict(request, url, merchant)})

    async def configure(self, request: Request) -> Response:
        """Change the URL, or configure the merchant with a secret of its own, which is shown once."""
        merchant_id, url = wanted_merchant(request), request.form_value("url").strip()
        if self._guard.find_fault(url) is not None:
            return await self._page(request, entered_url=url, status=422)
        store = partial(self._actions.put_endpoint, request.key, merchant_id, url)
        try:
            result = await store(None)
            if result is not PutOutcome.NOT_CONFIGURED:
                return _to(merchant_id, said="url" if result is PutOutcome.CHANGED else "same")
            result, secret = await store_new_secret(merchant_id, self._actions.sealing_key, store)
        except NotSealed as error:
            return await self._unsealed(request, error)
        except StatementRefused as error:
            return await self._page(
                request, problem=self._refusal(request, error), entered_url=url, status=422
            )
        if result is not PutOutcome.CREATED:
            # Somebody else configured it just now, with a secret that they have.
            return _to(merchant_id, said="url")
        return await self._page(request, secret=SecretOnce("merchant.secret_made", secret.revealed.decode()))

    async def set_types(self, request: Request) -> Response:
        """Have the ticked types sent alone; all of them: whatever there will be."""
        merchant_id = wanted_merchant(request)
        known = await self._merchants.types(merchant_id)
        ticked = [name for name in known if name in request.form.get("types", ())]
        if not ticked or MAX_TYPES < len(ticked) < len(known):
            return await self._page(request, problem=self._say(request, "merchant.types_none"), status=422)
        wanted = None if len(ticked) == len(known) else ticked
        change = self._actions.put_endpoint(request.key, merchant_id, None, None, wanted)
        return await self._changed(request, change, "types", "merchant.types_refused")

    async def set_order(self, request: Request) -> Response:
        """Have so many events attempted at once, in the order of each charge; one: in the merchant's."""
        merchant_id, entered = wanted_merchant(request), request.form_value("at_once")
        if not re.fullmatch("[0-9]{1,2}", entered) or not 1 <= int(entered) <= MAX_AT_ONCE:
            raise HttpError(422, "malformed")
        at_once = int(entered) if int(entered) > 1 else None
        change = self._actions.set_order(request.key, merchant_id, at_once)
        return await self._changed(request, change, "order", "merchant.order_refused")

    async def _changed(
        self, request: Request, change: Awaitable[PutOutcome], said: str, refused: str
    ) -> Response:
        """Make a change that an older dispatcher might not know, and show the merchant's page."""
        try:
            result = await change
        except StatementRefused as error:
            if error.sqlstate != OLDER_DISPATCHER:
                raise
            told = self._say(request, refused, reason=error.detail)
            return await self._page(request, problem=told, status=409)
        if result is PutOutcome.NOT_CONFIGURED:
            return await self._page(request, problem=self._say(request, "merchant.not_there"), status=409)
        return _to(wanted_merchant(request), said=said if result is PutOutcome.CHANGED else f"same_{said}")

    async def rotate(self, request: Request) -> Response:
        """Make a new secret, shown once. The form names the one before: sent again, it changes nothing."""
        merchant_id = wanted_merchant(request)
        chosen = request.form_value("overlap")
        (overlap, _), hold = OVERLAPS.get(chosen, OVERLAPS[""]), chosen == HOLD
        merchant = await self._merchants.get(request.key, merchant_id)
        if merchant is None or merchant.secret_created_at is None:
            return await self._page(request, problem=self._say(request, "merchant.not_there"), status=409)
        if merchant.secret_created_at.isoformat() != request.form_value("created"):
            at = shown_instant(request.reader, merchant.now, merchant.secret_created_at, True)
            return await self._page(
                request, problem=self._say(request, "merchant.secret_again", at=at), status=409
            )

        async def rotate() -> tuple[Rotated, Secret]:
            return await store_new_secret(
                merchant_id,
                self._actions.sealing_key,
                lambda sealed: self._actions.rotate_secret(request.key, merchant_id, sealed, overlap, hold),
            )

        async def pause() -> None:
            await self._actions.give_command(request.key, CommandName.PAUSE, merchant_id=merchant_id)

        try:
            rotated, secret = await when_held(rotate, pause)
        except NotSealed as error:
            return await self._unsealed(request, error)
        except NotHeld:
            return await self._page(request, problem=self._say(request, "merchant.not_held"), status=409)
        if rotated.result is Rotation.NOT_CONFIGURED:
            return await self._page(request, problem=self._say(request, "merchant.not_there"), status=409)
        key = "merchant.secret_held" if hold else "merchant.secret_made"
        return await self._page(request, secret=SecretOnce(key, secret.revealed.decode()))

    async def remove(self, request: Request) -> Response:
        """Forget URL and secret."""
        merchant_id = wanted_merchant(request)
        if await self._actions.remove_endpoint(request.key, merchant_id) is Removal.NOT_CONFIGURED:
            return await self._page(request, problem=self._say(request, "merchant.not_there"), status=409)
        return _to(merchant_id, said="removed")

    async def test(self, request: Request) -> Response:
        """Send a test event; the page shows its answer as it comes."""
        return await self._give(request, CommandName.TEST_EVENT)

    async def pause(self, request: Request) -> Response:
        """Keep events back, in order."""
        return await self._give(request, CommandName.PAUSE)

    async def resume(self, request: Request) -> Response:
        """Send what was kept back, and go on."""
        return await self._give(request, CommandName.RESUME)

    async def _give(self, request: Request, name: CommandName) -> Response:
        merchant_id = wanted_merchant(request)
        return _to(
            merchant_id, command=await self._actions.give_command(request.key, name, merchant_id=merchant_id)
        )

    async def create_key(self, request: Request) -> Response:
        """Make an API key, whose secret is shown once; its id is the form's, so that it is made once."""
        merchant_id, name = wanted_merchant(request), request.form_value("name").strip()
        client_id = ClientId.parse(request.form_value("client"))
        if client_id is None or client_id.shard != self._shard:
            raise HttpError(422, "malformed")
        if not 1 <= len(name) <= MAX_KEY_NAME or not name.isprintable():
            return await self._page(request, problem=self._say(request, "merchant.key_refused"), status=422)
        known = await self._merchants.api_keys(request.key, merchant_id)
        if any(key.client_id == str(client_id) for key in known):
            return await self._page(request, problem=self._say(request, "merchant.key_again"), status=409)
        secret = ClientSecret.from_random(secrets.token_bytes(SECRET_BYTES))
        try:
            await self._actions.create_api_key(request.key, merchant_id, str(client_id), secret.hash, name)
        except StatementRefused as error:
            return await self._page(request, problem=self._refusal(request, error), status=422)
        return await self._page(
            request, secret=SecretOnce("merchant.key_made", secret.revealed, str(client_id))
        )

    async def revoke_key(self, request: Request) -> Response:
        """Revoke an API key for good."""
        merchant_id, client_id = wanted_merchant(request), request.form_value("client")
        known = await self._merchants.api_keys(request.key, merchant_id)
        if all(key.client_id != client_id for key in known):
            raise HttpError(404, "not_found")
        await self._actions.revoke_api_key(request.key, client_id)
        return _to(merchant_id, said="revoked")

    async def _unsealed(self, request: Request, error: NotSealed) -> Response:
        _log.warning("secret.unsealed", reason=str(error))
        return await self._page(request, problem=self._say(request, "merchant.no_key"), status=503)

    def _say(self, request: Request, key: str, **facts: object) -> str:
        return texts.say(key, request.reader.language, **facts)

    def _refusal(self, request: Request, error: StatementRefused) -> str:
        return self._say(request, "merchant.id_refused", reason=error.detail)


def wanted_merchant(request: Request) -> str:
    """Return the merchant's id that the path names."""
    if (merchant_id := names.read(request.parameters["merchant"])) is None:
        raise HttpError(404, "not_found")
    return merchant_id


def _recover_path(merchant: Merchant | None) -> str:
    """Return where what was lately is sent again; empty where nothing can be sent."""
    if merchant is None or not merchant.has_endpoint:
        return ""
    since = (merchant.now - RECENT).isoformat()
    fields = {"act": "recover_all", "only_merchant": merchant.merchant_id, "only_since": since}
    return with_query("/deliveries/act", fields)


def _tested(command: CommandRow, request: Request) -> str:
    """Say what a test event was answered."""
    result = command.result or {}
    if "outcome" not in result:
        return ""
    words = [label(request.reader, "outcome", str(result["outcome"]))]
    if result.get("status") is not None:
        words.append(f"HTTP {result['status']}")
    if result.get("reason") is not None:
        words.append(reason(request.reader, str(result["reason"])))
    return ": ".join(words)


def _to(merchant_id: str, **fields: object) -> Redirect:
    return Redirect(with_query(merchant_path(merchant_id), fields))
