"""What there is to say of an installation's health, as data: for `status`, `check` and the console."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum

from webhook_dispatcher.diagnosis import reasons
from webhook_dispatcher.diagnosis.said import NOTHING, Capped, Fact, Said, Series, Word, said, who
from webhook_dispatcher.domain.status import (
    MAX_COUNTED,
    MAX_OWING,
    DispatcherFacts,
    Lost,
    Owing,
    Size,
    StatusFacts,
    Stranded,
    SuspendedMerchant,
)
from webhook_dispatcher.domain.thresholds import BEHIND, LONG_SILENT, SILENT

MAX_NAMED = 3
MAX_SHOWN = 5
"""Dispatchers on one screen."""
MAX_MISSING_NAMED = 10
MAX_TOLD_WAIT = timedelta(days=30)
"""A backlog that would take longer at the pace of now does not shrink, as far as anybody can tell."""
MAX_CLOCK_DIFFERENCE = timedelta(seconds=30)
KEY_CONFIRMED_EVERY = timedelta(hours=1)
"""A dispatcher that runs confirms the key it publishes more often than that."""


class Level(StrEnum):
    """How a finding is to be taken."""

    GOOD = "good"
    NOTE = "note"
    """Worth a look; the installation does what it should."""
    BAD = "bad"
    """Something keeps the installation from delivering, or will."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. subject: a word of the list `subject`. mend: what to do about it."""

    subject: str
    said: Said
    level: Level = Level.GOOD
    mend: Said | None = None

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
        *_end_of_backlog(facts),
        _oldest_event(facts),
        *_oldest_retry(facts),
        _lag(facts),
        Finding("attempts", _attempts(facts)),
        _failing(facts),
        *_suspended(facts),
        *(_kept(name, found, facts) for name, found in kinds(facts).items()),
        Finding("paused", said("merchants", count=facts.paused)),
        *_dispatchers(facts),
        _partitions(facts),
        *([of_lost(facts.lost)] if facts.lost is not None else []),
        *([Finding("sizes", _sizes(facts))] if facts.sizes else []),
        Finding("commands", _commands(facts)),
    )


def of_dispatchers(
    now: datetime, dispatchers: Sequence[DispatcherFacts], is_lane_held: bool = False
) -> tuple[Finding, ...]:
    """Say of each dispatcher whether it works; none at all is bad, and several versions are worth a note.

    is_lane_held: one works, though it may not have noted itself yet.
    """
    versions = sorted({each.version for each in dispatchers if now - each.beat_at <= SILENT})
    of_all = []
    if not versions and not is_lane_held:
        of_all = [Finding("dispatchers", said("no_dispatcher"), Level.BAD, said("start_one"))]
    elif len(versions) > 1:
        told = said("several_versions", versions=Series(tuple(versions)))
        of_all = [Finding("dispatchers", told, Level.NOTE, said("replace_older"))]
    is_served = bool(versions) or is_lane_held
    named = [each for each in dispatchers if not is_served or now - each.beat_at <= LONG_SILENT]
    return (*of_all, *(_dispatcher(now, each) for each in named))


def oldest(owing: Sequence[Owing]) -> Owing | None:
    """Return what has waited longest for its first attempt."""
    return min((owed for owed in owing if owed.is_in_order), key=lambda owed: owed.created_at, default=None)


def kinds(facts: StatusFacts) -> Mapping[str, Sequence[Owing]]:
    """Sort merchants that are owed something by what keeps it, those first whose event is the oldest."""
    owed: dict[tuple[str, int | None], Owing] = {}
    for owing in sorted(facts.owing, key=lambda owing: (not owing.is_in_order, owing.created_at)):
        owed.setdefault((owing.merchant_id, owing.endpoint), owing)
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
    return {"behind": _worst(behind), "no_endpoint": _worst(unconfigured), "held": _worst(held)}


def _worst(found: Sequence[Owing]) -> Sequence[Owing]:
    """Of each merchant's endpoints keep the first."""
    first: dict[str, Owing] = {}
    for owing in found:
        first.setdefault(owing.merchant_id, owing)
    return tuple(first.values())


def of_stranded(stranded: Stranded) -> Finding:
    """Ask whether any dispatcher runs, and say what makes us ask."""
    whose = who(stranded.merchant_id, stranded.endpoint)
    told = said("stranded", event=stranded.event_id, merchant=whose, at=stranded.created_at)
    return Finding("dispatchers", told, Level.BAD, said("start_one"))


def of_clock(ahead: timedelta, is_console: bool = False) -> Finding:
    """Say how far the clock of the machine that looks is ahead of the database's; a console signs nothing."""
    if abs(ahead) <= MAX_CLOCK_DIFFERENCE:
        return Finding("clock", said("clocks_agree"))
    seconds = f"{abs(ahead).total_seconds():.0f}"
    if is_console:
        told = said("console_ahead" if ahead > timedelta(0) else "console_behind", seconds=seconds)
    else:
        told = said("machine_ahead" if ahead > timedelta(0) else "machine_behind", seconds=seconds)
    return Finding("clock", told, Level.BAD, said("synchronise"))


