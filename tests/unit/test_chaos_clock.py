"""What a database recorded by a clock an hour off is judged by when it was."""

from dataclasses import replace

import pytest

from lab.chaos.clock import HOUR, put_right
from lab.chaos.judge import judge
from tests.unit.chaos_evidence import calm


@pytest.mark.parametrize("off", [-HOUR, 0, HOUR])
def test_instants_are_put_right(off: float) -> None:
    builder = calm()
    builder.command("pause", 20, 0.25)
    builder.command("resume", 22, 0.25)
    builder.finished["a"] = 0.125
    right = builder.evidence()
    wrong = replace(
        right,
        deliveries={
            name: replace(
                one,
                attempted=[replace(row, started_at=row.started_at + off) for row in one.attempted],
                created_at=one.created_at + off,
                finished_at=None if one.finished_at is None else one.finished_at + off,
            )
            for name, one in right.deliveries.items()
        },
        commands=[
            replace(one, given_at=one.given_at + off, handled_at=(one.handled_at or 0) + off)
            for one in right.commands
        ],
    )
    put = put_right(wrong)
    assert judge(put).is_clean
    assert (list(put.commands), put.deliveries["a"].finished_at) == (list(right.commands), 0.125)
    [row], [known] = put.deliveries["a"].attempted, right.deliveries["a"].attempted
    assert row.started_at == pytest.approx(known.started_at)
