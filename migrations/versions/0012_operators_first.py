"""Operators' commands wait for no merchant's."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0012_operators_first"
down_revision = "0011_lost_events"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