def of_pause(since: Fact | None, person: str | None) -> Finding:
    """Say that everything is paused; since when and by whom, where a command did it."""
    told = (
        said("all_is_paused")
        if since is None or person is None
        else said("all_is_paused_by", at=since, person=person)
    )
    return Finding("pause", told, Level.NOTE, said("resume_all"))


def of_suspended(merchants: Sequence[SuspendedMerchant], count: int) -> Finding:
    """Say who is suspended, which is as it should be: those are named that are tried next."""
    if not merchants:
        return Finding("suspended", said("none"))
    named: list[Fact] = [
        said(
            "suspended_since",
            merchant=who(each.merchant_id, each.endpoint),
            at=each.suspended_at,
            next_at=each.next_try_at,
        )
        for each in merchants
    ]
    if count > len(named):
        named.append(said("so_many_more", more=str(count - len(named))))
    return Finding(
        "suspended", said("named", names=Series(tuple(named), "; ")), Level.NOTE, said("resume_one")
    )


def of_installation(
    name: str | None, wanted: str | None, known_server: int | None, server: int | None
) -> Finding:
    """Say whether the database is the one that is meant; another server than before is only worth a note."""
    if wanted is not None and name not in (None, wanted):
        told = said("other_installation", found=repr(name), wanted=repr(wanted))
        return Finding("installation", told, Level.BAD, said("connect_to_it", wanted=repr(wanted)))
    if name is None:
        return Finding("installation", said("no_installation"))
    if None not in (known_server, server) and known_server != server:
        told = said("has_moved", name=name, server=str(server), known=str(known_server))
        return Finding("installation", told, Level.NOTE)
    return Finding("installation", said("is_installation", name=name))


def of_missing_partitions(missing: Sequence[tuple[str, date]]) -> Finding:
    """Name the days that logs have no partitions for."""
    if not missing:
        return Finding("partitions", said("all_there"))
    days = [said("day_of", table=table, day=day) for table, day in missing[:MAX_MISSING_NAMED]]
    told = said("days_missing", number=str(len(missing)), days=Series(tuple(days)))
    return Finding("partitions", told, Level.BAD, said("partitions_are_made"))


def of_lost(lost: Lost | None) -> Finding:
    """Say what was sent and is not in the database since another server took over; it is news for a day."""
    if lost is None:
        return Finding("lost", said("none"))
    told = said(
        "events_lost",
        count=lost.events,
        merchants=said("merchants", count=lost.merchants),
        first=lost.first_sent_at,
        last=lost.last_sent_at,
        low=str(lost.first_seq),
        high=str(lost.last_seq),
        noted=lost.noted_at,
    )
    return Finding("lost", told, Level.BAD if lost.is_recent else Level.NOTE, said("compare_lost"))


def of_forbidden(merchant_id: str, reason: str, endpoint: int | None = None) -> Finding:
    """Say why a URL may not be sent to."""
    told = said("may_not_be_sent_to", merchant=who(merchant_id, endpoint), reason=reasons.read(reason))
    return Finding("endpoints", told, Level.BAD, said("set_or_allow", merchant=merchant_id))


def of_more_forbidden(more: int) -> Finding:
    """Say how many more URLs may not be sent to."""
    return Finding("endpoints", said("more_endpoints", more=str(more)), Level.BAD, said("as_above"))


def of_allowed(looked_at: int | None = None) -> Finding:
    """Say that the URLs may be sent to. looked_at: how many were looked at, where these are not all."""
    if looked_at is None:
        return Finding("endpoints", said("all_allowed"))
    return Finding("endpoints", said("first_allowed", count=looked_at))


def of_sealing_key(now: datetime, key_id: str | None, confirmed_at: datetime | None) -> Finding:
    """Say whether the console has a key to seal secrets with."""
    if key_id is None or confirmed_at is None or now - confirmed_at > KEY_CONFIRMED_EVERY:
        return Finding("sealing_key", said("no_sealing_key"), Level.NOTE, said("key_is_published"))
    return Finding("sealing_key", said("seals_by", key=key_id))


def of_charges(is_indexed: bool) -> Finding:
    """Say whether deliveries are found by their charges."""
    if is_indexed:
        return Finding("charges", said("charges_indexed"))
    return Finding("charges", said("charges_not_indexed"), Level.NOTE, said("migrate_indexes"))


def of_database(version: str, schema: int, kept: tuple[date, date] | None) -> Finding:
    """Say what the database is, and of which days it has the log."""
    if kept is None:
        return Finding("database", said("server_and_schema", version=version, schema=str(schema)))
    since, until = kept
    told = said("server_schema_log", version=version, schema=str(schema), since=since, until=until)
    return Finding("database", told)


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


