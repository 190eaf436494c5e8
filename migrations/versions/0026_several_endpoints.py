"""Several endpoints for a merchant."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0026_several_endpoints"
down_revision = "0025_programs"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"versions/{revision}.sql")
