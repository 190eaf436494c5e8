"""One function checks what producers insert."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0003_one_check_of_events"
down_revision = "0002_recall_lapsed_lanes"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