def _end_of_backlog(facts: StatusFacts) -> Iterator[Finding]:
    """Say when it will be done, as it goes now: where events wait, and are not only under way."""
    found = oldest(facts.owing)
    if found is None or facts.now - found.created_at <= BEHIND:
        return
    pace = facts.pace.starting - facts.pace.arriving
    if any(found.merchant_id == merchant.merchant_id for merchant in facts.most_failing):
        yield Finding("backlog", said("backlog_waits", merchant=found.merchant_id), Level.NOTE)
    elif pace * MAX_TOLD_WAIT.total_seconds() > (pending := min(facts.pending, MAX_COUNTED)):
        wait = timedelta(seconds=pending / pace)
        yield Finding(
            "backlog",
            said("backlog_ends_later" if facts.pending > MAX_COUNTED else "backlog_ends", wait=wait),
        )
    else:
        told = said("backlog_stays", arriving=facts.pace.arriving, starting=facts.pace.starting)
        yield Finding("backlog", told, Level.NOTE)


def _oldest_retry(facts: StatusFacts) -> Iterator[Finding]:
    """Say which retry is due first; those that a pause holds are not."""
    due = [(owed.due_at, owed) for owed in facts.owing if owed.due_at is not None and not owed.is_paused]
    if not due:
        return
    due_at, found = min(due, key=lambda each: each[0])
    late = facts.now - due_at
    which: dict[str, Fact] = {"event": found.event_id, "merchant": who(found.merchant_id, found.endpoint)}
    told = (
        said("late_retry", late=late, **which)
        if late > timedelta(0)
        else said("next_retry", at=due_at, **which)
    )
    yield Finding("retries", told, Level.NOTE if late > BEHIND else Level.GOOD)


def _oldest_event(facts: StatusFacts) -> Finding:
    found = oldest(facts.owing)
    if found is None:
        return Finding("oldest", said("nothing_waits"))
    waits = facts.now - found.created_at
    whose = who(found.merchant_id, found.endpoint)
    told = said("oldest_waits", waits=waits, event=found.event_id, merchant=whose)
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
        said(
            "merchant_since", merchant=who(merchant.merchant_id, merchant.endpoint), at=merchant.failing_since
        )
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
        said(
            "merchant_waits", merchant=who(owed.merchant_id, owed.endpoint), waits=facts.now - owed.created_at
        )
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
        yield Finding("dispatchers", said("so_many_more", more=len(found) - MAX_SHOWN))
    if facts.stranded is not None and not facts.holders:
        yield of_stranded(facts.stranded)


def _noted(facts: StatusFacts) -> Sequence[Finding]:
    """Say how those fare that note themselves; that there is none is said unless somebody holds lanes."""
    # Lanes as they are held now: what was noted of them may be ten seconds old.
    held = [replace(each, lanes=facts.holders.get(each.owner, 0)) for each in facts.dispatchers]
    return of_dispatchers(facts.now, held, bool(facts.holders))


def _unnoted(facts: StatusFacts) -> Iterator[Finding]:
    """Name who holds lanes and has not noted itself: who has begun just now."""
    noted = {dispatcher.owner for dispatcher in facts.dispatchers}
    for owner, lanes in facts.holders.items():
        if owner not in noted:
            yield Finding("dispatchers", said("holds", owner=owner, count=lanes))


def _dispatcher(now: datetime, dispatcher: DispatcherFacts) -> Finding:
    if now - dispatcher.beat_at > SILENT:
        told = said("dispatcher_silent", owner=dispatcher.owner, ago=now - dispatcher.beat_at)
        return Finding("dispatchers", told, Level.NOTE)
    if not dispatcher.is_ready:
        why = _read(dispatcher.reasons) if dispatcher.reasons else "-"
        told = said("dispatcher_unready", owner=dispatcher.owner, reason=why)
        return Finding("dispatchers", told, Level.BAD, said("see_runbooks"))
    if dispatcher.faults:
        told = said("dispatcher_faulty", owner=dispatcher.owner, faults=_read(dispatcher.faults))
        return Finding("dispatchers", told, Level.BAD, said("look_at_machine"))
    told = said(
        "dispatcher_works" if dispatcher.lanes else "dispatcher_idles",
        owner=dispatcher.owner,
        version=dispatcher.version,
        since=now - dispatcher.started_at,
        count=dispatcher.lanes,
    )
    return Finding("dispatchers", told)


def _read(texts: Sequence[str]) -> Series:
    return Series(tuple(map(reasons.read, texts)), "; ")


def _partitions(facts: StatusFacts) -> Finding:
    if not facts.missing_partitions:
        return Finding("partitions", said("all_there"))
    missing = [said("table_of", table=table, day=day) for table, day in facts.missing_partitions[:MAX_NAMED]]
    return Finding("partitions", said("partitions_missing", missing=Series(tuple(missing))), Level.BAD)


def _sizes(facts: StatusFacts) -> Said:
    return said("sizes", sizes=Series(tuple(map(_size, facts.sizes)), "; "))


def _size(size: Size) -> Said:
    taken: dict[str, Fact] = {"table": size.name, "megabytes": size.bytes / 1e6}
    if size.kept_since is None:
        return said("size_of", **taken)
    return said("size_of_days", count=size.days, since=size.kept_since, **taken)


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
