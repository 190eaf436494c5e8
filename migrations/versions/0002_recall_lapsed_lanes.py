"""Lanes are recalled from holders whose lease has lapsed, too."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0002_recall_lapsed_lanes"
down_revision = "0001_initial"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
