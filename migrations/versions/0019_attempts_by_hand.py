"""Attempts by hand stand beside the schedule: how many there were, and when the schedule goes on."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0019_attempts_by_hand"
down_revision = "0015_numbers"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
