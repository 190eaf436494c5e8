"""`status`: what goes on just now, on one screen."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, timedelta
from typing import Annotated

import typer

from webhook_dispatcher.cli.options import AsJson, ShardName
from webhook_dispatcher.cli.output import print_json
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.cli.words import at
from webhook_dispatcher.diagnosis import vocabulary
from webhook_dispatcher.diagnosis.findings import MAX_NAMED, Finding, kinds, of_status, oldest
from webhook_dispatcher.domain.status import MAX_COUNTED, StatusFacts
from webhook_dispatcher.domain.thresholds import DAYS_AHEAD
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.insight import insight

WINDOWS = (timedelta(minutes=5), timedelta(seconds=30), timedelta(seconds=5))
"""Attempts of so long are counted; where those are too many, so that some would be left out, of less."""
CLEAR = "\x1b[H\x1b[2J"
WATCH_INTERVAL_SECONDS = 2.0


def status(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")
    ] = False,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show what goes on now: backlog, lag, attempts, merchants that fail or wait, who works; one screen.

    Counts go up to 100,000. Times are the database's, in UTC.
    """
    session = session_of(context, shard)
    if not watch:
        _show(session.work(measure), as_json)
        return

    async def look(database: Administration) -> None:
        while True:
            facts = await measure(database)
            if not as_json:
                typer.echo(CLEAR, nl=False)
            _show(facts, as_json)
            await session.pause(WATCH_INTERVAL_SECONDS)

    try:
        session.work(look)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return


async def measure(database: Administration) -> StatusFacts:
    """Measure everything that is shown."""
    missing = await database.missing_partitions(DAYS_AHEAD)
    stranded, dispatchers = await database.find_stranded(), await database.list_dispatchers()
    for window in WINDOWS:
        async with insight(database.connection) as asked:
            facts = await asked.status(window, missing, stranded, dispatchers)
        if sum(facts.recent.values()) <= MAX_COUNTED:
            break
    return facts


def _show(facts: StatusFacts, as_json: bool) -> None:
    if as_json:
        print_json(_document(facts))
        return
    for name, text in lines(facts):
        typer.echo(f"{name:<12} {text}")


def _document(facts: StatusFacts) -> dict[str, object]:
    """Give programs what people are shown; of merchants that are owed something the first of each kind."""
    return {
        "now": facts.now,
        "everything_is_paused": facts.everything_is_paused,
        "paused_by": facts.general_pause if facts.everything_is_paused else None,
        "pending": min(facts.pending, MAX_COUNTED),
        "pending_retry": min(facts.pending_retry, MAX_COUNTED),
        "is_cut": max(facts.pending, facts.pending_retry) > MAX_COUNTED,
        "oldest": oldest(facts.owing),
        "pace": facts.pace,
        "lag": facts.lag,
        "recent_since": facts.recent_since,
        "attempts": facts.recent,
        "failing": {"merchants": facts.failing, "worst": facts.most_failing},
        "suspended": {"merchants": facts.suspended, "next_try_at": facts.next_try_at},
        **{
            name: {"merchants": len(found), "first": found[:MAX_NAMED]}
            for name, found in kinds(facts).items()
        },
        "dispatchers": facts.holders,
        "heartbeats": facts.dispatchers,
        "stranded": facts.stranded,
        "missing_partitions": facts.missing_partitions,
        "sizes": facts.sizes,
        "lost": facts.lost,
        "commands": facts.commands,
    }


def lines(facts: StatusFacts) -> Iterator[tuple[str, str]]:
    """Write the screen: a name and what there is to say of it, a line each."""
    yield "now", f"{at(facts.now)} UTC"
    before = ""
    for finding in of_status(facts):
        name = "PAUSED" if finding.subject == "everything" else finding.subject.replace("_", " ")
        text = vocabulary.say(finding.said, "en", UTC)
        yield "" if name == before else name, text + _remedy(finding, facts)
        before = name


def _remedy(finding: Finding, facts: StatusFacts) -> str:
    if finding.subject != "everything":
        return ""
    return f"{'.' if facts.general_pause is None else ';'} `resume --all` ends it"
