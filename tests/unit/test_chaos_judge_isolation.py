"""The judge of chaos runs on isolation: who was held up by others, and what is not counted meanwhile."""

import pytest

from lab.chaos.evidence import Repeats
from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, found

BEGAN, ENDED = 20.0, 30.0
GROUP = [f"g{number}" for number in range(20)]


def served(builder: EvidenceBuilder, begin: float, end: float, wait: float, merchant: str = "h") -> None:
    """Let ten events a second of ten merchants be sent after so long."""
    for number in range(int((end - begin) * 10)):
        name = f"{merchant}-{begin:.0f}-{number}"
        committed = begin + number / 10
        builder.sent(name, committed, committed + wait, merchant=f"{merchant}{number % 10}", committing=0)


def failing(builder: EvidenceBuilder) -> None:
    """Let a group fail from BEGAN to ENDED."""
    builder.fault("colluders", BEGAN, ENDED, merchants=GROUP, repeats=Repeats.UNCOUNTED, alone_since=10.0)


@pytest.mark.parametrize(("wait", "is_held_up"), [(0.05, False), (1.1, False), (1.2, True), (5.0, True)])
def test_others_wait_no_longer_than_just_before(wait: float, is_held_up: bool) -> None:
    builder = EvidenceBuilder()
    failing(builder)
    served(builder, 10, BEGAN, 0.05)
    served(builder, BEGAN, ENDED, wait)
    assert {what for what, _ in found(builder)} == ({What.HELD_UP} if is_held_up else set())


def often(builder: EvidenceBuilder, wait: float, slowness: float = 0.0) -> None:
    """Let a group fail four times, while others wait so long, and 0.05 s just before."""
    for number in range(4):
        began = 20.0 + 25 * number
        builder.fault(
            *("colluders", began, began + 12),
            merchants=GROUP,
            repeats=Repeats.UNCOUNTED,
            alone_since=began - 10,
            slowness=slowness,
        )
        for turn in range(3):
            served(builder, began - 10, began, 0.05, merchant=f"h{turn}-{number}-")
            served(builder, began, began + 12, wait, merchant=f"h{turn}-{number}-")


@pytest.mark.parametrize(
    ("wait", "slowness", "is_held_up"), [(0.5, 0.0, False), (0.7, 0.0, True), (0.7, 0.2, False)]
)
def test_many_faults_together_show_what_one_cannot(wait: float, slowness: float, is_held_up: bool) -> None:
    builder = EvidenceBuilder()
    often(builder, wait, slowness)
    assert [what for what, _ in found(builder)] == ([What.HELD_UP] if is_held_up else [])
    untouched = judge(builder.evidence()).untouched
    assert untouched is not None
    assert (untouched.faults, untouched.events) == (4, 1200)
    assert untouched.times == pytest.approx((wait - 0.003) / 0.047)


def repeated(builder: EvidenceBuilder, failed_at: float, status: int | None, merchant: str = "m1") -> None:
    """Let an attempt fail that is not on record, and be made again; nothing hit its daemon."""
    builder.event("d", failed_at - 0.1, merchant)
    builder.request("d", failed_at, status)
    builder.attempt("d", failed_at + 2)


@pytest.mark.parametrize(
    ("failed_at", "status", "is_explained"),
    [
        *((25, 503, True), (25, None, True), (25, 200, False), (15, 503, False), (33, 503, True)),
        (40, 503, False),
    ],
)
def test_what_fails_meanwhile_may_not_count(failed_at: float, status: int | None, is_explained: bool) -> None:
    builder = EvidenceBuilder()
    failing(builder)
    repeated(builder, failed_at, status)
    assert found(builder) == ([] if is_explained else [(What.UNEXPLAINED, "d")])
