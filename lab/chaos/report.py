"""Writes a run's report: what was done to the dispatcher, what came of it, and how to do it again."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.chaos.evidence import Evidence, Phase
from lab.chaos.picture import draw
from lab.chaos.verdict import KindFigures, Verdict, Violation, What

REPORT, PICTURE = "report.md", "picture.png"
COLUMNS = (
    "seed",
    "minutes",
    "events",
    "faults",
    "kinds",
    "lost",
    "out of order",
    "repeated",
    "violations",
    "p95 before",
    "p95 meanwhile",
    "commit",
)
"""Of the table in docs/chaos/README.md."""
_MOST_LISTED = 100
"""Violations beyond these are counted, not listed."""


def write_report(verdict: Verdict, evidence: Evidence, folder: Path, notes: Mapping[str, str]) -> Path:
    """Write report.md and picture.png into a folder, which is made if need be; return the report's path.

    notes: what the run was set up with, for its table; "minutes", if there, is used to say how to repeat it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / REPORT
    report.write_text("\n".join(_lines(verdict, evidence, notes)) + "\n")
    draw(verdict, evidence, folder / PICTURE)
    return report


def summary(verdict: Verdict) -> str:
    """Say in one line what came of a run."""
    counts = verdict.counts
    return (
        f"{verdict.events:,} events, {verdict.requests:,} requests: {counts.get(What.LOST, 0)} lost, "
        f"{counts.get(What.OUT_OF_ORDER, 0)} out of order, {len(verdict.extras):,} repeated "
        f"(the faults explain up to {verdict.bound:,}); "
        + (
            "every promise kept"
            if verdict.is_clean
            else _count(len(verdict.violations), "broken promise", "broken promises")
        )
    )


def row(verdict: Verdict, evidence: Evidence, commit: str) -> str:
    """Say what came of a run as a row of the table in docs/chaos/README.md."""
    others = verdict.untouched
    return _row(
        [
            str(evidence.seed),
            f"{(evidence.ended - evidence.began) / 60:.1f}",
            f"{verdict.events:,}",
            f"{len(evidence.injections):,}",
            str(len(verdict.kinds)),
            str(verdict.counts.get(What.LOST, 0)),
            str(verdict.counts.get(What.OUT_OF_ORDER, 0)),
            f"{len(verdict.extras):,}",
            str(len(verdict.violations)),
            f"{others.quiet:.3f} s" if others else "",
            f"{others.meanwhile:.3f} s" if others else "",
            commit,
        ]
    )


def _lines(verdict: Verdict, evidence: Evidence, notes: Mapping[str, str]) -> Iterator[str]:
    yield f"# Chaos run, seed {evidence.seed}: {'passed' if verdict.is_clean else 'FAILED'}"
    yield ""
    yield f"{summary(verdict)}."
    yield ""
    yield f"![requests, lag and faults over time]({PICTURE})"
    yield ""
    yield from _totals(verdict, evidence)
    yield from _settings(evidence, notes)
    yield from _kinds(verdict)
    yield from _isolation(verdict)
    yield from _violations(verdict)
    yield from _repeat(evidence, notes)


