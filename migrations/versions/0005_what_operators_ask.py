"""What operators need when a merchant calls: charges, health, reasons, an audit, checks of keys."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0005_what_operators_ask"
down_revision = "0004_rules_by_full_names"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
