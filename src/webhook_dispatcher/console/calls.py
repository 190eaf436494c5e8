"""What the console's steps hand on: a request, who asks, and the answer or the refusal."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from webhook_dispatcher.console.reader import Reader
from webhook_dispatcher.domain.account import Role, SessionToken
from webhook_dispatcher.storage.console.sessions import Browser, Person


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The session of the person who asks."""

    token: SessionToken
    person: Person

    @property
    def may_operate(self) -> bool:
        """Whether pages offer changes."""
        return self.person.role is Role.OPERATOR


@dataclass(frozen=True, slots=True)
class PublicRequest:
    """A request of anybody. parameters: of the path. query, form: their fields, each with all its values."""

    path: str
    reader: Reader
    browser: Browser
    parameters: Mapping[str, str]
    query: Mapping[str, Sequence[str]] = field(repr=False)
    form: Mapping[str, Sequence[str]] = field(repr=False)

    def query_value(self, name: str) -> str:
        """Return one field of the query, without blanks around it; empty where it is not there."""
        return _first(self.query, name).strip()

    def form_value(self, name: str) -> str:
        """Return one field of the form, as it was entered; empty where it is not there."""
        return _first(self.form, name)


def _first(fields: Mapping[str, Sequence[str]], name: str) -> str:
    return fields[name][0] if fields.get(name) else ""


@dataclass(frozen=True, slots=True)
class Request(PublicRequest):
    """A request of a person who is signed in."""

    session: SignedIn

    @property
    def key(self) -> bytes:
        """The hash of its session, by which statements find who asks."""
        return self.session.token.hash


@dataclass(frozen=True, slots=True)
class Page:
    """A page: a template, and the facts that it shows."""

    template: str
    facts: Mapping[str, object] = field(default_factory=dict, repr=False)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another page, to be asked for next. begins: a session's token; ends: the session is over."""

    path: str
    begins: SessionToken | None = None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """An answer that is no page. is_kept: a browser may keep it under its name."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    is_kept: bool = False


Response = Page | Redirect | Content


@dataclass(frozen=True, slots=True)
class Row:
    """What the table says of every route."""

    method: str
    template: str

    @property
    def name(self) -> str:
        """Its name in the log: no part of it comes from the request."""
        return f"{self.method} {self.template}"


@dataclass(frozen=True, slots=True)
class PublicRoute(Row):
    """A method and a path that are for anybody, and what answers."""

    handler: Callable[[PublicRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route(Row):
    """A method and a path that are for people who are signed in, and what answers.

    role: OPERATOR: they are for operators alone; the database asks again.
    """

    handler: Callable[[Request], Awaitable[Response]]
    role: Role = Role.VIEWER


AnyRoute = PublicRoute | Route


class HttpError(Exception):
    """A request is refused. key: of the text that says why. allow: the methods that the path has."""

    def __init__(self, status: int, key: str, /, allow: str = "", **facts: object) -> None:
        super().__init__(key)
        self.status = status
        self.key = key
        self.allow = allow
        self.facts = facts


class SignInRequired(Exception):
    """Nobody is signed in, or not any more. key: of the text that says why; empty: they never were."""

    def __init__(self, key: str = "") -> None:
        super().__init__(key)
        self.key = key
