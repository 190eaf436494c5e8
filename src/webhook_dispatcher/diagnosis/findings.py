"""What there is to say of an installation's health, as data: for `status`, and for the console."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from webhook_dispatcher.diagnosis.said import NOTHING, Capped, Said, Series, Word, said
from webhook_dispatcher.domain.thresholds import BEHIND, SILENT
from webhook_dispatcher.storage.administration import DispatcherFacts, Stranded
from webhook_dispatcher.storage.insight import MAX_COUNTED, MAX_OWING, Owing, StatusFacts

MAX_NAMED = 3
MAX_SHOWN = 5
"""Dispatchers on one screen."""


class Level(StrEnum):
    """How a finding is to be taken."""

    GOOD = "good"
    NOTE = "note"
    """Worth a look; the installation does what it should."""
    BAD = "bad"
    """Something keeps the installation from delivering, or will."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. subject: a word of the list `subject`."""

    subject: str
    said: Said
    level: Level = Level.GOOD

    @property
    def label(self) -> Word:
        """Return what was looked at, for `vocabulary.label`."""
        return Word("subject", self.subject)


def of_status(facts: StatusFacts) -> tuple[Finding, ...]:
    """Say what goes on now, in the order of the screen."""
    return (
        *_paused(facts),
        Finding(
            "backlog",
            said(
                "backlog",
                pending=Capped(facts.pending, MAX_COUNTED),
                retries=Capped(facts.pending_retry, MAX_COUNTED),
            ),
        ),
        _oldest_event(facts),
        _lag(facts),
        Finding("attempts", _attempts(facts)),
        _failing(facts),
        *_suspended(facts),
        *(_kept(name, found, facts) for name, found in kinds(facts).items()),
        Finding("paused", said("merchants", count=facts.paused)),
        *_dispatchers(facts),
        _partitions(facts),
        Finding("commands", _commands(facts)),
    )


def of_dispatchers(now: datetime, dispatchers: Sequence[DispatcherFacts]) -> tuple[Finding, ...]:
    """Say of each dispatcher whether it works; none at all is bad."""
    if not any(now - each.beat_at <= SILENT for each in dispatchers):
        nobody = Finding("dispatchers", said("no_dispatcher"), Level.BAD)
        return (nobody, *(_dispatcher(now, each) for each in dispatchers))
    return tuple(_dispatcher(now, each) for each in dispatchers)


def oldest(owing: Sequence[Owing]) -> Owing | None:
    """Return what has waited longest for its first attempt."""
    return min((owed for owed in owing if owed.is_in_order), key=lambda owed: owed.created_at, default=None)


def kinds(facts: StatusFacts) -> Mapping[str, Sequence[Owing]]:
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


def of_stranded(stranded: Stranded) -> Said:
    """Ask whether any dispatcher runs, and say what makes us ask."""
    return said("stranded", event=stranded.event_id, merchant=stranded.merchant_id, at=stranded.created_at)


def _paused(facts: StatusFacts) -> Iterator[Finding]:
    if not facts.everything_is_paused:
        return
    pause = facts.general_pause
    told = (
        said("everything_paused")
        if pause is None
        else said("everything_paused_by", at=pause.handled_at, person=pause.requested_by)
    )
    yield Finding("everything", told, Level.NOTE)


def _oldest_event(facts: StatusFacts) -> Finding:
    found = oldest(facts.owing)
    if found is None:
        return Finding("oldest", said("nothing_waits"))
    waits = facts.now - found.created_at
    told = said("oldest_waits", waits=waits, event=found.event_id, merchant=found.merchant_id)
    return Finding("oldest", told, Level.NOTE if waits > BEHIND else Level.GOOD)


def _lag(facts: StatusFacts) -> Finding:
    lag = facts.lag
    if lag.median is None or lag.high is None:
        return Finding("lag", said("no_lag"))
    median, high = (round(seconds * 1000) for seconds in (lag.median, lag.high))
    return Finding("lag", said("lag", median=median, high=high, count=lag.events))


def _attempts(facts: StatusFacts) -> Said:
    window = facts.now - facts.recent_since
    made = sum(facts.recent.values())
    if not made:
        return said("no_attempts", window=window)
    outcomes = [
        said("count_of", count=count, outcome=Word("outcome", outcome, is_code=True))
        for outcome, count in facts.recent.items()
    ]
    return said(
        "attempts_made",
        rate=made / window.total_seconds(),
        window=window,
        outcomes=Series(tuple(outcomes)),
        more=said("and_more") if made > MAX_COUNTED else NOTHING,
    )


