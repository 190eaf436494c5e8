"""What dispatchers run with, and who failed lately, for the console."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0020_what_dispatchers_run_with"
down_revision = "0019_given_up"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
