"""Secrets are replaced while nothing is sent that they would sign."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0017_held_rotations"
down_revision = "0016_less_reach"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
