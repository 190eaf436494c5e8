"""The bytes of the answers that are kept for an API key have a bound."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0013_kept_bytes"
down_revision = "0012_operators_first"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