def _totals(verdict: Verdict, evidence: Evidence) -> Iterator[str]:
    counts, lags, follow = verdict.counts, verdict.lags, verdict.follow
    failed = ", ".join(f"{number:,} {reason}" for reason, number in sorted(verdict.failed.items()))
    yield "## What came of it"
    yield ""
    yield from _table(
        ("", ""),
        [
            (
                "events committed",
                f"{verdict.events:,} of {_count(verdict.merchants, 'merchant', 'merchants')}; "
                f"{verdict.deliveries:,} deliveries at their endpoints",
            ),
            ("faults injected", f"{len(evidence.injections):,} of {len(verdict.kinds)} kinds"),
            ("requests received", f"{verdict.requests:,}"),
            ("delivered", f"{verdict.delivered:,}"),
            ("passed over by a filter", f"{verdict.unwanted:,}"),
            ("failed", f"{sum(verdict.failed.values()):,}" + (f" ({failed})" if failed else "")),
            (
                "sent, and lost by a failover",
                f"{_count(verdict.absent, 'event', 'events')}, {verdict.traced:,} of them noted; "
                f"the records of {verdict.forgotten:,} requests",
            ),
            (
                "names that moved while nothing else was done",
                f"{follow.moves:,}; {_count(follow.misled, 'request', 'requests')} came to an old address, "
                f"the last after {follow.last:.1f} s",
            ),
            ("deleted by an operator", f"{verdict.deleted:,}"),
            ("delivered, and sent once more by `recover`", f"{verdict.replayed:,}"),
            (
                "merchants suspended, requests to them meanwhile",
                f"{verdict.suspensions:,} times, {verdict.tries:,}",
            ),
            (
                "notices to the platform",
                ", ".join(f"{number:,} {kind}" for kind, number in sorted(verdict.notices.items())) or "none",
            ),
            ("**lost**", f"**{counts.get(What.LOST, 0)}**"),
            ("still owed at the end", f"{counts.get(What.STUCK, 0)}"),
            (
                "**out of order**",
                f"**{counts.get(What.OUT_OF_ORDER, 0)}** of {verdict.firsts:,} first requests",
            ),
            (
                "**repeated beyond the schedule**",
                f"**{len(verdict.extras):,}**, {verdict.repeated_share:.1%} of all requests; "
                f"{verdict.bound:,} were in flight or unrecorded when a fault hit; "
                f"{counts.get(What.UNEXPLAINED, 0)} without a fault",
            ),
            ("cut on a kept connection, and sent again at once", f"{verdict.resent:,}"),
            (
                "commit to first request",
                f"median {lags.p50:.3f} s, p95 {lags.p95:.2f} s, p99 {lags.p99:.2f} s, "
                f"worst {lags.worst:.1f} s",
            ),
        ],
    )


def _settings(evidence: Evidence, notes: Mapping[str, str]) -> Iterator[str]:
    limits = evidence.limits
    yield "## What it ran with"
    yield ""
    yield from _table(
        ("", ""),
        [
            ("seed", str(evidence.seed)),
            ("duration", f"{(evidence.ended - evidence.began) / 60:.1f} min"),
            ("lease, sweep", f"{limits.lease:g} s, {limits.sweep:g} s"),
            ("attempts, each at most", f"{limits.attempts}, {limits.attempt_timeout:g} s"),
            *notes.items(),
        ],
    )
    yield (
        f"Not judged: the end of {len(evidence.deleted):,} events whose row an operator deleted. Excused for "
        f"the whole run: {len(evidence.cancelled):,} events for which a cancel was given may end as "
        f"cancelled, and those of {len(evidence.unconfigured):,} merchants whose endpoint was removed for a "
        "time as not_configured."
    )
    yield ""


def _kinds(verdict: Verdict) -> Iterator[str]:
    yield "## Fault by fault"
    yield ""
    yield (
        "The middle columns say where the attempts stood in the daemons that were hit. *Exposed*: how many "
        "requests the fault may cost; *repeated*: how many it did, and the most at once; *of exposed*: which "
        "part that is, on average and at worst. *Recovery*: seconds from its end (or the kill) until all to "
        "whom something was owed had been served; without those after which another fault stopped everything."
    )
    yield ""
    yield from _table(
        (
            "fault",
            "times",
            *(phase.value for phase in Phase),
            "exposed",
            "repeated",
            "worst",
            "of exposed",
            "worst",
            "recovery, median",
            "recovery, worst",
        ),
        [*map(_kind, verdict.kinds), _sum(verdict.kinds)],
    )


