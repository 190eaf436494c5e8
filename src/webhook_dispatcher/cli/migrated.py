"""What `migrate` did, in lines for people."""

from webhook_dispatcher.storage.inventory import Inventory, Migrated

LOGINS = {
    "webhook_dispatcher": "ALTER ROLE webhook_dispatcher PASSWORD '…';    -- the daemon connects as it",
    "webhook_admin": "ALTER ROLE webhook_admin PASSWORD '…';         -- operators and the command line",
    "webhook_api": "ALTER ROLE webhook_api PASSWORD '…';           -- the Partner API, where it is run",
    "webhook_console": "ALTER ROLE webhook_console PASSWORD '…';       -- the console, where it is run",
}
GRANT = "GRANT webhook_producer TO …;                   -- the charge service's user"


def lines_of(migrated: Migrated) -> list[str]:
    """Say what was made or applied, and what is to be done next."""
    if migrated.made is not None:
        return [_made(migrated.made), *_next(migrated.made)]
    if migrated.applied:
        return [f"applied {name}" for name in migrated.applied]
    return ["nothing was to be done"]


def _made(made: Inventory) -> str:
    return (
        f"made: the schema webhook, version {made.schema_version}, with {made.tables} tables, "
        f"{made.views} views, {made.partitions} partitions and {len(made.roles)} roles"
    )


def _next(made: Inventory) -> list[str]:
    return [
        "next, as this user:",
        *(f"  {LOGINS[role]}" for role in LOGINS if role in made.roles),
        f"  {GRANT}",
    ]
