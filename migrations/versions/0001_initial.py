"""The first schema."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0001_initial"
down_revision = None


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
