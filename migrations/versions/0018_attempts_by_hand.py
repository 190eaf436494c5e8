"""Attempts by hand stand beside the schedule: how many there were, and when the schedule goes on."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0018_attempts_by_hand"
down_revision = "0017_held_rotations"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
