"""What a merchant's further endpoints leave behind."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0027_endpoints_come_and_go"
down_revision = "0026_several_endpoints"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"versions/{revision}.sql")
