"""Order by charge."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0024_order_by_charge"
down_revision = "0023_filters"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"versions/{revision}.sql")
