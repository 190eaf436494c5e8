"""Names that requests have."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0021_names"
down_revision = "0020_what_dispatchers_run_with"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"versions/{revision}.sql")
