"""Who may use the console, and what an account may change: accounts, sessions, codes, and their functions."""

from webhook_dispatcher.storage.migration import run_sql_file

revision = "0007_accounts"
down_revision = "0006_partner_api"


def upgrade() -> None:
    """Apply the SQL file of the same name."""
    run_sql_file(f"{revision}.sql")
