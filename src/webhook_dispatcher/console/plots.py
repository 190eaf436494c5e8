"""Attempts over time as bars: where they stand, in numbers, and their SVG; the template draws the rest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from markupsafe import Markup, escape

from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.console.overview import Attempts, by_outcome

WIDTH, HEIGHT = 640, 170
LEFT, TOP, BOTTOM = 36, 8, 22
"""Margins around the bars, for the numbers on the left and the times below."""
MARKS = 6
"""About how many times are written below the bars."""


class OutcomeClass(StrEnum):
    """How attempts ended, in a few kinds: a bar shows them in this order, from its foot up."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    """The receiver answered, and not with a success."""
    UNANSWERED = "unanswered"
    """The request was sent, and there was no answer, or none in time."""
    UNREACHED = "unreached"
    """There was no connection, or no secure one."""
    UNSENT = "unsent"
    """Our own rules forbade to send it."""


CLASSES: Mapping[str, OutcomeClass] = {
    Outcome.DELIVERED: OutcomeClass.DELIVERED,
    Outcome.STATUS: OutcomeClass.REFUSED,
    Outcome.BAD_RESPONSE: OutcomeClass.REFUSED,
    Outcome.TIMEOUT: OutcomeClass.UNANSWERED,
    Outcome.DISCONNECTED: OutcomeClass.UNANSWERED,
    Outcome.DNS: OutcomeClass.UNREACHED,
    Outcome.CONNECT: OutcomeClass.UNREACHED,
    Outcome.TLS: OutcomeClass.UNREACHED,
    Outcome.BLOCKED: OutcomeClass.UNSENT,
    Outcome.UNSENDABLE: OutcomeClass.UNSENT,
}
"""An outcome that only a newer version knows counts as refused."""
_CLASSES = tuple(OutcomeClass)


class Piece(NamedTuple):
    """The attempts of one step in time that ended alike. y, height: where they are in their bar."""

    name: OutcomeClass
    attempts: int
    y: float
    height: float


class Bar(NamedTuple):
    """The attempts of one step in time."""

    at: datetime
    x: float
    width: float
    pieces: Sequence[Piece]


@dataclass(frozen=True, slots=True)
class Line:
    """A line across the plot, with the number of attempts that this height stands for."""

    y: float
    value: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A time that is written below the bars."""

    x: float
    at: datetime


@dataclass(frozen=True, slots=True)
class Plot:
    """A whole plot. sums: attempts by class, if there are any; outcomes: by outcome, the commonest first."""

    bars: Sequence[Bar]
    lines: Sequence[Line]
    marks: Sequence[Mark]
    sums: Sequence[tuple[OutcomeClass, int]]
    outcomes: Sequence[tuple[str, int]]
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def good(self) -> int:
        """Count what was delivered."""
        return dict(self.sums).get(OutcomeClass.DELIVERED, 0)

    @property
    def bad(self) -> int:
        """Count what failed."""
        return sum(attempts for _, attempts in self.sums) - self.good


def plot_of(attempts: Sequence[Attempts]) -> Plot:
    """Place the bars of attempts, of which there is one entry for each step in time."""
    top = nice_top(max((sum(each.by_outcome.values()) for each in attempts), default=0))
    scale = (HEIGHT - TOP - BOTTOM) / top
    step = (WIDTH - LEFT) / max(len(attempts), 1)
    bars = [_bar(each, LEFT + place * step, step, scale) for place, each in enumerate(attempts)]
    every = max(len(bars) // MARKS, 1)
    added = by_outcome(attempts)
    return Plot(
        bars=bars,
        lines=[
            Line(round(HEIGHT - BOTTOM - value * scale, 1), value)
            for value in (0, top // 2, top)
            if value or top
        ],
        marks=[Mark(round(bar.x + bar.width / 2, 1), bar.at) for bar in bars[every // 2 :: every]],
        sums=list(_by_class(added).items()),
        outcomes=sorted(added.items(), key=lambda item: (-item[1], item[0])),
    )


def draw(
    bars: Sequence[Bar],
    words: Mapping[OutcomeClass, str],
    clock: Callable[[datetime], str],
    number: Callable[[int], str],
) -> Markup:
    """Draw bars, each with its time and its numbers in its title.

    Written here: a page has 150 of them, and a template takes several times as long. words: of the classes.
    """
    drawn = []
    for bar in bars:
        title, rectangles = clock(bar.at), ""
        for piece in bar.pieces:
            title += f", {words[piece.name]}: {number(piece.attempts)}"
            size = f'y="{piece.y}" width="{bar.width}" height="{piece.height}"'
            rectangles += f'<rect class="{piece.name}" x="{bar.x}" {size}/>'
        if rectangles:
            drawn.append(f"<g><title>{escape(title)}</title>{rectangles}</g>")
    return Markup("".join(drawn))


def nice_top(highest: int) -> int:
    """Return the least even number of the form 2, 4, 10, 20, 40, 100 … that is not below the highest."""
    power = 1
    while True:
        for factor in (2, 4, 10):
            if factor * power >= highest:
                return factor * power
        power *= 10


def _bar(attempts: Attempts, x: float, step: float, scale: float) -> Bar:
    pieces, base = [], float(HEIGHT - BOTTOM)
    for name, count in _by_class(attempts.by_outcome).items():
        base -= count * scale
        pieces.append(Piece(name, count, round(base, 1), round(count * scale, 1)))
    return Bar(attempts.at, round(x + step * 0.1, 2), round(step * 0.8, 2), pieces)


def _by_class(outcomes: Mapping[str, int]) -> Mapping[OutcomeClass, int]:
    """Add up outcomes by their class, in the order of classes; what there is none of is left out."""
    counts = dict.fromkeys(_CLASSES, 0)
    for outcome, count in outcomes.items():
        counts[CLASSES.get(outcome, OutcomeClass.REFUSED)] += count
    return {name: count for name, count in counts.items() if count}
