"""What was sent and a server that took over does not have is noted."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0011_lost_events"
down_revision = "0010_feed_is_chosen"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
