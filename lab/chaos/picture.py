"""Draws a run: requests per second, how long events waited, and every fault, along one axis of time."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.chaos.cases import Cases
from lab.chaos.evidence import Evidence, Injection, Repeats
from lab.chaos.verdict import Verdict, What

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BINS = 600
_LEFT = 0.17
"""Where the axes begin, as a part of the width: the names of the faults stand before it."""
_GREEN, _AMBER, _RED = "#5aa469", "#e0a030", "#c8323c"
_BLUE, _GREY, _INK, _PALE = "#2f6f9f", "#9aa3ab", "#2b2f33", "#eceff1"


def draw(verdict: Verdict, evidence: Evidence, file: Path) -> None:
    """Draw the picture as a PNG; takes seconds for a long run."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kinds = _kinds(evidence)
    heights = [3.0, 2.0, max(0.5, 0.24 * len(kinds))]
    with rc_context({"font.size": 10, "axes.edgecolor": _GREY, "text.color": _INK, "axes.labelcolor": _INK}):
        figure = Figure(figsize=(16, sum(heights) + 2.2), dpi=120)
        FigureCanvasAgg(figure)
        grid = figure.add_gridspec(3, 1, height_ratios=heights, hspace=0.06)
        requests = figure.add_subplot(grid[0])
        lags = figure.add_subplot(grid[1], sharex=requests)
        faults = figure.add_subplot(grid[2], sharex=requests)
        _draw_requests(requests, verdict, evidence)
        _draw_lags(lags, evidence)
        _draw_faults(faults, verdict, evidence, kinds)
        for axes in (requests, lags, faults):
            _tidy(axes, verdict, evidence)
        for axes in (requests, lags):
            axes.tick_params(labelbottom=False)
        faults.set_xlabel("minutes since the run's begin")
        top = 1 - 0.95 / figure.get_figheight()
        figure.subplots_adjust(left=_LEFT, right=0.9, top=top, bottom=0.95 / figure.get_figheight())
        _entitle(figure, verdict, evidence)
        # Names longer than the margin widen the picture.
        figure.savefig(file, bbox_inches="tight", pad_inches=0.25)


def _entitle(figure: "object", verdict: Verdict, evidence: Evidence) -> None:
    from matplotlib.figure import Figure

    assert isinstance(figure, Figure)
    counts = verdict.counts
    minutes = (evidence.ended - evidence.began) / 60
    height = figure.get_figheight()
    figure.text(
        _LEFT,
        1 - 0.42 / height,
        f"{counts.get(What.LOST, 0)} lost, {counts.get(What.OUT_OF_ORDER, 0)} out of order, "
        f"{len(verdict.extras):,} of {verdict.requests:,} requests repeated (bound: {verdict.bound:,})",
        fontsize=17,
        fontweight="bold",
        color=_INK if verdict.is_clean else _RED,
    )
    broken = "" if verdict.is_clean else f" · {len(verdict.violations):,} BROKEN PROMISES (red lines)"
    figure.text(
        _LEFT,
        1 - 0.72 / height,
        f"{verdict.events:,} events of {verdict.merchants:,} merchants, {len(evidence.injections):,} faults "
        f"of {len(verdict.kinds)} kinds in {minutes:.0f} minutes · seed {evidence.seed}{broken}",
        fontsize=12,
    )


def _tidy(axes: "Axes", verdict: Verdict, evidence: Evidence) -> None:
    axes.set_xlim(0, (evidence.ended - evidence.began) / 60)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", color=_PALE, linewidth=0.8, zorder=0)
    axes.set_axisbelow(True)
    for one in evidence.injections:
        if one.stops_all:
            span = (one.began - evidence.began) / 60, (one.ended - evidence.began) / 60
            axes.axvspan(*span, color=_INK, alpha=0.08, linewidth=0, zorder=0.5)
    begun = {event.id: event.begun_at for event in evidence.events}
    for at in sorted({begun[one.event_id] for one in verdict.violations if one.event_id in begun})[:200]:
        axes.axvline((at - evidence.began) / 60, color=_RED, linewidth=0.8, alpha=0.6, zorder=5)


def _bins(evidence: Evidence) -> tuple[int, float]:
    """Return how many stretches of how many seconds the run is cut into."""
    duration = max(1.0, evidence.ended - evidence.began)
    width = max(1.0, duration / _MOST_BINS)
    return int(duration / width) + 1, width


