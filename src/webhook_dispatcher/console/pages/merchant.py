"""One merchant: its endpoints, where its events go, their secrets, test events, its keys.

A secret is made here, sealed to the public half of the dispatchers' key, and shown in the answer to the form
that made it: it is in no URL, no log and no page that is asked for again. The form names what was there
before, so that a browser that sends it again makes no second one.
"""

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from webhook_dispatcher.domain.merchant import MerchantFacts
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.storage.api.endpoints import (
    AS_IT_IS,
    Added,
    AddOutcome,
    PutOutcome,
    Removal,
    Rotated,
    Rotation,
)
from webhook_dispatcher.storage.api.held_rotation import when_held
from webhook_dispatcher.storage.api.new_secrets import NotSealed, store_new_secret
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.commands import CommandRow, Commands
from webhook_dispatcher.storage.console.merchants import Merchant, MerchantEndpoint, Merchants
from webhook_dispatcher.transport.guard import Guard

MAX_NAME = 100
"""Characters of the name of a key, or of an endpoint."""
NEW = 0
"""In place of an endpoint's number: the form that adds one."""
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


@dataclass(frozen=True, slots=True)
class EndpointForms:
    """An endpoint with what its forms show. endpoint: None of one that is not there yet.

    number: NEW of one that is to be added to others. types: each with whether it is ticked.
    """

    number: int
    endpoint: MerchantEndpoint | None
    fares: MerchantFacts | None
    url: str
    verdict: UrlVerdict | None
    types: Sequence[tuple[str, bool]]

    @property
    def tail(self) -> str:
        """Return what tells the ids of its fields from those of others."""
        return "" if self.number == 1 else f"_{self.number}"


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
        entered: int | None = None,
        secret: SecretOnce | None = None,
        status: int = 200,
        is_new: bool = True,
    ) -> Page:
        """Make the page. is_new: a merchant that nothing is known of is meant.

        entered: the number of the endpoint whose URL the form has, as it was typed.
        """
        merchant_id = wanted_merchant(request)
        # Before the merchant: a command that is done has changed what is read after it.
        command = await self._command(request, merchant_id)
        merchant = await self._merchants.get(request.key, merchant_id)
        # A key may be there before anything else of the merchant.
        keys = merchant.api_keys if merchant else await self._merchants.api_keys(request.key, merchant_id)
        is_unknown = merchant is None and not keys and not is_new
        configured = merchant.configured if merchant else ()
        # Number 1 may be set anew, whichever others there are.
        has_first = any(each.number == 1 for each in configured)
        known = await self._merchants.types(merchant_id)
        forms = [
            self._forms(request, merchant, each, 1 if each is None else each.number, known, entered)
            for each in (*(() if has_first else (None,)), *configured)
        ]
        path = merchant_path(merchant_id)
        said = _SAID.get(request.query_value("said"))
        result = (command.result or {}) if command else {}
        facts = {
            "merchant_id": merchant_id,
            "merchant": merchant,
            "is_unknown": is_unknown,
            "like_path": with_query("/merchants", {"prefix": merchant_id[:3]}),
            "has_endpoint": bool(configured),
            "has_several": len(configured) > 1 or any(each.number > 1 for each in configured),
            "forms": forms,
            "adding": self._forms(request, None, None, NEW, known, entered) if configured else None,
            "entered_name": request.form_value("name") if entered == NEW else "",
            "is_adding": entered == NEW,
            "known_endpoints": _known(merchant),
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

    def _forms(
        self,
        request: Request,
        merchant: Merchant | None,
        endpoint: MerchantEndpoint | None,
        number: int,
        known: Sequence[str],
        entered: int | None,
    ) -> EndpointForms:
        """Fill in the forms of an endpoint: as it is, and as it was typed. known: types."""
        wanted = endpoint.types if endpoint else None
        if number == entered == NEW:
            wanted = None if _is_all_ticked(request, known) else request.form.get("types", ())
        url = request.form_value("url").strip() if number == entered else endpoint.url if endpoint else ""
        return EndpointForms(
            number,
            endpoint,
            merchant.fares(number) if merchant else None,
            url,
            self._verdict(request, url, endpoint) if url else None,
            [(name, wanted is None or name in wanted) for name in known],
        )

    def _verdict(self, request: Request, url: str, endpoint: MerchantEndpoint | None) -> UrlVerdict:
        language = request.reader.language
        if (fault := self._guard.find_fault(url)) is not None:
            return UrlVerdict(
                False, texts.say("merchant.url_refused", language, reason=reason(request.reader, fault))
            )
        good = texts.say("merchant.url_good", language)
        if endpoint is not None and endpoint.url != url:
            good = f"{good} {texts.say('merchant.url_other', language)}"
        return UrlVerdict(True, good)

    async def judge_url(self, request: Request) -> Response:
        """Say what the guard says of a URL, while it is typed."""
        merchant = await self._merchants.get(request.key, wanted_merchant(request))
        endpoint = merchant.configuration(_number(request.query_value("endpoint"))) if merchant else None
        url = request.query_value("url")
        return Page("_verdict.html", {"verdict": self._verdict(request, url, endpoint) if url else None})

    async def configure(self, request: Request) -> Response:
        """Change the URL, or configure the merchant with a secret of its own, which is shown once."""
        merchant_id, url = wanted_merchant(request), request.form_value("url").strip()
        number = _wanted_number(request)
        if self._guard.find_fault(url) is not None:
            return await self._page(request, entered=number, status=422)
        store = partial(self._actions.put_endpoint, request.key, merchant_id, url, number=number)
        try:
            result = await store(None)
            if result is not PutOutcome.NOT_CONFIGURED:
                return _to(merchant_id, said="url" if result is PutOutcome.CHANGED else "same")
            if number != 1:
                return await self._gone(request)
            result, secret = await store_new_secret(merchant_id, self._actions.sealing_key, store)
        except NotSealed as error:
            return await self._unsealed(request, error)
        except StatementRefused as error:
            return await self._page(
                request, problem=self._refusal(request, error), entered=number, status=422
            )
        if result is not PutOutcome.CREATED:
            # Somebody else configured it just now, with a secret that they have.
            return _to(merchant_id, said="url")
        return await self._page(request, secret=SecretOnce("merchant.secret_made", secret.revealed.decode()))

    async def add(self, request: Request) -> Response:
        """Add an endpoint, whose secret is shown once.

        The form names those that were there before: sent again, it adds none.
        """
        merchant_id, url = wanted_merchant(request), request.form_value("url").strip()
        name = request.form_value("name").strip()
        refused = partial(self._page, request, entered=NEW)
        if self._guard.find_fault(url) is not None:
            return await refused(status=422)
        if name and not _is_name(name):
            return await refused(problem=self._say(request, "merchant.key_refused"), status=422)
        if (wanted := await self._ticked(request)) is AS_IT_IS:
            return await refused(problem=self._say(request, "merchant.types_none"), status=422)
        if _known(await self._merchants.get(request.key, merchant_id)) != request.form_value("known"):
            return await refused(problem=self._say(request, "merchant.add_again"), status=409)

        async def add() -> tuple[Added, Secret]:
            return await store_new_secret(
                merchant_id,
                self._actions.sealing_key,
                lambda sealed: self._actions.add_endpoint(
                    request.key, merchant_id, url, sealed, name or None, wanted
                ),
            )

        try:
            added, secret = await when_held(add)
        except NotSealed as error:
            return await self._unsealed(request, error)
        except NotHeld:
            return await refused(problem=self._say(request, "merchant.still_sending"), status=409)
        except StatementRefused as error:
            key = "merchant.add_refused" if error.sqlstate == OLDER_DISPATCHER else "merchant.id_refused"
            return await refused(problem=self._say(request, key, reason=error.detail), status=409)
        if added.result is AddOutcome.TOO_MANY:
            return await refused(problem=self._say(request, "merchant.too_many"), status=409)
        return await self._page(request, secret=SecretOnce("merchant.secret_made", secret.revealed.decode()))

    async def _ticked(self, request: Request) -> Sequence[str] | None:
        """Return the types that are ticked; None: all of them, AS_IT_IS: none, or more than a filter has."""
        known = await self._merchants.types(wanted_merchant(request))
        if _is_all_ticked(request, known):
            return None
        ticked = [name for name in known if name in request.form.get("types", ())]
        return ticked if 1 <= len(ticked) <= MAX_TYPES else AS_IT_IS

    async def set_types(self, request: Request) -> Response:
        """Have the ticked types sent alone; all of them: whatever there will be."""
        if (wanted := await self._ticked(request)) is AS_IT_IS:
            return await self._page(request, problem=self._say(request, "merchant.types_none"), status=422)
        change = self._actions.put_endpoint(
            request.key, wanted_merchant(request), None, None, wanted, _wanted_number(request)
        )
        return await self._changed(request, change, "types", "merchant.types_refused")

    async def set_order(self, request: Request) -> Response:
        """Have so many events attempted at once, in the order of each charge; one: in the merchant's."""
        merchant_id, entered = wanted_merchant(request), request.form_value("at_once")
        if not re.fullmatch("[0-9]{1,2}", entered) or not 1 <= int(entered) <= MAX_AT_ONCE:
            raise HttpError(422, "malformed")
        at_once = int(entered) if int(entered) > 1 else None
        change = self._actions.set_order(request.key, merchant_id, at_once, _wanted_number(request))
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
            return await self._gone(request)
        return _to(wanted_merchant(request), said=said if result is PutOutcome.CHANGED else f"same_{said}")

    async def rotate(self, request: Request) -> Response:
        """Make a new secret, shown once. The form names the one before: sent again, it changes nothing."""
        merchant_id = wanted_merchant(request)
        chosen = request.form_value("overlap")
        (overlap, _), hold = OVERLAPS.get(chosen, OVERLAPS[""]), chosen == HOLD
        number = _wanted_number(request)
        merchant = await self._merchants.get(request.key, merchant_id)
        if merchant is None or (endpoint := merchant.configuration(number)) is None:
            return await self._gone(request)
        if endpoint.secret_created_at.isoformat() != request.form_value("created"):
            at = shown_instant(request.reader, merchant.now, endpoint.secret_created_at, True)
            return await self._page(
                request, problem=self._say(request, "merchant.secret_again", at=at), status=409
            )

        async def rotate() -> tuple[Rotated, Secret]:
            return await store_new_secret(
                merchant_id,
                self._actions.sealing_key,
                lambda sealed: self._actions.rotate_secret(
                    request.key, merchant_id, sealed, overlap, hold, number
                ),
            )

        async def pause() -> None:
            await self._command_for(request, CommandName.PAUSE)

        try:
            rotated, secret = await when_held(rotate, pause)
        except NotSealed as error:
            return await self._unsealed(request, error)
        except NotHeld:
            return await self._page(request, problem=self._say(request, "merchant.not_held"), status=409)
        if rotated.result is Rotation.NOT_CONFIGURED:
            return await self._gone(request)
        key = "merchant.secret_held" if hold else "merchant.secret_made"
        return await self._page(request, secret=SecretOnce(key, secret.revealed.decode()))

    async def remove(self, request: Request) -> Response:
        """Forget URL and secret."""
        merchant_id = wanted_merchant(request)
        number = _wanted_number(request)
        if await self._actions.remove_endpoint(request.key, merchant_id, number) is Removal.NOT_CONFIGURED:
            return await self._gone(request)
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
        return _to(wanted_merchant(request), command=await self._command_for(request, name))

    async def _command_for(self, request: Request, name: CommandName) -> int:
        """Give a command, for the endpoint that the form names; where there is one it names none."""
        args = {"endpoint": _wanted_number(request)} if request.form_value("endpoint") else {}
        return await self._actions.give_command(
            request.key, name, merchant_id=wanted_merchant(request), args=args
        )

    async def create_key(self, request: Request) -> Response:
        """Make an API key, whose secret is shown once; its id is the form's, so that it is made once."""
        merchant_id, name = wanted_merchant(request), request.form_value("name").strip()
        client_id = ClientId.parse(request.form_value("client"))
        if client_id is None or client_id.shard != self._shard:
            raise HttpError(422, "malformed")
        if not _is_name(name):
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

    async def _gone(self, request: Request) -> Response:
        return await self._page(request, problem=self._say(request, "merchant.not_there"), status=409)

    def _say(self, request: Request, key: str, **facts: object) -> str:
        return texts.say(key, request.reader.language, **facts)

    def _refusal(self, request: Request, error: StatementRefused) -> str:
        return self._say(request, "merchant.id_refused", reason=error.detail)


def wanted_merchant(request: Request) -> str:
    """Return the merchant's id that the path names."""
    if (merchant_id := names.read(request.parameters["merchant"])) is None:
        raise HttpError(404, "not_found")
    return merchant_id


def _number(text: str) -> int:
    """Read an endpoint's number; number 1 where none is given. HttpError where it is none."""
    if text and not re.fullmatch("[0-9]{1,3}", text):
        raise HttpError(422, "malformed")
    return int(text or 1)


def _wanted_number(request: Request) -> int:
    """Return the number of the endpoint that the form is of."""
    return _number(request.form_value("endpoint"))


def _is_all_ticked(request: Request, known: Sequence[str]) -> bool:
    """Tell whether all types that the form had are ticked; there may be others since it was opened."""
    return str(len(request.form.get("types", ()))) == (request.form_value("offered") or str(len(known)))


def _known(merchant: Merchant | None) -> str:
    """Write which endpoints there are, for a form that adds one."""
    return ",".join(str(each.number) for each in merchant.configured) if merchant else ""


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= MAX_NAME and text.isprintable()


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
