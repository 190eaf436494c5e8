"""Runs by turns, and what is made of them: medians, ratios, and whether they are as wanted."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Tell = Callable[[str], None]


class Unmeasurable(Exception):
    """A scenario cannot run on this machine; says what is missing."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a contestant: events a second, processor microseconds per event, and what else it shows."""

    rate: float
    worker: float | None = None
    postgres: float | None = None
    receiver: float | None = None
    shows: Mapping[str, float] = field(default_factory=dict)

    def value(self, name: str) -> float:
        """Return one of its figures by name."""
        own = {"rate": self.rate, "worker": self.worker, "postgres": self.postgres, "receiver": self.receiver}
        found = own.get(name, self.shows.get(name))
        if found is None:
            raise KeyError(name)
        return found


class Runs:
    """All runs of a scenario, by contestant."""

    def __init__(self) -> None:
        self.of: dict[str, list[Run]] = {}

    def median(self, contestant: str, name: str = "rate") -> float:
        """Return the median of one of a contestant's figures."""
        return statistics.median(run.value(name) for run in self.of[contestant])

    def ratio(self, contestant: str, name: str, rival: str, of_rival: str | None = None) -> float:
        """Return a ratio of medians."""
        return self.median(contestant, name) / self.median(rival, of_rival or name)

    def table(self) -> list[str]:
        """Return a Markdown table of medians, with the spread of the rates."""
        names = list(dict.fromkeys(name for runs in self.of.values() for run in runs for name in run.shows))
        head = ["", "events/s", "from … to", "µs worker", "µs Postgres", "µs receiver", *names, "runs"]
        lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
        for contestant, runs in self.of.items():
            rates = [run.rate for run in runs]
            cells = [contestant, _text(self.median(contestant)), f"{_text(min(rates))} … {_text(max(rates))}"]
            for name in ("worker", "postgres", "receiver", *names):
                try:
                    cells.append(_text(self.median(contestant, name)))
                except KeyError:
                    cells.append("")
            lines.append("| " + " | ".join([*cells, str(len(runs))]) + " |")
        return lines

    def as_json(self) -> dict[str, Any]:
        """Return everything."""
        return {contestant: [asdict(run) for run in runs] for contestant, runs in self.of.items()}


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value that this part of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def by_turns(rounds: int, contestants: Mapping[str, Callable[[], Run]], tell: Tell) -> Runs:
    """Let everybody run in each round, each time beginning with another one."""
    runs = Runs()
    runs.of = {contestant: [] for contestant in contestants}
    order = list(contestants)
    for number in range(rounds):
        start = number % len(order)
        for contestant in order[start:] + order[:start]:
            run = contestants[contestant]()
            runs.of[contestant].append(run)
            tell(f"  round {number + 1}: {contestant}: {_text(run.rate)}/s")
    return runs


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing to be shown: a figure, at least or at most what it should be, and between what it is."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None
    interval: tuple[float, float] | None = None

    @property
    def is_met(self) -> bool:
        """Tell whether it is as wanted."""
        return (self.least is None or self.value >= self.least) and (
            self.most is None or self.value <= self.most
        )

    @property
    def wanted(self) -> str:
        """Say what is wanted."""
        if self.least is not None:
            return f"≥ {self.least:g}"
        return "" if self.most is None else f"≤ {self.most:g}"


def spread(
    runs: Runs,
    name: str,
    contestant: str,
    shown: str,
    rival: str,
    *,
    least: float | None = None,
    most: float | None = None,
) -> Figure:
    """Give the median of the rounds' ratios, and its interval of 95 % (of fewer rounds than six: all)."""
    rounds = zip(runs.of[contestant], runs.of[rival], strict=True)
    ratios = sorted(ours.value(shown) / theirs.value(shown) for ours, theirs in rounds)
    count = len(ratios)
    # The median is below the one at this place, or above its counterpart, once in twenty times at most.
    tails = [sum(math.comb(count, heads) for heads in range(place + 1)) for place in range(count)]
    place = max(0, sum(40 * tail <= 2**count for tail in tails) - 1)
    return Figure(name, statistics.median(ratios), least, most, (ratios[place], ratios[-1 - place]))


@dataclass(frozen=True, slots=True)
class Section:
    """What a scenario showed; contestants that are off the scale of the others are not drawn."""

    title: str
    explanation: str
    runs: Runs
    figures: Sequence[Figure]
    undrawn: Sequence[str] = ()


def _text(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
