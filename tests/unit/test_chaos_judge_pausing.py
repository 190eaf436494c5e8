"""The judge of chaos runs on pauses of everything: taken up in time, and heeded."""

import pytest

from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, found


@pytest.fixture
def builder() -> EvidenceBuilder:
    return EvidenceBuilder()


def paused(builder: EvidenceBuilder, took: float = 0.2, resumed_at: float = 14.0) -> None:
    """Pause everything at 10."""
    builder.command("pause", 10, took)
    builder.command("resume", resumed_at, 0.2)


@pytest.mark.parametrize("name", ["pause", "resume"])
@pytest.mark.parametrize(("took", "is_slow"), [(2.9, False), (3.1, True)])
def test_a_brake_is_taken_up_in_time(builder: EvidenceBuilder, name: str, took: float, is_slow: bool) -> None:
    builder.command(name, 10, took)
    assert found(builder) == ([(What.SLOW, None)] if is_slow else [])


@pytest.mark.parametrize(
    ("at", "is_heeded"), [(9.9, True), (11.6, True), (11.8, False), (13.9, False), (14.1, True)]
)
def test_nothing_is_sent_while_all_is_paused(builder: EvidenceBuilder, at: float, is_heeded: bool) -> None:
    paused(builder)
    builder.sent("d", at - 0.1, at)
    assert found(builder) == ([] if is_heeded else [(What.UNHEEDED, "d")])
