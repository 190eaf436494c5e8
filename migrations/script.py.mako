"""${message}."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Apply the SQL file of the same number."""
    run_sql_file("${up_revision}.sql")
