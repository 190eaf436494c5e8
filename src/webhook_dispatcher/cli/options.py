"""Arguments and options that several commands share, and how their text is read."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from webhook_dispatcher.domain.duration import parse_duration
from webhook_dispatcher.storage.administration import Administration

MAX_MERCHANT_CHARACTERS = 128


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as asked for: an instant, or so long ago by the database's clock."""

    instant: datetime | None = None
    ago: timedelta | None = None

    async def resolve(self, database: Administration) -> datetime:
        """Return the instant that is meant."""
        return self.instant or await database.database_time(self.ago or timedelta(0))


async def resolved(moment: Moment | None, database: Administration) -> datetime | None:
    """Return the instant that is meant, if one is."""
    return await moment.resolve(database) if moment else None


def parse_merchant(text: str) -> str:
    """Read a merchant id. Source: contract 3, `merchant_id`."""
    if not 1 <= len(text) <= MAX_MERCHANT_CHARACTERS or not text.isprintable():
        raise typer.BadParameter(f"a merchant id has 1 to {MAX_MERCHANT_CHARACTERS} printable characters")
    return text


def parse_period(text: str) -> timedelta:
    """Read a positive duration."""
    try:
        period = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not timedelta(0) < period <= timedelta(days=3650):
        raise typer.BadParameter("must be longer than PT0S and at most P3650D")
    return period


def parse_moment(text: str) -> Moment:
    """Read an instant (UTC unless it says otherwise), or a duration that means so long ago."""
    if text.startswith("P"):
        return Moment(ago=parse_period(text))
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither an instant such as 2026-11-20T08:15:00Z nor a duration ago such as PT1H"
        ) from None
    return Moment(instant=instant if instant.tzinfo else instant.replace(tzinfo=UTC))


Merchant = Annotated[
    str, typer.Argument(metavar="MERCHANT", parser=parse_merchant, help="The merchant's id.")
]
MerchantFilter = Annotated[
    str | None,
    typer.Option("--merchant", parser=parse_merchant, metavar="MERCHANT", help="Of this merchant only."),
]
Since = Annotated[
    Moment | None,
    typer.Option(
        "--since",
        parser=parse_moment,
        metavar="WHEN",
        help="From 2026-11-20T08:15:00Z on, or from PT1H ago on.",
    ),
]
Until = Annotated[
    Moment | None, typer.Option("--until", parser=parse_moment, metavar="WHEN", help="Before that instant.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
ShardName = Annotated[
    str | None,
    typer.Option("--shard", metavar="NAME", help="The database, where WEBHOOK_DATABASE_URL lists several."),
]
