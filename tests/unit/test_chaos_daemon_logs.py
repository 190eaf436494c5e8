"""What a chaos run takes from its daemons' logs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lab.chaos.daemon_logs import given_up, unheard

UNCOUNTED = {"event": "attempt.uncounted", "event_id": "d", "outcome": "timeout"}
LATE = {"event": "delivery.attempted", "event_id": "d", "outcome": "timeout"}
DELIVERED = {"event": "delivery.attempted", "event_id": "d", "outcome": "delivered"}


@pytest.mark.parametrize(
    ("entries", "is_unheard"),
    [
        *(([UNCOUNTED], True), ([LATE], True), ([LATE, DELIVERED], False), ([DELIVERED, UNCOUNTED], False)),
        *(([{**UNCOUNTED, "event_id": "e"}], False), ([{**UNCOUNTED, "event": "retry.claimed"}], False)),
        *(([], False), ([{**UNCOUNTED, "event_id": "e", "endpoint": 2}], False)),
    ],
)
def test_a_daemon_has_not_heard_what_it_tried_and_never_saw_delivered(
    entries: Sequence[Mapping[str, str]], is_unheard: bool, tmp_path: Path
) -> None:
    lines = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    (tmp_path / "d1.3.log").write_text(f"{lines}Traceback, and no event\n")
    assert unheard(tmp_path, {"d"}, {}) == ({("d1.3", "d")} if is_unheard else set())


def test_a_daemon_has_not_heard_of_it_at_one_of_several_endpoints(tmp_path: Path) -> None:
    entries = [{**UNCOUNTED, "endpoint": 2}, {**UNCOUNTED, "endpoint": 3, "event_id": "c"}, DELIVERED]
    (tmp_path / "d1.3.log").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    assert unheard(tmp_path, {"d"}, {"c": "d.3"}) == {("d1.3", "d.2"), ("d1.3", "d.3")}


def test_an_attempt_is_given_up_where_it_ends_without_an_answer_and_counts(tmp_path: Path) -> None:
    entries = [
        {**LATE, "status": None, "at": "2026-11-26T14:40:09.500000Z"},
        {**LATE, "status": None, "at": "2026-11-26T14:40:08.500000Z"},
        {**UNCOUNTED, "status": None, "event_id": "u", "at": "2026-11-26T14:40:09.500000Z"},
        {**LATE, "status": 500, "event_id": "a", "at": "2026-11-26T14:40:09.500000Z"},
        {**LATE, "status": None, "endpoint": 2, "at": "2026-11-26T14:40:07.500000Z"},
        {**LATE, "status": None, "endpoint": 3, "event_id": "c", "at": "2026-11-26T14:40:06.500000Z"},
    ]
    (tmp_path / "d1.3.log").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    assert given_up(tmp_path, {"c": "d.3"}) == {
        "d": 1795704008.5, "d.2": 1795704007.5, "d.3": 1795704006.5
    }  # fmt: skip
