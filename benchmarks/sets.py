"""How much is measured, and beside what: what every scenario gets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contest import Figure, Run, Runs, Tell, spread
from benchmarks.rig import Rig


@dataclass(frozen=True, slots=True)
class Bench:
    """rounds: alternating runs. scale: the part of a scenario's events that are used.

    before: the interpreter of another checkout's virtual environment, whose programs are measured as well.
    """

    rig: Rig
    ca_file: Path
    rounds: int
    scale: float
    tell: Tell
    before: Path | None = None

    def events(self, number: int) -> int:
        """Return how many events stand for so many."""
        return max(1, round(number * self.scale))

    def beside_before(self, contestants: Mapping[str, Callable[[], Run]]) -> dict[str, Callable[[], Run]]:
        """Add each contestant once more, with the programs of the other checkout if there is one."""
        before = self.before
        if before is None:
            return dict(contestants)

        def run_before(run: Callable[[], Run]) -> Run:
            with self.rig.another_checkout(before):
                return run()

        both: dict[str, Callable[[], Run]] = {}
        for name, run in contestants.items():
            both[name] = run
            both[in_the_past(name)] = lambda run=run: run_before(run)  # type: ignore[misc]
        return both


def in_the_past(contestant: str) -> str:
    """Name a contestant as it runs in the other checkout."""
    return f"{contestant}, before"


def beside_the_past(runs: Runs, prefix: str, shown: Mapping[str, Sequence[str]]) -> list[Figure]:
    """Compare each contestant with itself in the other checkout; shown: in what."""
    return [
        spread(runs, f"{prefix}{contestant}: {name} ÷ before", contestant, name, in_the_past(contestant))
        for contestant, names in shown.items()
        for name in names
    ]
