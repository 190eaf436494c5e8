"""What the console shows: dispatchers and what they attempted, the events of commands, views."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0008_console"
down_revision = "0007_accounts"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
