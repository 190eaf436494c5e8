"""Sequences that are behind their tables, or give numbers out of order, are seen."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0015_numbers"
down_revision = "0014_waits_before_proofs"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
