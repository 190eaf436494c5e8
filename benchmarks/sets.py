"""How much is measured: what every scenario gets."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.contest import Tell
from benchmarks.rig import Rig


@dataclass(frozen=True, slots=True)
class Bench:
    """rounds: alternating runs. scale: the part of a scenario's events that are used."""

    rig: Rig
    ca_file: Path
    rounds: int
    scale: float
    tell: Tell

    def events(self, number: int) -> int:
        """Return how many events stand for so many."""
        return max(1, round(number * self.scale))
