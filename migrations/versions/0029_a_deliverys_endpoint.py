"""Whose a delivery in the log is, said once."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0029_a_deliverys_endpoint"
down_revision = "0028_an_endpoint_is_set_anew"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"versions/{revision}.sql")
