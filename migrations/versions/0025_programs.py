"""One place for which programs are served."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0025_programs"
down_revision = "0024_order_by_charge"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"versions/{revision}.sql")
