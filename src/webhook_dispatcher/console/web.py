"""The steps that every request to the console goes through, in their order (`Console._carry_out`).

They are no middlewares of aiohttp: those do not see requests that cannot be parsed, and every answer must
have the same headers. The log names the route and never the path or query, which hold ids of merchants and
charges; what people have done stands in the audit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode

import structlog
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response as HttpResponse

from webhook_dispatcher.console import cookies, security
from webhook_dispatcher.console.authenticator import Authenticator
from webhook_dispatcher.console.calls import (
    AnyRoute,
    Content,
    HttpError,
    Page,
    PublicRequest,
    PublicRoute,
    Redirect,
    Request,
    Response,
    Route,
    SignedIn,
    SignInRequired,
)
from webhook_dispatcher.console.reader import Reader, reader_of
from webhook_dispatcher.console.rendering import Renderer
from webhook_dispatcher.domain.account import Role, SessionToken
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.storage.console.database import IdleTooLong, NotAllowed, SessionOver
from webhook_dispatcher.storage.console.overview import Overviews
from webhook_dispatcher.storage.console.sessions import Browser
from webhook_dispatcher.web.body import read_body
from webhook_dispatcher.web.faults import Fault, RequestRefused
from webhook_dispatcher.web.heads import examine, expects_continue, judge
from webhook_dispatcher.web.responses import respond
from webhook_dispatcher.web.router import NoSuchMethod, NoSuchPath, Router
from webhook_dispatcher.web.server import ADDRESS, BY_PROXY

MAX_BODY_BYTES = 65_536
MAX_FIELDS = 400
MAX_AGENT = 200
FORM = "application/x-www-form-urlencoded"
HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
SERVER = "webhook-dispatcher"
REFRESH = "HX-Request"
"""The header that htmx sends: the page refreshes itself, so that the person did not do anything."""
_FAULTS: Mapping[Fault, tuple[int, str]] = {
    Fault.MALFORMED: (400, "malformed"),
    Fault.HEAD_TOO_LARGE: (431, "malformed"),
    Fault.BODY_TOO_LARGE: (413, "too_large"),
    Fault.TOO_SLOW: (408, "malformed"),
    Fault.CONNECT: (405, "malformed"),
    Fault.EXPECTATION: (417, "malformed"),
    Fault.CROWDED: (503, "crowded"),
}

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Front:
    """How the console is reached. origin: its public URL; None: this machine alone.

    proxy_header: in which trusted proxies name whom they have signed in; None: people sign in here.
    """

    origin: str | None
    proxy_header: str | None

    @property
    def is_https(self) -> bool:
        """Whether browsers reach it by https."""
        return self.origin is not None and self.origin.startswith("https:")


@dataclass(slots=True)
class Call:
    """What is needed to answer a request and to log it, even where nothing else of it is known."""

    reader: Reader
    began: float
    request_id: str
    route: str = "none"
    session: SignedIn | None = None
    is_nobody_alive: bool = False
    begins: SessionToken | None = None
    is_refresh: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class Console:
    """Answers requests."""

    def __init__(
        self,
        router: Router[AnyRoute],
        authenticator: Authenticator,
        overviews: Overviews,
        renderer: Renderer,
        front: Front,
        clock: Clock,
    ) -> None:
        self._router = router
        self._authenticator = authenticator
        self._overviews = overviews
        self._renderer = renderer
        self._front = front
        self._clock = clock
        self._count = 0

    async def __call__(self, request: BaseRequest) -> HttpResponse:
        """Answer a request, whatever happens."""
        call = self._begin(request)
        try:
            response = self._rendered(call, await self._carry_out(call, request))
        except SignInRequired as wanted:
            response = self._to_sign_in(call, request, wanted)
        except HttpError as refused:
            back = _page_of(request.path) if request.method == "POST" else "/"
            response = self._message(call, refused, back)
        except RequestRefused as error:
            response = self._message(call, HttpError(*_FAULTS[error.fault]))
        except ConnectionError:
            _log.info("request.broken_off", route=call.route, request_id=call.request_id)
            raise
        except SessionOver:
            response = self._to_sign_in(call, request, SignInRequired("over"))
        except IdleTooLong:
            response = self._to_sign_in(call, request, SignInRequired("idle"))
        except NotAllowed:
            response = self._message(call, HttpError(403, "denied"), _page_of(request.path))
        except (StorageUnavailable, TimeoutError) as error:
            _log.warning("request.unanswered", route=call.route, error=str(error) or "no connection was free")
            response = self._message(call, HttpError(503, "unavailable"))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and never shown
            _log.error("request.failed", route=call.route, request_id=call.request_id, exc_info=error)
            response = self._message(call, HttpError(500, "failed", request=call.request_id))
        return self._send(call, request, response)

    def refuse_unparsed(self, request: BaseRequest, error: BaseException | None) -> HttpResponse:
        """Answer a request that could not be parsed: nothing of it is known, not even its headers."""
        call = self._begin(None)
        fault = judge(error)
        if fault is None:
            _log.error("request.failed", request_id=call.request_id, exc_info=error)
            refused = HttpError(500, "failed", request=call.request_id)
        else:
            refused = HttpError(*_FAULTS[fault])
        return self._send(call, request, self._message(call, refused), is_last=True)

    def _begin(self, request: BaseRequest | None) -> Call:
        self._count += 1
        accepted = None if request is None else request.headers.get("Accept-Language")
        began = self._clock.elapsed()
        return Call(reader_of(None, accepted), began, f"{int(self._clock.unix())}-{self._count}")

    def _find(self, method: str, path: str) -> tuple[AnyRoute, Mapping[str, str]]:
        try:
            return self._router.find(method, path)
        except NoSuchPath:
            raise HttpError(404, "not_found") from None
        except NoSuchMethod as error:
            raise HttpError(405, "method", allow=error.allow) from None

    async def _carry_out(self, call: Call, request: BaseRequest) -> Response:
        """Go through all steps in their order: each is given what those before it found, or refuses."""
        path = examine(request)
        if expects_continue(request):
            raise RequestRefused(Fault.EXPECTATION)
        route, parameters = self._find(request.method, path)
        call.route, call.is_refresh = route.name, REFRESH in request.headers
        if isinstance(route, Route) or request.method == "POST":
            self._check_host(request)
        if request.method == "POST" and not security.is_ours(
            request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin"), request.host
        ):
            raise HttpError(403, "forged")
        _check_form(request)
        agent = "".join(filter(str.isprintable, request.headers.get("User-Agent", "")))
        browser = Browser(request[ADDRESS], agent[:MAX_AGENT])
        if isinstance(route, PublicRoute):
            form = await _read_form(request, is_strangers=True)
            query = _query(request)
            return await route.handler(PublicRequest(path, call.reader, browser, parameters, query, form))
        call.session = session = await self._session(call, request, browser)
        call.reader = reader_of(session.person.preferences, request.headers.get("Accept-Language"))
        if route.role is Role.OPERATOR and not session.may_operate:
            raise HttpError(403, "denied")
        form = await _read_form(request, is_strangers=False)
        if request.method == "POST" and not security.is_form_token(session.token, _only(form, "token")):
            raise HttpError(403, "forged")
        query = _query(request)
        response = await route.handler(Request(path, call.reader, browser, parameters, query, form, session))
        if isinstance(response, Page):
            call.is_nobody_alive = not await self._overviews.is_any_alive(session.token.hash)
        return response

    def _check_host(self, request: BaseRequest) -> None:
        if not security.is_known_host(request.host, self._front.origin):
            raise HttpError(421, "wrong_host", origin=self._front.origin or "localhost")

    def _proxy_name(self, request: BaseRequest) -> str | None:
        """Return whom a trusted proxy has signed in; None where anybody else sent that header."""
        if self._front.proxy_header is None:
            return None
        named = request.headers.getall(self._front.proxy_header, [])
        return named[0] if request[BY_PROXY] and len(named) == 1 else None

    async def _session(self, call: Call, request: BaseRequest, browser: Browser) -> SignedIn:
        """Return whose session the request is in. Errors: SignInRequired; HttpError as of `_by_proxy`."""
        token = cookies.read(request.headers.get("Cookie", ""), self._front.is_https)
        session = None if token is None else await self._authenticator.find(token, not call.is_refresh)
        if self._front.proxy_header is not None:
            session = await self._by_proxy(call, request, browser, session)
        elif session is None and token is not None:
            raise SignInRequired("over")
        if session is None:
            raise SignInRequired
        return session

    async def _by_proxy(
        self, call: Call, request: BaseRequest, browser: Browser, session: SignedIn | None
    ) -> SignedIn | None:
        """Return the session of whom the proxy names: the cookie's, if it is that person's, or a new one.

        Errors: HttpError where the proxy names nobody, or nobody who has an account for that.
        """
        name = self._proxy_name(request)
        if name is None:
            raise HttpError(403, "denied_by_proxy")
        if session is not None and session.person.name == name:
            return session
        call.begins = await self._authenticator.admit(name, browser)
        if call.begins is None:
            raise HttpError(403, "denied_by_proxy")
        return await self._authenticator.find(call.begins, True)

    def _to_sign_in(self, call: Call, request: BaseRequest, wanted: SignInRequired) -> Redirect | Content:
        """Lead to the page for signing in, which leads back to where the person was."""
        target = (
            request.raw_path if request.method == "GET" and not call.is_refresh else _page_of(request.path)
        )
        fields = {"next": target, "why": wanted.key}
        path = f"/sign-in?{urlencode({name: text for name, text in fields.items() if text})}"
        if call.is_refresh:
            call.headers["HX-Redirect"] = path
            return Content(b"", status=204)
        return Redirect(path, ends=bool(wanted.key))

    def _rendered(self, call: Call, response: Response) -> Redirect | Content:
        """Make the bytes of a page."""
        if not isinstance(response, Page):
            return response
        facts: dict[str, object] = {}
        if call.session is not None:
            facts = {
                "person": call.session.person,
                "may_operate": call.session.may_operate,
                "is_nobody_alive": call.is_nobody_alive,
                "form_token": security.form_token(call.session.token),
            }
        page = self._renderer.page(response.template, call.reader, {**facts, **response.facts})
        return Content(page, HTML, response.status)

    def _message(self, call: Call, refused: HttpError, back: str = "/") -> Redirect | Content:
        """Say why something is not done. back: where to go from there, without scripts."""
        if refused.allow:
            call.headers["Allow"] = refused.allow
        facts = {"key": refused.key, "facts": refused.facts, "back": back}
        return self._rendered(call, Page("message.html", facts, refused.status))

    def _send(
        self, call: Call, request: BaseRequest, response: Redirect | Content, *, is_last: bool = False
    ) -> HttpResponse:
        """Send a response, with the headers that all have."""
        is_kept = isinstance(response, Content) and response.is_kept
        headers = security.headers(is_kept, self._front.is_https) | call.headers | {"Server": SERVER}
        if isinstance(response, Redirect):
            body, status = b"", 303
            headers |= {"Location": response.path, "Content-Type": TEXT}
        else:
            body, status = response.body, response.status
            headers |= {"Content-Type": response.content_type}
        if (cookie := _cookie(call, response, self._front.is_https)) is not None:
            headers["Set-Cookie"] = cookie
        self._note(call, status)
        return respond(request, status, body, headers, is_last=is_last)

    def _note(self, call: Call, status: int) -> None:
        note = _log.debug if call.is_refresh or call.session is None else _log.info
        note(
            "request.answered",
            route=call.route,
            status=status,
            took_ms=round((self._clock.elapsed() - call.began) * 1000),
            person=call.session.person.name if call.session else None,
        )


def _cookie(call: Call, response: Redirect | Content, is_https: bool) -> str | None:
    """Return the header that begins or ends a session, if this response does."""
    if isinstance(response, Redirect) and response.ends:
        return cookies.written(None, is_https)
    begins = response.begins if isinstance(response, Redirect) else None
    begins = begins or call.begins
    return None if begins is None else cookies.written(begins, is_https)


def _only(fields: Mapping[str, Sequence[str]], name: str) -> str:
    values = fields.get(name, ())
    return values[0] if len(values) == 1 else ""


def _check_form(request: BaseRequest) -> None:
    """Refuse a body by what the head says of it: nothing but a form is taken, and nothing with GET."""
    if not request.body_exists:
        return
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if request.method != "POST" or kind != FORM or "Content-Encoding" in request.headers:
        raise HttpError(415, "malformed")


async def _read_form(request: BaseRequest, *, is_strangers: bool) -> Mapping[str, Sequence[str]]:
    if not request.body_exists:
        return {}
    return _fields((await read_body(request, MAX_BODY_BYTES, is_strangers=is_strangers)).decode("latin-1"))


def _query(request: BaseRequest) -> Mapping[str, Sequence[str]]:
    return _fields(request.raw_path.partition("?")[2])


def _fields(text: str) -> Mapping[str, Sequence[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise HttpError(400, "malformed") from None


def _page_of(path: str) -> str:
    """Return the page that a form, or a part of a page, belongs to."""
    parts = path.split("/")
    return "/".join(parts[:3]) if parts[1] in ("merchants", "deliveries", "commands") else "/" + parts[1]