def _kind(figures: KindFigures) -> Sequence[str]:
    return (
        figures.kind,
        str(figures.injections),
        *(_unless_none(figures.phases.get(phase, 0)) for phase in Phase),
        _unless_none(figures.exposed),
        _unless_none(figures.extras),
        _unless_none(figures.worst_extras),
        _share(figures.spent),
        _share(figures.worst_spent),
        _seconds(figures.recovery_median),
        _seconds(figures.recovery_worst),
    )


def _sum(kinds: Sequence[KindFigures]) -> Sequence[str]:
    worst = max((figures.worst_extras for figures in kinds), default=0)
    slowest = max((seconds for figures in kinds for seconds in figures.recoveries), default=None)
    exposed, extras = sum(figures.exposed for figures in kinds), sum(figures.extras for figures in kinds)
    most_spent = max((one.worst_spent for one in kinds if one.worst_spent is not None), default=None)
    return (
        "**all**",
        str(sum(figures.injections for figures in kinds)),
        *(f"{sum(figures.phases.get(phase, 0) for figures in kinds):,}" for phase in Phase),
        f"{exposed:,}",
        f"{extras:,}",
        str(worst),
        _share(extras / exposed if exposed else None),
        _share(most_spent),
        "",
        _seconds(slowest),
    )


def _isolation(verdict: Verdict) -> Iterator[str]:
    if not verdict.isolation:
        return
    yield "## What merchants that failed together cost the others"
    yield ""
    yield (
        "The wait, in seconds, that one in twenty events of all other merchants exceeded: just before, while "
        "the group accepted as much; while it failed; and the most that it may be. Nothing else was done."
    )
    yield ""
    yield from _table(
        ("fault", "before", "meanwhile", "at most"),
        [
            (one.kind, f"{one.before:.3f}", f"{one.meanwhile:.3f}", f"{one.most:.3f}")
            for one in verdict.isolation
        ],
    )
    if (untouched := verdict.untouched) is not None:
        yield (
            f"Over all {untouched.faults} together: {untouched.quiet:.3f} s before and "
            f"{untouched.meanwhile:.3f} s meanwhile, {untouched.times:.1f} times as long. 1.3 is wanted; "
            "less than half a second more cannot be told from what a busy machine does."
        )
        yield ""


def _violations(verdict: Verdict) -> Iterator[str]:
    yield "## Broken promises"
    yield ""
    if verdict.is_clean:
        yield "None."
        yield ""
        return
    for what, number in sorted(verdict.counts.items(), key=lambda entry: -entry[1]):
        yield f"- {what}: {number:,}"
    yield ""
    told = [violation for violation in verdict.violations if violation.history][:_MOST_LISTED]
    for violation in told:
        yield from _violation(violation)
    if len(told) < len(verdict.violations):
        yield f"And {len(verdict.violations) - len(told):,} more."
        yield ""


def _violation(violation: Violation) -> Iterator[str]:
    yield f"### {violation.what}: merchant {violation.merchant_id}, event {violation.event_id or '-'}"
    yield ""
    yield f"{violation.detail[:1].upper()}{violation.detail[1:]}. Times in seconds since the run's begin."
    yield ""
    yield "```text"
    yield from violation.history
    yield "```"
    yield ""


def _repeat(evidence: Evidence, notes: Mapping[str, str]) -> Iterator[str]:
    minutes = notes.get("minutes", f"{max(1, round((evidence.ended - evidence.began) / 60))}")
    yield "## How to do it again"
    yield ""
    yield "```sh"
    yield f"make chaos SEED={evidence.seed} MINUTES={minutes}"
    yield "```"
    yield ""
    yield (
        "The seed fixes which faults come in which order, what they do and how merchants behave; where each "
        "attempt stands when they hit is up to the machine."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---", *("---" if len(head) == 2 else "---:" for _ in head[1:])])
    for row in rows:
        yield _row(row)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _unless_none(number: int) -> str:
    return f"{number:,}" if number else "·"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"


def _share(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