def _draw_requests(axes: "Axes", verdict: Verdict, evidence: Evidence) -> None:
    number, width = _bins(evidence)
    repeated = {(one.event_id, one.earlier) for one in verdict.extras}
    counts = {name: [0.0] * number for name in ("repeated", "delivered", "failed")}
    for arrival in evidence.arrivals:
        place = min(number - 1, max(0, int((arrival.started_at - evidence.began) / width)))
        if (arrival.event_id, arrival.started_at) in repeated:
            name = "repeated"
        else:
            is_good = arrival.status is not None and 200 <= arrival.status <= 299
            name = "delivered" if is_good else "failed"
        counts[name][place] += 1 / width
    minutes = [place * width / 60 for place in range(number)]
    labels = ("repeated because of a fault", "accepted with 2xx", "refused, or no answer")
    axes.stackplot(
        minutes, *counts.values(), labels=labels, colors=(_RED, _GREEN, _AMBER), step="post", linewidth=0
    )
    axes.set_ylabel("requests per second")
    axes.set_ylim(0, 1.18 * max(1.0, *map(sum, zip(*counts.values(), strict=True))))
    axes.legend(loc="upper left", ncols=3, frameon=True, framealpha=0.85, edgecolor="none")


def _draw_lags(axes: "Axes", evidence: Evidence) -> None:
    number, width = _bins(evidence)
    found: defaultdict[int, list[float]] = defaultdict(list)
    for case in Cases(evidence):
        committed, served = case.event.committed_at, case.served_at()
        if committed is not None and served is not None and not case.is_test:
            place = min(number - 1, max(0, int((served - evidence.began) / width)))
            found[place].append(max(0.001, served - committed))
    places = sorted(found)
    minutes = [(place + 0.5) * width / 60 for place in places]
    for seen in found.values():
        seen.sort()
    axes.plot(
        minutes, [_part(found[place], 0.99) for place in places], color=_BLUE, linewidth=1.2, label="p99"
    )
    axes.plot(
        minutes, [_part(found[place], 0.5) for place in places], color=_GREY, linewidth=1, label="median"
    )
    grace = evidence.limits.lease + evidence.limits.sweep
    axes.axhline(grace, color=_INK, linewidth=0.8, linestyle=":", label="lease + sweep")
    axes.set_yscale("log")
    axes.set_ylim(top=axes.get_ylim()[1] * 3)  # room for the key
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylabel("commit to first\nrequest, seconds")
    axes.grid(axis="y", color=_PALE, linewidth=0.8)
    axes.legend(loc="upper left", ncols=3, frameon=True, framealpha=0.85, edgecolor="none")


def _part(values: Sequence[float], part: float) -> float:
    return values[min(len(values) - 1, int(len(values) * part))]


def _kinds(evidence: Evidence) -> list[str]:
    """Return the kinds from top to bottom: those that stop everything, hit daemons, and the others."""
    rank: dict[str, int] = {}
    for one in evidence.injections:
        mine = 0 if one.stops_all else 1 if one.daemons else 2
        rank[one.kind] = min(rank.get(one.kind, 2), mine)
    return sorted(rank, key=lambda kind: (rank[kind], kind))


def _colour(one: Injection) -> str:
    if one.stops_all:
        return _INK
    return _BLUE if one.repeats is Repeats.EXPOSED else _GREY


def _draw_faults(axes: "Axes", verdict: Verdict, evidence: Evidence, kinds: Sequence[str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    row = {kind: place for place, kind in enumerate(kinds)}
    least = (evidence.ended - evidence.began) / 60 / 700  # narrower ones would not be seen
    for one in evidence.injections:
        begin, length = (one.began - evidence.began) / 60, (one.ended - one.began) / 60
        axes.barh(row[one.kind], max(least, length), left=begin, height=0.68, color=_colour(one), zorder=3)
    kind_of = {one.number: one.kind for one in evidence.injections}
    dots = [(one.earlier, row[kind_of[one.injection]]) for one in verdict.extras if one.injection in kind_of]
    axes.scatter(
        [(at - evidence.began) / 60 for at, _ in dots],
        [place for _, place in dots],
        s=9,
        color=_RED,
        zorder=4,
    )
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_ylim(len(kinds) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    for place in range(0, len(kinds), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#f6f7f8", zorder=0)
    figures = {one.kind: one for one in verdict.kinds}
    for kind, place in row.items():
        text = f"{figures[kind].injections} times"
        if figures[kind].repeats is Repeats.EXPOSED:
            text += f", {figures[kind].extras} of {figures[kind].exposed}"
        axes.annotate(text, (1.005, place), xycoords=("axes fraction", "data"), va="center", fontsize=9)
    axes.annotate(
        "injected; requests\nrepeated of exposed",
        (1.005, 1.0),
        xycoords="axes fraction",
        va="bottom",
        fontsize=9,
        color=_GREY,
    )
    keys = [
        Patch(color=_INK, label="stops everything"),
        Patch(color=_BLUE, label="may cost repeated requests"),
        Patch(color=_GREY, label="costs none"),
        Line2D([], [], color=_RED, marker="o", markersize=4, linestyle="none", label="a repeated request"),
    ]
    axes.figure.legend(handles=keys, loc="lower center", ncols=4, frameon=False)
