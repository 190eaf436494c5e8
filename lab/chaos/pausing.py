"""Whether pauses and resumes of everything are in force in time, whatever merchants ask for (contract 3).

By the database's clock: taken up within a second, and two for a busy machine, in which no fault of daemons or
database had effects. Each waits for earlier ones, and a resume for all that operators asked for before it.
From a second after a pause until the next resume is asked for no request begins, but for tests.
"""

from collections.abc import Iterator, Sequence

from lab.chaos.cases import Cases
from lab.chaos.evidence import Command, Evidence, daemon_of
from lab.chaos.history import Historian
from lab.chaos.injections import ALLOWANCE, Injections
from lab.chaos.obedience import OBEYED_WITHIN
from lab.chaos.order import BrokenPromise
from lab.chaos.repetitions import GAP
from lab.chaos.verdict import Violation, What
from webhook_dispatcher.domain.command import CommandName

TAKEN_UP_WITHIN = 1.0


def slow(
    cases: Cases, evidence: Evidence, injections: Injections, historian: Historian
) -> Iterator[Violation]:
    """Find pauses and resumes of everything that were taken up too late."""
    commands = cases.commands.of_everything
    for command in commands:
        if command.handled_at is None:
            continue
        is_resume = command.name == CommandName.RESUME
        since = _awaited(command, evidence.commands if is_resume else commands)
        took = injections.quiet(since, command.handled_at)
        if took > TAKEN_UP_WITHIN + ALLOWANCE + injections.slowness(since, command.handled_at):
            detail = f"{command.name} of everything (command {command.id}) was taken up after {took:.1f} s"
            yield Violation(What.SLOW, "", None, detail, historian.command(command))


def _awaited(command: Command, others: Sequence[Command]) -> float:
    """Return from when on nothing was in a command's way, which waits for the earlier ones of others."""
    ends = [one.handled_at for one in others if one.is_operators and one.id < command.id]
    return max([command.given_at, *(at for at in ends if at is not None)])


def unheeded(cases: Cases, injections: Injections) -> Iterator[BrokenPromise]:
    """Find requests that began while everything was paused, but for those of daemons that a fault hit."""
    stretches = [(since + OBEYED_WITHIN, until) for since, until, _ in cases.commands.pauses]
    stretches = [(since, until) for since, until in stretches if since < until]
    if not stretches:
        return
    for case in cases:
        if case.is_test:
            continue
        for arrival in case.arrivals:
            at = arrival.started_at
            if cases.losses.forget(at):  # the resume may be lost
                continue
            since = next((since for since, until in stretches if since < at < until), None)
            if since is not None and not any(
                daemon_of(arrival) in one.daemons
                for one in injections.between(since - OBEYED_WITHIN, at, GAP)
            ):
                detail = f"a request began {at - since + OBEYED_WITHIN:.2f} s after everything was paused"
                yield BrokenPromise(What.UNHEEDED, case, detail)
                break
