"""What checks events cannot be talked into other names."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0004_rules_by_full_names"
down_revision = "0003_one_check_of_events"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
