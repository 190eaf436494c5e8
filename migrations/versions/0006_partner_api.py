"""What the Partner API keeps and may see: keys, tokens, limits, answered requests, merchants' own rows."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0006_partner_api"
down_revision = "0005_what_operators_ask"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
