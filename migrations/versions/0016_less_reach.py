"""Views keep cheap functions out, and locks and transactions of roles that only read stop nothing."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0016_less_reach"
down_revision = "0015_numbers"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
