"""What failed is found by its merchant, through an index of its own."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0019_given_up"
down_revision = "0018_attempts_by_hand"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
