"""`status`: what goes on just now, on one screen."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Annotated

import typer

from webhook_dispatcher.cli.merchants import BEHIND
from webhook_dispatcher.cli.options import AsJson, ShardName
from webhook_dispatcher.cli.output import print_json, shown
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.cli.words import at, listed, many, plural, span
from webhook_dispatcher.storage.administration import Administration, Stranded
from webhook_dispatcher.storage.insight import MAX_COUNTED, MAX_OWING, Owing, StatusFacts, insight

WINDOWS = (timedelta(minutes=5), timedelta(seconds=30))
"""Attempts of so long are counted; where those are too many, of a shorter time."""
DAYS_AHEAD = 3
MAX_NAMED = 3
MAX_HOLDERS = 5
CLEAR = "\x1b[H\x1b[2J"
INTERVAL = 2.0


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
            await session.pause(INTERVAL)

    try:
        session.work(look)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return


async def measure(database: Administration) -> StatusFacts:
    """Measure everything that is shown."""
    missing = await database.missing_partitions(DAYS_AHEAD)
    stranded = await database.find_stranded()
    for window in WINDOWS:
        async with insight(database.connection) as asked:
            facts = await asked.status(window, missing, stranded)
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
    kinds = _kinds(facts)
    return {
        "now": facts.now,
        "everything_is_paused": facts.everything_is_paused,
        "paused_by": facts.general_pause if facts.everything_is_paused else None,
        "pending": min(facts.pending, MAX_COUNTED),
        "pending_retry": min(facts.pending_retry, MAX_COUNTED),
        "is_cut": max(facts.pending, facts.pending_retry) > MAX_COUNTED,
        "oldest": _oldest(facts.owing),
        "lag": facts.lag,
        "recent_since": facts.recent_since,
        "attempts": facts.recent,
        "failing": {"merchants": facts.failing, "worst": facts.most_failing},
        "suspended": {"merchants": facts.suspended, "next_try_at": facts.next_try_at},
        **{name: {"merchants": len(found), "first": found[:MAX_NAMED]} for name, found in kinds.items()},
        "dispatchers": facts.holders,
        "stranded": facts.stranded,
        "missing_partitions": facts.missing_partitions,
        "commands": facts.commands,
    }


def lines(facts: StatusFacts) -> Iterator[tuple[str, str]]:
    """Write the screen: a name and what there is to say of it, a line each."""
    yield "now", f"{at(facts.now)} UTC"
    if facts.everything_is_paused:
        yield "PAUSED", _paused(facts)
    waiting = f"{many(facts.pending, MAX_COUNTED)} wait for their first attempt"
    yield "backlog", f"{waiting}, {many(facts.pending_retry, MAX_COUNTED)} for a retry"
    yield "oldest", _oldest_line(facts)
    yield "lag", _lag(facts)
    yield "attempts", _attempts(facts)
    yield "failing", _failing(facts)
    yield from _suspended(facts)
    for name, found in _kinds(facts).items():
        yield name.replace("_", " "), _named(found, facts.now, len(facts.owing))
    yield "paused", plural(facts.paused, "merchant")
    yield from _dispatchers(facts)
    yield "partitions", _partitions(facts)
    yield "commands", _commands(facts)


def _paused(facts: StatusFacts) -> str:
    pause = facts.general_pause
    if pause is None:
        return "everything; not by a command. `resume --all` ends it"
    return f"everything, since {at(pause.handled_at)} by {shown(pause.requested_by)}; `resume --all` ends it"


def _oldest(owing: Sequence[Owing]) -> Owing | None:
    """Return what has waited longest for its first attempt."""
    return min((owed for owed in owing if owed.is_in_order), key=lambda owed: owed.created_at, default=None)


def _oldest_line(facts: StatusFacts) -> str:
    oldest = _oldest(facts.owing)
    if oldest is None:
        return "nothing waits for its first attempt"
    waits = span(facts.now - oldest.created_at)
    return f"waits for {waits}: event {oldest.event_id} of {shown(oldest.merchant_id)}"


def _lag(facts: StatusFacts) -> str:
    lag = facts.lag
    if lag.median is None or lag.high is None:
        return "no first attempts lately"
    median, high = (f"{seconds * 1000:,.0f} ms" for seconds in (lag.median, lag.high))
    return f"{median} at the median, {high} at 95 % ({plural(lag.events, 'first attempt')})"


def _attempts(facts: StatusFacts) -> str:
    window = facts.now - facts.recent_since
    made = sum(facts.recent.values())
    if not made:
        return f"none in the last {span(window)}"
    rate = made / window.total_seconds()
    outcomes = ", ".join(f"{count:,} {shown(outcome)}" for outcome, count in facts.recent.items())
    cut = " (and more)" if made > MAX_COUNTED else ""
    return f"{rate:,.1f}/s in the last {span(window)}: {outcomes}{cut}"


def _failing(facts: StatusFacts) -> str:
    if not facts.failing:
        return "none"
    worst = [
        f"{shown(merchant.merchant_id)} since {at(merchant.failing_since)}"
        for merchant in facts.most_failing
        if merchant.failing_since is not None
    ]
    return (
        f"{plural(facts.failing, 'merchant')}, the longest: {listed(worst)}"
        if worst
        else (plural(facts.failing, "merchant"))
    )


def _suspended(facts: StatusFacts) -> Iterator[tuple[str, str]]:
    """Say how many are tried once an interval alone, where there are any."""
    if facts.suspended and facts.next_try_at is not None:
        yield "suspended", f"{plural(facts.suspended, 'merchant')}, the next try at {at(facts.next_try_at)}"


def _kinds(facts: StatusFacts) -> dict[str, list[Owing]]:
    """Sort merchants that are owed something by what keeps it, those first whose event is the oldest."""
    owed: dict[str, Owing] = {}
    for owing in sorted(facts.owing, key=lambda owing: (not owing.is_in_order, owing.created_at)):
        owed.setdefault(owing.merchant_id, owing)
    held = [owing for owing in owed.values() if owing.is_paused]
    unconfigured = [owing for owing in owed.values() if not owing.has_endpoint and not owing.is_paused]
    behind = [
        owing
        for owing in owed.values()
        if owing.has_endpoint
        and not owing.is_paused
        and owing.is_in_order
        and facts.now - owing.created_at > BEHIND
    ]
    return {"behind": behind, "no_endpoint": unconfigured, "held": held}


def _named(found: Sequence[Owing], now: datetime, owing: int) -> str:
    if not found:
        return "none"
    names = [f"{shown(owed.merchant_id)} ({span(now - owed.created_at)})" for owed in found[:MAX_NAMED]]
    further = ", …" if len(found) > MAX_NAMED else ""
    count = plural(len(found), "merchant") + (" or more" if owing >= MAX_OWING else "")
    return f"{count}: {', '.join(names)}{further}"


def _dispatchers(facts: StatusFacts) -> Iterator[tuple[str, str]]:
    if not facts.holders:
        yield "dispatchers", _nobody(facts)
    for place, (owner, lanes) in enumerate(list(facts.holders.items())[:MAX_HOLDERS]):
        yield "" if place else "dispatchers", f"{shown(owner)} holds {plural(lanes, 'lane')}"
    if len(facts.holders) > MAX_HOLDERS:
        yield "", f"and {len(facts.holders) - MAX_HOLDERS} more"


def _nobody(facts: StatusFacts) -> str:
    """Say what it means that no lane is held: nothing, or that no dispatcher runs."""
    if facts.stranded is not None:
        return said_of_stranded(facts.stranded)
    is_anything_due = any(owed.due_at is None or owed.due_at <= facts.now for owed in facts.owing)
    return "none holds a lane" if is_anything_due else "none is needed now"


def said_of_stranded(stranded: Stranded) -> str:
    """Ask whether any dispatcher runs, and say what makes us ask."""
    waits = f"{stranded.event_id} of {shown(stranded.merchant_id)} waits since {at(stranded.created_at)}"
    return f"none holds a lane, though {waits}: is any running? GET /readyz of each"


def _partitions(facts: StatusFacts) -> str:
    missing = [f"{table} of {day}" for table, day in facts.missing_partitions]
    return f"MISSING: {', '.join(missing[:MAX_NAMED])}; see `check`" if missing else "all there"


def _commands(facts: StatusFacts) -> str:
    commands = facts.commands
    if commands.pending_since is None:
        return f"none waits, {commands.running} running"
    since = span(facts.now - commands.pending_since)
    return (
        f"{plural(commands.pending, 'command')} waiting, the oldest for {since}; {commands.running} running"
    )
