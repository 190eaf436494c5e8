"""Filters of endpoints."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0023_filters"
down_revision = "0022_types_of_ones_own"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"versions/{revision}.sql")
