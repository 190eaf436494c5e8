"""People see their own sessions at the console, and end one of them."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0009_own_sessions"
down_revision = "0008_console"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
