"""Arguments and options that several commands share, and how their text is read."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any, TypeVar

import typer

from webhook_dispatcher.domain.duration import parse_duration
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.event import KNOWN_TYPES, is_own_type
from webhook_dispatcher.domain.lane import MAX_NUMBER
from webhook_dispatcher.storage.administration import Administration

MAX_MERCHANT_CHARACTERS = 128
_COUNT = "[0-9]{1,7}"
_SHORT_PERIOD = re.compile(
    rf"(?=.)(?:(?P<weeks>{_COUNT})w)?(?:(?P<days>{_COUNT})d)?(?:(?P<hours>{_COUNT})h)?"
    rf"(?:(?P<minutes>{_COUNT})m)?(?:(?P<seconds>{_COUNT})s)?"
)
"""Such as 90s, 5m, 24h, 7d, or several of them: 1h30m."""
_OF_THE_DAY = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?")


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as asked for: an instant, or by the database's clock so long ago, or a time of day.

    of_day: the last one that was. None of them: now.
    """

    instant: datetime | None = None
    ago: timedelta | None = None
    of_day: time | None = None

    async def resolve(self, database: Administration) -> datetime:
        """Return the instant that is meant."""
        if self.instant is not None:
            return self.instant
        then = await database.database_time(self.ago or timedelta(0))
        return then if self.of_day is None else last(self.of_day, then)


def last(of_day: time, now: datetime) -> datetime:
    """Return when it was last that time of day, in its own time zone."""
    today = datetime.combine(now.astimezone(of_day.tzinfo), of_day)
    return today if today <= now else today - timedelta(days=1)


async def resolved(moment: Moment | None, database: Administration) -> datetime | None:
    """Return the instant that is meant, if one is."""
    return await moment.resolve(database) if moment else None


def parse_merchant(text: str) -> str:
    """Read a merchant id. Source: contract 3, `merchant_id`."""
    if not 1 <= len(text) <= MAX_MERCHANT_CHARACTERS or not text.isprintable():
        raise typer.BadParameter(f"a merchant id has 1 to {MAX_MERCHANT_CHARACTERS} printable characters")
    if text != text.strip():
        raise typer.BadParameter(f"a merchant id has no spaces at its ends: {text.strip()!r} may be meant")
    return text


def one_of(known: tuple[str, ...], or_own: bool = False) -> Callable[[str], str]:
    """Return how one of these words is read. or_own: or what may be an event type of one's own."""

    def parse(text: str) -> str:
        if text not in known and not (or_own and is_own_type(text)):
            raise typer.BadParameter(f"{text!r} is none of {', '.join(known)}")
        return text

    return parse


async def check_types(named: Iterable[str], database: Administration) -> None:
    """Refuse types that there are not: misspelt, they would match nothing."""
    strange = set(named) - KNOWN_TYPES
    if strange and (strange := strange - {own.name for own in await database.list_own_types()}):
        raise UserError(f"there is no event type {', '.join(sorted(strange))}; see `event-type list`")


async def check_known(merchant: str | None, database: Administration) -> None:
    """Refuse a merchant of whom nothing is known: its id is misspelt, or it is of another database."""
    if merchant is not None and not await database.is_known_merchant(merchant):
        raise UserError(
            f"merchant {merchant!r} is not known here: it has no endpoint, and no event of it is owed or kept"
        )


def check_whose(merchant: str | None, endpoint: int | None) -> None:
    """Refuse an endpoint's number where no merchant is named."""
    if endpoint is not None and merchant is None:
        raise typer.BadParameter("--endpoint goes with a merchant")


def parse_period(text: str) -> timedelta:
    """Read a positive duration: 5m, 24h, 7d, or as ISO 8601 has it."""
    try:
        period = _short_period(text) or parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}; 90s, 5m, 24h and 7d will do too") from None
    if not timedelta(0) < period <= timedelta(days=3650):
        raise typer.BadParameter("must be longer than PT0S and at most P3650D")
    return period


def _short_period(text: str) -> timedelta | None:
    match = _SHORT_PERIOD.fullmatch(text)
    return match and timedelta(**{unit: int(count or 0) for unit, count in match.groupdict().items()})


def parse_moment(text: str) -> Moment:
    """Read an instant or a time of day (UTC unless it says otherwise), a duration (so long ago), or now."""
    if text == "now":
        return Moment()
    if text.startswith("P") or _SHORT_PERIOD.fullmatch(text):
        return Moment(ago=parse_period(text))
    try:
        if _OF_THE_DAY.fullmatch(text):
            return Moment(of_day=_in_utc(time.fromisoformat(text)))
        return Moment(instant=_in_utc(datetime.fromisoformat(text)))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time: give an instant such as 2026-11-20T08:15:00Z, a day such as 2026-11-20, a "
            "time of day such as 02:00 (the last one that was, in UTC), a duration ago such as 5m, 24h, "
            "7d or PT1H, or now"
        ) from None


Instant = TypeVar("Instant", datetime, time)


def _in_utc(instant: Instant) -> Instant:
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


Merchant = Annotated[
    str, typer.Argument(metavar="MERCHANT", parser=parse_merchant, help="The merchant's id.")
]
MerchantFilter = Annotated[
    str | None,
    typer.Option("--merchant", parser=parse_merchant, metavar="MERCHANT", help="Of this merchant only."),
]


def _endpoint_option(text: str) -> Any:
    return typer.Option("--endpoint", metavar="N", min=1, max=MAX_NUMBER, help=text)


FirstEndpoint = Annotated[
    int | None, _endpoint_option("Which, where the merchant has several; else number 1.")
]
LowestEndpoint = Annotated[
    int | None, _endpoint_option("Which, where the merchant has several; else that with the lowest number.")
]
ChosenEndpoint = Annotated[
    int | None, _endpoint_option("Of this endpoint alone, where the merchant has several; else of all.")
]
Since = Annotated[
    Moment | None,
    typer.Option(
        "--since",
        parser=parse_moment,
        metavar="WHEN",
        help="From then on: 5m, 24h, 7d (so long ago), 02:00 (the last one that was), 2026-11-20, "
        "2026-11-20T08:15:00Z; UTC unless said.",
    ),
]
Until = Annotated[
    Moment | None,
    typer.Option(
        "--until", parser=parse_moment, metavar="WHEN", help="Before then; the same forms as --since, or now."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
RequestedBy = Annotated[
    str | None,
    typer.Option("--requested-by", metavar="NAME", help="For the audit trail; by default cli:<user>."),
]
ShardName = Annotated[
    str | None,
    typer.Option("--shard", metavar="NAME", help="The database, where WEBHOOK_DATABASE_URL lists several."),
]
