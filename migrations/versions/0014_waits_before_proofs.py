"""A try to sign in that is locked is refused before its password is computed with."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0014_waits_before_proofs"
down_revision = "0013_kept_bytes"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
