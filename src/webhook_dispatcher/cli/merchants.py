"""`merchants`: how each fares."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from webhook_dispatcher.cli.options import AsJson, ShardName
from webhook_dispatcher.cli.output import WIDTH, endpoint_named, print_json, shown
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.cli.words import many, short
from webhook_dispatcher.domain.delivery import MAX_AHEAD
from webhook_dispatcher.domain.merchant import MerchantFacts
from webhook_dispatcher.domain.thresholds import BEHIND
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.insight import MerchantFilter, insight


def merchants(
    context: typer.Context,
    failing: Annotated[
        bool,
        typer.Option(
            "--failing", help="Of whose latest hundred attempts within a day two failed, and over a tenth."
        ),
    ] = False,
    behind: Annotated[
        bool,
        typer.Option("--behind", help="Whose oldest event waits for its first attempt for over a minute."),
    ] = False,
    paused: Annotated[bool, typer.Option("--paused", help="That are paused, each by itself.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")] = 50,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show how merchants fare: those that fail first, then those whose events wait the longest.

    A line each: since when it fails and how often in a row, its last success, how many events wait for their
    first attempt, and since when the oldest does; behind its id, how many wait for a retry. Beneath it who
    paused it, and its latest failed attempt. Of one with several endpoints all that is the worst one's, named
    behind its id, but what waits, which is of all.
    """

    async def find(database: Administration) -> list[MerchantFacts]:
        since = await database.database_time(BEHIND) if behind else None
        async with insight(database.connection) as asked:
            return await asked.merchants(MerchantFilter(failing, since, paused, limit))

    found = session_of(context, shard).work(find)
    if as_json:
        print_json(found)
        return
    for line in lines(found):
        typer.echo(line)


def lines(found: Sequence[MerchantFacts]) -> Iterator[str]:
    """Write a line for each merchant, in 80 columns unless its id takes more; beneath it, what keeps it."""
    yield f"{'failing since':<14} {'row':>4} {'last success':<14} {'waiting':>7} {'oldest':<14} merchant"
    for merchant in found:
        notes = [
            *(["paused"] if merchant.is_paused else []),
            *(
                [f"{many(merchant.waiting_for_retry, MAX_AHEAD)} for a retry"]
                if merchant.waiting_for_retry
                else []
            ),
            *([] if merchant.has_endpoint else ["no endpoint"]),
            *(
                [f"suspended {short(merchant.suspended_at)}, next try {short(merchant.next_try_at)}"]
                if merchant.suspended_at is not None
                else []
            ),
        ]
        note = f" ({', '.join(notes)})" if notes else ""
        name = endpoint_named(merchant.merchant_id, merchant.endpoint)
        yield (
            f"{short(merchant.failing_since):<14} {merchant.failures_in_a_row or '-':>4} "
            f"{short(merchant.last_success_at):<14} {many(merchant.waiting, MAX_AHEAD):>7} "
            f"{short(merchant.oldest_waiting_at):<14} {name}{note}"
        )
        yield from _beneath(merchant)


def _beneath(merchant: MerchantFacts) -> Iterator[str]:
    """Say who paused a merchant, and what came of attempts at one that fails; cut to 80 columns."""
    if merchant.paused_at is not None:
        yield cut(f"  paused since {short(merchant.paused_at)} by {shown(merchant.paused_by)}")
    if merchant.attempts_failed and merchant.failing_since is None:
        yield f"  {merchant.attempts_failed} of the latest {merchant.attempted} attempts failed"
    if merchant.failed_at is not None:
        status = f" {merchant.failed_status}" if merchant.failed_status is not None else ""
        reason = f": {shown(merchant.failed_reason)}" if merchant.failed_reason else ""
        yield cut(
            f"  latest failure {short(merchant.failed_at)} {shown(merchant.failed_outcome)}{status}{reason}"
        )


def cut(line: str) -> str:
    """Cut a line to 80 columns."""
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
