"""How far a command has come, as its page tells it."""

from dataclasses import replace

import pytest

from tests.unit.builders import NOW
from webhook_dispatcher.console.pages.acting import MassProgress, StatusBadge, progress_of, status_badge
from webhook_dispatcher.console.reader import reader_of
from webhook_dispatcher.storage.console.commands import CommandRow

COMMAND = CommandRow(
    7, "retry_failed", None, NOW, "running", None, {"matched": 500, "retried": 25}, None, None, "anna", "m1",
    {}, None, False, True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("command", "progress"),
    [
        (COMMAND, MassProgress(25, 500)),
        (replace(COMMAND, status="done", result={"matched": 500, "retried": 499}), MassProgress(499, 500)),
        (replace(COMMAND, result={}), None),
        # What these find grows as they go.
        (
            replace(
                COMMAND,
                command="recover",
                result={"matched": {"failed": 25, "delivered": 1}, "recovered": 25},
            ),
            MassProgress(25, None),
        ),
        (replace(COMMAND, command="recover", status="done", result={"matched": {}, "recovered": 9}), None),
        (replace(COMMAND, command="skip", result={"skipped": 500}), MassProgress(500, None)),
        (
            replace(COMMAND, command="skip", args={"counted": 900}, result={"skipped": 500}),
            MassProgress(500, 900),
        ),
        (
            replace(COMMAND, command="skip", args={"counted": 9}, result={"skipped": 500}),
            MassProgress(500, 500),
        ),
        (
            replace(COMMAND, command="skip", args={"counted": True}, result={"skipped": 5}),
            MassProgress(5, None),
        ),
        (replace(COMMAND, command="pause", result={}), None),
    ],
)
def test_a_total_is_told_where_it_is_known(command: CommandRow, progress: MassProgress | None) -> None:
    assert progress_of(command) == progress


@pytest.mark.parametrize(
    ("command", "outcome", "badge"),
    [
        (replace(COMMAND, command="pause", status="done", result={}), None, StatusBadge("Done", "good")),
        (replace(COMMAND, command="retry", status="done"), None, StatusBadge("Attempts asked for", "info")),
        (
            replace(COMMAND, command="retry", status="done"),
            "timeout",
            StatusBadge("No answer in time", "bad"),
        ),
        (replace(COMMAND, command="retry", status="done"), "delivered", StatusBadge("Delivered", "good")),
        (replace(COMMAND, status="done", result={"stopped": True}), None, StatusBadge("Stopped", "warn")),
        (
            replace(COMMAND, status="done", result={"outcome": "timeout"}),
            None,
            StatusBadge("No answer in time", "bad"),
        ),
        (replace(COMMAND, status="rejected", result=None), None, StatusBadge("Rejected", "bad")),
    ],
)
def test_only_what_came_about_is_green(command: CommandRow, outcome: str | None, badge: StatusBadge) -> None:
    assert status_badge(command, reader_of(None, "en"), outcome) == badge
