"""What goes through the pipeline: what was asked of which operation, and an answer or a refusal."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from webhook_dispatcher.api.card_attempts import CardAttempt
from webhook_dispatcher.domain.command import CommandView
from webhook_dispatcher.domain.errors import StillSending
from webhook_dispatcher.domain.language import Language
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.api.endpoints import OwnEndpoint
from webhook_dispatcher.storage.api.tokens import Bearer
from webhook_dispatcher.web.clients import Address

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

T = TypeVar("T", bound=BaseModel)
IdempotencyRule = Literal["required", "accepted", "none"]
IDEMPOTENCY_KEY = "Idempotency-Key"
REPLAYED: Mapping[str, str] = MappingProxyType({"Idempotent-Replayed": "true"})
"""A header of what was answered before."""
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MAX_BODY_BYTES = 1_048_576
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Detail:
    """What is wrong with one field. field: dotted path with numeric indexes, such as `recipients.0.share`.

    kind: of fault, as the key of its message has it behind `field.`; empty: the charge service's.
    """

    field: str
    message: str
    kind: str = ""


class ApiError(Exception):
    """A request ends with an error of the catalogue.

    extra: further fields of `error`, such as failureReason, or `cause`, by which the code's meanings are told
    apart (`catalogue.CAUSES`). status: an upstream's, for a code that has none
    of its own. language: the one in which it was first told, when it is told again.
    """

    def __init__(
        self,
        code: int,
        details: tuple[Detail, ...] = (),
        headers: Mapping[str, str] = NO_HEADERS,
        extra: Mapping[str, object] = NO_HEADERS,
        *,
        status: int | None = None,
        language: Language | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.details = details
        self.headers = headers
        self.extra = extra
        self.status = status
        self.language = language
        self.closes = closes
        """Whether nothing more can be read from the connection."""


class Response(NamedTuple):
    """A success. data: JSON. language: that of the first answer, where this one repeats it.

    kept: what is told when the same request comes again, where that is less: a secret is told once.
    meta: further fields of `meta`. page: the content type of data that goes out without an envelope.
    """

    data: bytes
    status: int = 200
    headers: Mapping[str, str] = NO_HEADERS
    next_cursor: str | None = None
    language: Language | None = None
    kept: bytes | None = None
    meta: Mapping[str, object] = NO_HEADERS
    page: str | None = None


@dataclass(frozen=True, slots=True)
class CommandAccepted:
    """A command was given, and daemons carry it out; language and headers: as for Response."""

    command_id: int
    language: Language | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """What the table says of every operation: how it is found, limited, read and documented.

    input: what is read from its body, or where its method has none, from its query. limit: by which limits
    it is counted. statuses: every one that a success may have. created: what a 201 holds, where that is more
    than `answer`. refusals: the codes that are its own, beside those that follow from its limit, idempotency
    and body. summary: one sentence, for the OpenAPI document. shows_endpoint: the merchant's endpoint is read
    by the statement that lets the request in. meta: what `meta` may hold besides.
    """

    method: str
    template: str
    name: str
    input: type[BaseModel]
    _: KW_ONLY
    answer: type[BaseModel] | None = None
    created: type[BaseModel] | None = None
    limit: Literal["token", "key", "card", "none"]
    idempotency: IdempotencyRule = "none"
    statuses: tuple[int, ...] = (200,)
    refusals: tuple[int, ...] = ()
    summary: str = ""
    content_types: tuple[str, ...] = (JSON,)
    max_body: int = MAX_BODY_BYTES
    is_list: bool = False
    meta: tuple[str, ...] = ()
    shows_endpoint: bool = False

    @property
    def takes_body(self) -> bool:
        """Whether its method comes with a body."""
        return self.method in ("POST", "PUT", "PATCH")


@dataclass(frozen=True)
class PublicOperation(Row, Generic[T]):
    """An operation that asks for no token. form: the model of its body as a form, where that is another."""

    input: type[T]
    handler: Callable[["Head", T], Awaitable[Response]]
    _: KW_ONLY
    form: type[T] | None = None
    limit: Literal["token", "none"] = "none"


@dataclass(frozen=True)
class MerchantOperation(Row, Generic[T]):
    """An operation that we carry out for the merchant whose token a request brings.

    StillSending instead of an answer: it is carried out again, soon, in a transaction of its own.
    outcome: writes what became of the command that it gives; without it, a command is not waited for.
    """

    input: type[T]
    handler: Callable[["Request", T], Awaitable["Response | CommandAccepted | StillSending"]]
    _: KW_ONLY
    limit: Literal["key"] = "key"
    outcome: Callable[[CommandView], bytes] | None = None


@dataclass(frozen=True)
class ForwardedOperation(Row):
    """An operation that the charge service carries out for the merchant, and whose input it judges itself."""

    handler: Callable[["Request"], Awaitable[Response]]
    _: KW_ONLY
    limit: Literal["key", "card"] = "key"


Operation = PublicOperation[Any] | MerchantOperation[Any] | ForwardedOperation


class Head(NamedTuple):
    """The head of a request, once its operation is found; whose it is, nobody knows yet.

    target: path with query, as sent. address: the client's, as far as the proxies before us are trusted.
    """

    operation: Operation
    parameters: Mapping[str, str]
    request_id: str
    language: Language
    headers: "CIMultiDictProxy[str]"
    target: str
    address: Address

    @property
    def may_be_known(self) -> bool:
        """Whether it may be an earlier request that comes again."""
        return self.operation.idempotency != "none" and IDEMPOTENCY_KEY in self.headers


class Caller(NamedTuple):
    """Whose request it is, as admission found. database: where its statements run: a share, or a transaction.

    shard: the database's name. headers: what answers say besides (RateLimit). attempt: what was taken of a
    card's limit. endpoint: the merchant's, for an operation that shows it. full: how a request is refused for
    whose Idempotency-Key nothing is kept, because a limit is full.
    """

    bearer: Bearer
    database: Database
    shard: str | None = None
    headers: Mapping[str, str] = NO_HEADERS
    attempt: CardAttempt | None = None
    endpoint: OwnEndpoint | None = None
    full: ApiError | None = None

    @property
    def token(self) -> bytes:
        """The hash of its token, by which statements find whose rows they may read."""
        return self.bearer.token_hash


class Request(NamedTuple):
    """A request that was let in, and has come whole.

    body: what was sent, whose hash an idempotency key is bound to. take_memory: reserves so many bytes for
    the answer, until it was sent, or refuses.
    """

    head: Head
    caller: Caller
    body: bytes
    take_memory: Callable[[int], None]
