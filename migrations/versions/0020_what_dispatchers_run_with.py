"""The first schema; named for the last file it was made from, so that a database which that made has it."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0020_what_dispatchers_run_with"
down_revision = None


def upgrade() -> None:
    """Apply the SQL file of the same name, the whole schema as it was then."""
    run_sql_file(f"versions/{revision}.sql")
