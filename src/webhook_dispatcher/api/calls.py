"""What goes through the pipeline: what was asked, and an answer or a refusal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import BaseModel

from webhook_dispatcher.api.card_attempts import CardAttempt
from webhook_dispatcher.api.catalogue import Language
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.api.endpoints import OwnEndpoint
from webhook_dispatcher.storage.api.tokens import Bearer

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

    from webhook_dispatcher.api.operations import Operation

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Detail:
    """What is wrong with one field. field: dotted path with numeric indexes, such as `recipients.0.share`."""

    field: str
    message: str


class Refused(Exception):
    """A request ends with an error of the catalogue.

    extra: further fields of `error`, such as failureReason. status: an upstream's, for a code that has none
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


@dataclass(frozen=True, slots=True)
class Answer:
    """A success. data: JSON. language: the one of the first answer, where this repeats it.

    kept: what is told when the same request comes again, where that is less: a secret is told once.
    page: the content type of data that is all of the answer, with no envelope around it.
    """

    data: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    next_cursor: str | None = None
    language: Language | None = None
    kept: bytes | None = None
    page: str | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """A command was given, and daemons carry it out; language and headers: as for Answer."""

    command_id: int
    language: Language | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as it is known; each step of the pipeline knows more.

    raw_body: what was sent, whose hash an idempotency key is bound to. target: path with query, as sent.
    address: the client's, as far as the proxies before us are trusted. began: by the clock's `elapsed`.
    derived_key: what the charge service gets as the key of what is forwarded.
    """

    request_id: str
    language: Language
    operation: "Operation"
    parameters: Mapping[str, str]
    headers: "CIMultiDictProxy[str]"
    target: str
    address: IPv4Address | IPv6Address
    began: float
    query: BaseModel | None = None
    body: BaseModel | None = None
    raw_body: bytes = b""
    derived_key: str | None = None
    admitted: "Admitted" = field(default_factory=lambda: Admitted())

    @property
    def bearer(self) -> Bearer:
        """Whose token it came with; for operations that ask for one."""
        assert self.admitted.bearer is not None
        return self.admitted.bearer

    @property
    def token(self) -> bytes:
        """The hash of its token, by which statements find whose rows they may read."""
        return self.bearer.token_hash

    @property
    def database(self) -> Database:
        """Where its statements run: a pool, or the transaction that keeps what came of it."""
        assert self.admitted.database is not None
        return self.admitted.database


@dataclass(frozen=True, slots=True)
class Admitted:
    """What admission found. shard: the database's name; headers: what answers say besides (RateLimit).

    attempt: what was taken of a card's limit. endpoint: the merchant's, for an operation that shows it.
    """

    bearer: Bearer | None = None
    database: Database | None = None
    shard: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    attempt: CardAttempt | None = None
    endpoint: OwnEndpoint | None = None
