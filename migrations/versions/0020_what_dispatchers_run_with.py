"""The first schema; named for the last file it was made from, so that a database which that made has it."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0020_what_dispatchers_run_with"
down_revision = None


def upgrade() -> None:
    """Apply schema.sql, the whole schema in one file."""
    run_sql_file("schema.sql")
