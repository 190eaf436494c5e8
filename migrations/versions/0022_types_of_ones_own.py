"""Types of event of one's own."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0022_types_of_ones_own"
down_revision = "0021_names"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"versions/{revision}.sql")
