"""What operators asked for: which commands may have had a part in what became of a delivery.

A command that was rejected, or withdrawn in time, accounts for nothing. Each recover accounts for one attempt
of a delivery at most: what finishes after it was given is not taken again.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import inf

from lab.chaos.evidence import Attempted, Command, Delivery, Event
from lab.chaos.labels import merchant_of
from lab.chaos.matching import match
from webhook_dispatcher.domain.command import CommandName, CommandStatus
from webhook_dispatcher.domain.event import FailedReason, State, Trigger

CLOCK_ERROR = 1.5
"""Seconds by which an attempt's start may be off: estimated from slow answers of the database (clock.py)."""
UNDELIVERED = frozenset((State.FAILED, State.PENDING_RETRY, FailedReason.SKIPPED))
_BRAKES = (CommandName.PAUSE, CommandName.RESUME)
_TAKEN_UP = (CommandStatus.DONE, CommandStatus.RUNNING)


class Commands:
    """Those that were carried out, by what they were about."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self._by_id = {command.id: command for command in commands}
        taken_up = [command for command in commands if command.status in _TAKEN_UP]
        self.recovers = [command for command in taken_up if command.name == CommandName.RECOVER]
        self._skips = [command for command in taken_up if command.name == CommandName.SKIP]
        self.of_everything = [one for one in commands if one.name in _BRAKES and one.merchant_id is None]
        self._of_event: defaultdict[str | None, list[Command]] = defaultdict(list)
        self._of_merchant: defaultdict[str | None, list[Command]] = defaultdict(list)
        for command in sorted(commands, key=lambda command: command.given_at):
            if command.event_id is not None:
                self._of_event[command.event_id].append(command)
            else:
                self._of_merchant[command.merchant_id].append(command)

    @property
    def pauses(self) -> list[tuple[float, float, float]]:
        """Return when everything was paused: since when, until a resume was asked for, until it was done."""
        done = [one for one in self.of_everything if one.status == CommandStatus.DONE]
        found = []
        for place, pause in enumerate(done):
            if pause.name == CommandName.PAUSE and pause.handled_at is not None:
                resume = next((one for one in done[place:] if one.name == CommandName.RESUME), None)
                if resume is None or resume.handled_at is None:
                    found.append((pause.handled_at, inf, inf))
                else:
                    found.append((pause.handled_at, resume.given_at, resume.handled_at))
        return found

    def cancels(self, event: Event) -> list[Command]:
        """Return those that cancelled this event."""
        return self._done(event, CommandName.CANCEL)

    def retries(self, event: Event) -> list[Command]:
        """Return those that asked for one attempt of this event."""
        return self._done(event, CommandName.RETRY)

    def _done(self, event: Event, name: str) -> list[Command]:
        known = [one for event_id in {event.id, event.own_id} for one in self._of_event.get(event_id, ())]
        return [one for one in known if one.name == name and one.status == CommandStatus.DONE]

    def skips_of(self, merchant_id: str) -> list[Command]:
        """Return those that skipped something of a merchant."""
        return [one for one in self._skips if concerns(one, merchant_id)]

    def skipping(self, merchant_id: str, delivery: Delivery) -> list[Command]:
        """Return those that may have skipped a delivery just when it ended."""
        return [
            one
            for one in self.skips_of(merchant_id)
            if delivery.created_at < one.before and _was_under_way(one, delivery.finished_at)
        ]

    def reopened_from(self, event: Event) -> float:
        """Return when at the earliest an event may have been sent by hand for the first time: inf for never.

        It had been skipped or cancelled before its turn, and a recover or a retry put it back.
        """
        skips = [one for one in self.skips_of(event.merchant_id) if one.before > event.begun_at - CLOCK_ERROR]
        given_up = _first_after(event.begun_at, [*skips, *self.cancels(event)])
        recovers = [
            one
            for one in self.recovers
            if concerns(one, event.merchant_id) and not UNDELIVERED.isdisjoint(one.states)
        ]
        return _first_after(given_up, [*recovers, *self.retries(event)])

    def recovered(self, event: Event, attempted: Sequence[Attempted]) -> Counter[str]:
        """Count, by trigger, the attempts of a delivery that recovers account for; replays come first."""
        firsts: dict[int, Attempted] = {}
        for row in sorted(attempted, key=lambda row: row.started_at):
            if row.trigger != Trigger.SCHEDULE:
                firsts.setdefault(row.attempt, row)
        if not firsts:
            return Counter()
        recovers = [one for one in self.recovers if concerns(one, event.merchant_id)]
        given_up = [*self.cancels(event), *self.skips_of(event.merchant_id)]
        reachable = {
            number: [place for place, one in enumerate(recovers) if _asks_for(one, row, attempted, given_up)]
            for number, row in firsts.items()
        }
        numbers = sorted(firsts, key=lambda number: firsts[number].trigger != Trigger.REPLAY)
        found: dict[int, int] = {}
        match(numbers, reachable, found)
        return Counter(firsts[number].trigger for number in found)

    def about(self, event: Event, begin: float, end: float) -> Iterator[Command]:
        """Return those that were given between two moments about an event, its merchant, or all."""
        of_event = map(self._of_event.get, {event.id, event.own_id})
        for known in (*of_event, *map(self._of_merchant.get, (merchant_of(event.merchant_id), None))):
            given = known or ()
            lowest = bisect_left(given, begin, key=lambda one: one.given_at)
            yield from given[lowest : bisect_right(given, end, key=lambda one: one.given_at)]


def concerns(command: Command, merchant_id: str) -> bool:
    """Tell whether a command is about a merchant, or all."""
    return command.merchant_id in (None, merchant_of(merchant_id))


def _first_after(begin: float, commands: Sequence[Command]) -> float:
    return min((one.given_at for one in commands if one.given_at >= begin), default=float("inf"))


def _was_under_way(command: Command, at: float | None) -> bool:
    ends = float("inf") if command.handled_at is None else command.handled_at
    return at is None or command.given_at <= at <= ends


def _asks_for(
    recover: Command, row: Attempted, attempted: Sequence[Attempted], given_up: Sequence[Command]
) -> bool:
    """Tell whether a recover may be what an attempt was made for.

    What was given up in flight and then delivered has finished when it was given up.
    """
    if row.started_at < recover.given_at - CLOCK_ERROR:
        return False
    if row.trigger == Trigger.MANUAL:
        return not UNDELIVERED.isdisjoint(recover.states)
    delivered = [
        other.started_at + other.duration
        for other in attempted
        if other.started_at < row.started_at
        and (other.outcome == State.DELIVERED or other.trigger != Trigger.SCHEDULE)
    ]
    spans = [(at, at) for at in delivered]
    if delivered:
        spans += [(one.given_at, inf if one.handled_at is None else one.handled_at) for one in given_up]
    latest = min(recover.until, recover.given_at) + CLOCK_ERROR
    return State.DELIVERED in recover.states and any(
        recover.since - CLOCK_ERROR <= end and begin <= latest for begin, end in spans
    )
