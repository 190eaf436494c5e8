"""What `make chaos` runs: from five minutes on a part of them with a clock that is set."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.chaos import __main__ as chaos
from lab.chaos.__main__ import Part, parts

REPORT = Path("report")


@pytest.mark.parametrize(
    ("minutes", "clock", "only", "expected"),
    [
        (5, None, [], [Part(4, False, REPORT), Part(1, True, REPORT / "clock")]),
        *((4, None, [], [Part(4, False, REPORT)]), (5, None, ["kill"], [Part(5, False, REPORT)])),
        *((5, False, [], [Part(5, False, REPORT)]), (1, True, [], [Part(1, True, REPORT)])),
    ],
)
def test_the_clock_has_a_run_of_its_own_at_the_end(
    minutes: float,
    clock: bool | None,
    only: Sequence[str],
    expected: Sequence[Part],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chaos, "LIBRARY", Path("libfaketime.so.1"))
    asked = Namespace(minutes=minutes, clock=clock, only=only, report=REPORT)
    assert list(parts(asked)) == expected
    monkeypatch.setattr(chaos, "LIBRARY", None)
    assert list(parts(asked))[1:] == []
