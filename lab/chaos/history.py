"""One event's history for a reader: its commit, what was sent and recorded, and the faults around it."""

from collections.abc import Iterator

from lab.chaos.cases import Case, Cases
from lab.chaos.evidence import Command, Evidence, Injection, daemon_of
from lab.chaos.injections import Injections
from webhook_dispatcher.local.arrivals import Arrival

_AROUND = 1.0
"""Seconds around an event's life in which faults are shown."""


class Historian:
    """Writes histories, with times in seconds since the run's begin."""

    def __init__(self, evidence: Evidence, cases: Cases, injections: Injections) -> None:
        self._evidence = evidence
        self._cases = cases
        self._injections = injections

    def history(self, event_id: str | None, other_id: str | None = None) -> list[str]:
        """Return what happened to an event, and to one it is compared with, in order of time."""
        told = [case for case in (self._cases.get(event_id), self._cases.get(other_id)) if case is not None]
        if not told:
            return []
        lines = [line for number, case in enumerate(told) for line in self._of(case, "AB"[number])]
        begin, end = min(at for at, _ in lines) - _AROUND, max(at for at, _ in lines) + _AROUND
        for case in told:
            given = self._cases.commands.about(case.event, begin, end)
            lines += [line for one in given for line in self._command(one)]
        lines += [(max(one.began, begin), self._fault(one)) for one in self._injections.between(begin, end)]
        names = [f"        {'AB'[number]} = {self._name(case)}" for number, case in enumerate(told)]
        return (
            names
            + [f"{self._time(at)} {text}" for at, text in sorted(lines, key=lambda line: line[0])]
            + [f"        {'AB'[number]} ended: {self._end(case)}" for number, case in enumerate(told)]
        )

    def arrival(self, arrival: Arrival) -> list[str]:
        """Return what there is to say about a request for an event that is not known."""
        return [f"{self._time(arrival.started_at)} {self._request(arrival)}"]

    def _of(self, case: Case, mark: str) -> Iterator[tuple[float, str]]:
        event = case.event
        yield event.begun_at, f"{mark} INSERT asked for"
        if event.committed_at is not None:
            yield event.committed_at, f"{mark} committed"
        for arrival in case.arrivals:
            yield arrival.started_at, f"{mark} {self._request(arrival)}"
        for arrival in case.forgotten:
            yield arrival.started_at, f"{mark} {self._request(arrival)}; a failover has lost its record"
        for row in case.attempted:
            yield (
                row.started_at,
                f"{mark} on record: attempt {row.attempt} ({row.trigger}), {row.duration:.3f} s, "
                f"{row.outcome}{'' if row.status is None else f' {row.status}'}",
            )

    def command(self, command: Command) -> list[str]:
        """Return what there is to say about a command."""
        return [f"{self._time(at)} {text}" for at, text in self._command(command)]

    def _command(self, one: Command) -> Iterator[tuple[float, str]]:
        whom = one.event_id or one.merchant_id or "everything"
        what = " ".join([one.name, whom, *sorted(one.states)])
        yield one.given_at, f"! command {one.id} given: {what}"
        if one.handled_at is not None:
            yield one.handled_at, f"! command {one.id} {one.status}"

    def _request(self, arrival: Arrival) -> str:
        answer = "no answer" if arrival.status is None else str(arrival.status)
        end = "still open" if arrival.ended_at is None else f"ended {self._time(arrival.ended_at).strip()}"
        daemon = daemon_of(arrival) or "an unnamed daemon"
        return f"request from {daemon} to {arrival.merchant_id}: {answer}, {end}"

    def _fault(self, one: Injection) -> str:
        hit = f" on {', '.join(sorted(one.daemons))}" if one.daemons else ""
        note = f" ({one.note})" if one.note else ""
        return (
            f"* fault {one.number}, {one.kind}{hit}{note}: {self._time(one.began).strip()} to "
            f"{self._time(one.ended).strip()}"
        )

    def _name(self, case: Case) -> str:
        unsure = "" if case.event.committed_at is not None else ", the answer to its COMMIT was lost"
        by_hand = f", {case.by_hand} attempts asked for by hand" if case.by_hand else ""
        deleted = ", its row was deleted" if case.event.id in self._evidence.deleted else ""
        cancelled = ", cancelled" if case.event.id in self._evidence.cancelled else ""
        return (
            f"event {case.event.id}, seq {case.event.seq}, merchant {case.merchant_id}, {case.event.type}"
            f"{unsure}{by_hand}{deleted}{cancelled}"
        )

    def _end(self, case: Case) -> str:
        if case.event.id in self._evidence.unwanted:
            return "in the log without a state"
        if case.delivery is None:
            return "no row of it is left"
        reason = f" ({case.delivery.failed_reason})" if case.delivery.failed_reason else ""
        return f"{case.delivery.state}{reason} after {case.delivery.attempts} attempts"

    def _time(self, at: float) -> str:
        return f"{at - self._evidence.began:+9.3f}"
