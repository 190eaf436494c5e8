"""`explain`: what became of an event, or of a charge's events; `explanation` prints it."""

import re
import textwrap
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from webhook_dispatcher.cli import explanation
from webhook_dispatcher.cli.options import AsJson, MerchantFilter, ShardName, check_known
from webhook_dispatcher.cli.output import WIDTH, print_json
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.diagnosis.explanation import Explanation, Rules, together
from webhook_dispatcher.diagnosis.explanation import explain as explained
from webhook_dispatcher.domain.command import CommandFacts
from webhook_dispatcher.domain.delivery import DeliveryFacts, EventFacts
from webhook_dispatcher.domain.errors import ConfigurationError, UnopenedSecret, UserError
from webhook_dispatcher.domain.signing import SealedSecret
from webhook_dispatcher.domain.status import LostEvent
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.insight import MAX_EVENTS, Insight, insight

if TYPE_CHECKING:
    from webhook_dispatcher.settings import Settings

_TOGETHER = re.compile(r"(?<=[0-9]) (?=(?:s|min|h|d)\b|[0-9]{2}:)")
"""Between a number and its unit, a day and its time, no line is broken."""
MAX_EXPLAINED = 5
"""Of a charge with more events, or an event with more deliveries, each has a line."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What was found under an id: deliveries explained, or what is known of an id that leads to none.

    secrets: of the endpoints whose deliveries these are.
    """

    facts: list[EventFacts]
    secrets: dict[tuple[str, int], SealedSecret | None]
    kept_since: date | None
    commands: list[CommandFacts]
    lost: LostEvent | None


def explain(
    context: typer.Context,
    event: Annotated[str, typer.Argument(metavar="EVENT|CHARGE", help="An event's id, or a charge's.")],
    merchant: MerchantFilter = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Say why an event has not arrived, or what became of it, and what can be done, in sentences.

    A charge's id stands for all its events, in order; an event's for its delivery to each endpoint. Times are
    the database's, in UTC.
    """
    session = session_of(context, shard)
    settings = session.settings()

    async def find(database: Administration) -> Explained:
        await check_known(merchant, database)
        async with insight(database.connection) as asked:
            return await _find(asked, event, merchant)

    found = session.work(find)
    if not found.facts:
        raise UserError(explanation.unknown(event, found.kept_since, found.commands, found.lost))
    told = together(
        [(facts, explained(facts, _rules(settings, found.secrets, facts))) for facts in found.facts]
    )
    if as_json:
        deliveries = [
            {
                "delivery": facts.delivery,
                "attempts": facts.attempts,
                "explanation": explanation.document(each),
            }
            for facts, each in told
        ]
        print_json(deliveries)
    else:
        _print([each for _, each in told])


async def _find(asked: Insight, subject: str, merchant: str | None) -> Explained:
    event_id = _event_id(subject)
    deliveries = [] if event_id is None else await asked.find_event(event_id)
    deliveries = [found for found in deliveries if merchant in (None, found.merchant_id)]
    kept_since, has_charge_index = await asked.kept()
    if not deliveries:
        deliveries = await _find_charge(asked, subject, merchant, has_charge_index, event_id is not None)
    commands = await asked.commands_about(event_id) if event_id is not None else []
    lost = await asked.find_lost(event_id) if event_id is not None else None
    facts = [await asked.gather(delivery) for delivery in deliveries]
    endpoints = {_endpoint_of(delivery) for delivery in deliveries}
    secrets = {each: await asked.find_secret(*each) for each in endpoints}
    return Explained(facts, secrets, kept_since, commands, lost)


async def _find_charge(
    asked: Insight, charge: str, merchant: str | None, is_indexed: bool, may_be_event: bool
) -> list[DeliveryFacts]:
    if is_indexed:
        return await asked.find_charge(charge, merchant)
    if may_be_event:
        return []
    raise UserError("charges are not indexed here (`migrate --charge-index` does it): give an event's id")


def _endpoint_of(delivery: DeliveryFacts) -> tuple[str, int]:
    return delivery.merchant_id, delivery.endpoint or 1


def _event_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _rules(
    settings: "Settings", secrets: dict[tuple[str, int], SealedSecret | None], facts: EventFacts
) -> Rules:
    secret = secrets[_endpoint_of(facts.delivery)]
    fault, unread = (None, None) if secret is None else _open(settings, facts.delivery.merchant_id, secret)
    return Rules(settings.unconfigured_hold, settings.retry_schedule, fault, unread)


def _open(settings: "Settings", merchant: str, secret: SealedSecret) -> tuple[str | None, str | None]:
    """Say why a secret does not open with our keys; and, where we have none, why nobody knows."""
    try:
        settings.keyring().open(merchant, secret)
    except ConfigurationError as error:
        return None, error.problems[0]
    except UnopenedSecret as error:
        return str(error), None
    return None, None


def _print(told: list[Explanation]) -> None:
    if len(told) > MAX_EXPLAINED:
        for each in told:
            for line in explanation.summary(each):
                typer.echo(_wrapped(line))
        what = "events" if all(each.delivery.endpoint is None for each in told) else "deliveries"
        typer.echo(f"{len(told)}{' or more' * (len(told) >= MAX_EVENTS)} {what}; explain each by its id.")
        return
    for place, each in enumerate(told):
        if place:
            typer.echo()
        for line in explanation.lines(each):
            typer.echo(_wrapped(line))


def _wrapped(line: str) -> str:
    """Break a line at 80 columns, but for what is to be typed, which is indented by four."""
    if line.startswith("    "):
        return line
    indent = "     " if line.startswith("  ") else ""
    kept = _TOGETHER.sub("\N{NO-BREAK SPACE}", line)
    filled = textwrap.fill(
        kept, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return filled.replace("\N{NO-BREAK SPACE}", " ")
