"""The index by which merchants read their events in order is made where it is asked for."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0010_feed_is_chosen"
down_revision = "0009_own_sessions"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
