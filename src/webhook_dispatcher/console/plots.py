"""Attempts over time as bars for a template to draw: numbers alone, no SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.console.overview import Attempts

WIDTH, HEIGHT = 640, 170
LEFT, TOP, BOTTOM = 36, 8, 22
MARKS = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """The attempts of a while: those delivered below, those that failed above them."""

    at: datetime
    good: int
    bad: int
    x: float
    width: float
    good_y: float
    good_height: float
    bad_y: float
    bad_height: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line to read heights by."""

    y: float
    value: int


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant below the bars."""

    x: float
    at: datetime


@dataclass(frozen=True, slots=True)
class Plot:
    """A whole plot. good, bad: all of it; outcomes: those that failed, by how, the commonest first."""

    bars: Sequence[Bar]
    lines: Sequence[Line]
    marks: Sequence[Mark]
    good: int
    bad: int
    outcomes: Sequence[tuple[str, int]]
    width: int = WIDTH
    height: int = HEIGHT


def plot_of(attempts: Sequence[Attempts]) -> Plot:
    """Draw attempts, of which there is one entry for each while."""
    sums = [(each.at, *_parted(each)) for each in attempts]
    top = nice_top(max((good + bad for _, good, bad in sums), default=0))
    scale = (HEIGHT - TOP - BOTTOM) / top
    step = (WIDTH - LEFT) / max(len(sums), 1)
    bars = [
        _bar(at, good, bad, LEFT + place * step, step, scale) for place, (at, good, bad) in enumerate(sums)
    ]
    every = max(len(bars) // MARKS, 1)
    return Plot(
        bars=bars,
        lines=[
            Line(round(HEIGHT - BOTTOM - value * scale, 1), value)
            for value in (0, top // 2, top)
            if value or top
        ],
        marks=[Mark(round(bar.x + bar.width / 2, 1), bar.at) for bar in bars[every // 2 :: every]],
        good=sum(good for _, good, _ in sums),
        bad=sum(bad for _, _, bad in sums),
        outcomes=_failed(attempts),
    )


def nice_top(highest: int) -> int:
    """Return the least even number of the form 2, 4, 10, 20, 40, 100 … that is not below the highest."""
    power = 1
    while True:
        for factor in (2, 4, 10):
            if factor * power >= highest:
                return factor * power
        power *= 10


def _bar(at: datetime, good: int, bad: int, x: float, step: float, scale: float) -> Bar:
    base, good_height, bad_height = HEIGHT - BOTTOM, good * scale, bad * scale
    return Bar(
        at=at,
        good=good,
        bad=bad,
        x=round(x + step * 0.1, 2),
        width=round(step * 0.8, 2),
        good_y=round(base - good_height, 1),
        good_height=round(good_height, 1),
        bad_y=round(base - good_height - bad_height, 1),
        bad_height=round(bad_height, 1),
    )


def _parted(attempts: Attempts) -> tuple[int, int]:
    good = attempts.by_outcome.get(Outcome.DELIVERED, 0)
    return good, sum(attempts.by_outcome.values()) - good


def _failed(attempts: Sequence[Attempts]) -> Sequence[tuple[str, int]]:
    added: dict[str, int] = {}
    for each in attempts:
        for outcome, count in each.by_outcome.items():
            if outcome != Outcome.DELIVERED:
                added[outcome] = added.get(outcome, 0) + count
    return sorted(added.items(), key=lambda item: (-item[1], item[0]))
