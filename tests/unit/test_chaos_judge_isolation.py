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
        name = f"{merchant}-{begin}-{number}"
        committed = begin + number / 10
        builder.event(name, committed, f"{merchant}{number % 10}", took=0)
        builder.attempt(name, committed + wait)


def failing(
    builder: EvidenceBuilder,
    alone_since: float | None = 10.0,
    slowness: float = 0.0,
    repeats: Repeats = Repeats.UNCOUNTED,
) -> None:
    """Let a group fail from BEGAN to ENDED."""
    builder.fault(
        "colluders",
        BEGAN,
        ENDED,
        merchants=GROUP,
        repeats=repeats,
        alone_since=alone_since,
        slowness=slowness,
    )


@pytest.mark.parametrize(("wait", "is_held_up"), [(0.05, False), (1.1, False), (1.2, True), (5.0, True)])
def test_others_wait_no_longer_than_just_before(wait: float, is_held_up: bool) -> None:
    builder = EvidenceBuilder()
    failing(builder)
    served(builder, 10, BEGAN, 0.05)
    served(builder, BEGAN, ENDED, wait)
    assert {what for what, _ in found(builder)} == ({What.HELD_UP} if is_held_up else set())


def test_what_suspended_merchants_wait_for_is_not_the_groups_doing() -> None:
    builder = EvidenceBuilder()
    failing(builder)
    served(builder, 10, ENDED, 0.05)
    served(builder, BEGAN, ENDED, 4.0, merchant="s")
    assert {what for what, _ in found(builder)} == {What.HELD_UP}
    for number in range(10):
        builder.suspended(f"s{number}", BEGAN - 1, ENDED + 4)
    assert What.HELD_UP not in {what for what, _ in found(builder)}


def test_the_verdict_says_how_the_others_fared() -> None:
    builder = EvidenceBuilder()
    failing(builder)
    served(builder, 10, BEGAN, 0.05)
    served(builder, BEGAN, ENDED, 0.4)
    [others] = judge(builder.evidence()).isolation
    assert others.kind == "colluders"
    assert others.before == pytest.approx(0.047)
    assert others.meanwhile == pytest.approx(0.397)


def test_a_machine_that_is_slow_is_slow_before_too() -> None:
    builder = EvidenceBuilder()
    failing(builder)
    served(builder, 10, BEGAN, 0.6)
    served(builder, BEGAN, ENDED, 2.0)
    assert found(builder) == []


def test_a_machine_that_stood_still_is_not_the_groups_doing() -> None:
    builder = EvidenceBuilder()
    failing(builder, slowness=1.0)
    served(builder, 10, BEGAN, 0.05)
    served(builder, BEGAN, ENDED, 1.8)
    assert found(builder) == []


def test_nothing_is_compared_where_other_faults_lasted() -> None:
    builder = EvidenceBuilder()
    failing(builder, alone_since=None)
    served(builder, 10, BEGAN, 0.05)
    served(builder, BEGAN, ENDED, 5.0)
    assert found(builder) == []


def test_few_events_say_nothing() -> None:
    builder = EvidenceBuilder()
    failing(builder)
    served(builder, 10, BEGAN, 0.05)
    served(builder, BEGAN, BEGAN + 4, 5.0)
    assert found(builder) == []


def test_the_group_itself_may_wait() -> None:
    builder = EvidenceBuilder()
    failing(builder)
    for begin, end, wait in ((10, BEGAN, 0.05), (BEGAN, ENDED, 5.0)):
        served(builder, begin, end, 0.05)
        served(builder, begin, end, wait, "g")
    assert found(builder) == []


def test_what_a_merchants_own_queue_takes_does_not_count() -> None:
    builder = EvidenceBuilder()
    failing(builder)
    served(builder, 10, BEGAN, 0.05)
    for number in range(60):
        name = f"slow{number}"
        builder.event(name, BEGAN + number / 100, "slow", took=0)
        builder.attempt(name, BEGAN + 0.1 + number * 0.4, took=0.38)
    assert found(builder) == []


def test_a_pause_of_everything_is_not_the_groups_doing() -> None:
    builder = EvidenceBuilder()
    failing(builder)
    served(builder, 10, BEGAN, 0.05)
    served(builder, BEGAN, BEGAN + 3, 3.5)
    served(builder, BEGAN + 3, ENDED, 0.05, merchant="p")
    assert {what for what, _ in found(builder)} == {What.HELD_UP}
    builder.command("pause", BEGAN - 0.1, 0.1)
    builder.command("resume", BEGAN + 3, 0.1)
    assert found(builder) == []


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
        (25, 503, True),
        (25, None, True),
        (25, 200, False),
        (15, 503, False),
        (33, 503, True),
        (40, 503, False),
    ],
)
def test_what_fails_meanwhile_may_not_be_counted(
    failed_at: float, status: int | None, is_explained: bool
) -> None:
    builder = EvidenceBuilder()
    failing(builder)
    repeated(builder, failed_at, status)
    assert found(builder) == ([] if is_explained else [(What.UNEXPLAINED, "d")])


@pytest.mark.parametrize(
    ("repeats", "merchant", "is_explained"),
    [(Repeats.UNHEARD, GROUP[0], True), (Repeats.UNHEARD, "m1", False), (Repeats.UNCOUNTED, GROUP[0], False)],
)
def test_what_is_dear_to_hear_may_be_accepted_and_not_heard(
    repeats: Repeats, merchant: str, is_explained: bool
) -> None:
    builder = EvidenceBuilder()
    failing(builder, repeats=repeats)
    repeated(builder, 25, 200, merchant)
    assert found(builder) == ([] if is_explained else [(What.UNEXPLAINED, "d")])
