"""Number 1 that is set anew is as any endpoint that is added."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0028_an_endpoint_is_set_anew"
down_revision = "0027_endpoints_come_and_go"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"versions/{revision}.sql")