def _failing(facts: StatusFacts) -> Finding:
    if not facts.failing:
        return Finding("failing", said("none"))
    worst = tuple(
        said("merchant_since", merchant=merchant.merchant_id, at=merchant.failing_since)
        for merchant in facts.most_failing
        if merchant.failing_since is not None
    )
    told = (
        said("merchants_failing", count=facts.failing, worst=worst)
        if worst
        else said("merchants", count=facts.failing)
    )
    return Finding("failing", told, Level.NOTE)


def _suspended(facts: StatusFacts) -> Iterator[Finding]:
    """Say how many are tried once an interval alone, where there are any."""
    if facts.suspended and facts.next_try_at is not None:
        told = said("merchants_suspended", count=facts.suspended, at=facts.next_try_at)
        yield Finding("suspended", told, Level.NOTE)


def _kept(name: str, found: Sequence[Owing], facts: StatusFacts) -> Finding:
    if not found:
        return Finding(name, said("none"))
    names = [
        said("merchant_waits", merchant=owed.merchant_id, waits=facts.now - owed.created_at)
        for owed in found[:MAX_NAMED]
    ]
    told = said(
        "merchants_named_or_more" if len(facts.owing) >= MAX_OWING else "merchants_named",
        count=len(found),
        names=Series(tuple(names)),
        further=said("and_further") if len(found) > MAX_NAMED else NOTHING,
    )
    return Finding(name, told, Level.NOTE)


def _dispatchers(facts: StatusFacts) -> Iterator[Finding]:
    """Say how each fares, those first that do not work; and what waits though nobody holds a lane."""
    found = [*_noted(facts), *_unnoted(facts)]
    found.sort(key=lambda finding: finding.level is not Level.BAD)
    yield from found[:MAX_SHOWN]
    if len(found) > MAX_SHOWN:
        yield Finding("dispatchers", said("more_dispatchers", more=len(found) - MAX_SHOWN))
    if facts.stranded is not None and not facts.holders:
        yield Finding("dispatchers", of_stranded(facts.stranded), Level.BAD)


def _noted(facts: StatusFacts) -> Sequence[Finding]:
    """Say how those fare that note themselves; that there is none is said unless somebody holds lanes."""
    if facts.holders and not facts.dispatchers:
        return ()
    # Lanes as they are held now: what was noted of them may be ten seconds old.
    held = [replace(each, lanes=facts.holders.get(each.owner, 0)) for each in facts.dispatchers]
    return of_dispatchers(facts.now, held)


def _unnoted(facts: StatusFacts) -> Iterator[Finding]:
    """Name who holds lanes and has not noted itself: of a version before schema 8, or begun just now."""
    noted = {dispatcher.owner for dispatcher in facts.dispatchers}
    for owner, lanes in facts.holders.items():
        if owner not in noted:
            yield Finding("dispatchers", said("holds", owner=owner, count=lanes))


def _dispatcher(now: datetime, dispatcher: DispatcherFacts) -> Finding:
    if now - dispatcher.beat_at > SILENT:
        told = said("dispatcher_silent", owner=dispatcher.owner, ago=now - dispatcher.beat_at)
        return Finding("dispatchers", told, Level.NOTE)
    if not dispatcher.is_ready:
        told = said("dispatcher_unready", owner=dispatcher.owner, reason=dispatcher.reason or "-")
        return Finding("dispatchers", told, Level.BAD)
    if dispatcher.faults:
        told = said("dispatcher_faulty", owner=dispatcher.owner, faults=Series(tuple(dispatcher.faults)))
        return Finding("dispatchers", told, Level.BAD)
    told = said(
        "dispatcher_works",
        owner=dispatcher.owner,
        version=dispatcher.version,
        since=now - dispatcher.started_at,
        count=dispatcher.lanes,
    )
    return Finding("dispatchers", told)


def _partitions(facts: StatusFacts) -> Finding:
    if not facts.missing_partitions:
        return Finding("partitions", said("all_there"))
    missing = [said("table_of", table=table, day=day) for table, day in facts.missing_partitions[:MAX_NAMED]]
    return Finding("partitions", said("partitions_missing", missing=Series(tuple(missing))), Level.BAD)


def _commands(facts: StatusFacts) -> Said:
    commands = facts.commands
    if commands.pending_since is None:
        return said("no_command_waits", running=str(commands.running))
    return said(
        "commands_wait",
        count=commands.pending,
        wait=facts.now - commands.pending_since,
        running=str(commands.running),
    )
