"""What `migrate` did, in lines for people."""

from webhook_dispatcher.storage.inventory import Inventory, Migrated

LOGINS = {
    "webhook_dispatcher": "ALTER ROLE webhook_dispatcher PASSWORD '…';    -- the daemon connects as it",
    "webhook_admin": "ALTER ROLE webhook_admin PASSWORD '…';         -- operators and the command line",
    "webhook_api": "ALTER ROLE webhook_api PASSWORD '…';           -- the Partner API, where it is run",
    "webhook_console": "ALTER ROLE webhook_console PASSWORD '…';       -- the console, where it is run",
}
NO_CHARGES = "none, as was chosen"
NO_FEED = "none; with the Partner API `migrate --feed-index` adds GET /v1/events"
GRANT = "GRANT webhook_producer TO …;                   -- the charge service's user"


def lines_of(migrated: Migrated) -> list[str]:
    """Say what was made or applied, and what is to be done next."""
    if migrated.made is not None:
        return [*_made(migrated.made), *_next(migrated.made)]
    if migrated.applied:
        return [f"applied {name}" for name in migrated.applied]
    return ["nothing was to be done"]


def _made(made: Inventory) -> list[str]:
    charge = "deliveries are found by their charge" if made.has_charge_index else NO_CHARGES
    feed = "merchants read their events (GET /v1/events)" if made.has_feed_index else NO_FEED
    facts = {
        "schema": f"webhook, of version {made.schema_version}",
        "roles": ", ".join(made.roles) or "none",
        "there already": ", ".join(made.known_roles),
        "tables": ", ".join(made.tables),
        "views": ", ".join(made.views),
        "partitions": f"{made.partitions}, one for each log and day; the daemon goes on with them",
        "charge index": charge,
        "feed index": feed,
        "installation": made.installation,
    }
    return ["made:", *(f"  {name:<13}  {text}" for name, text in facts.items() if text)]


def _next(made: Inventory) -> list[str]:
    return [
        "next, as this user:",
        *(f"  {LOGINS[role]}" for role in LOGINS if role in made.roles),
        f"  {GRANT}",
    ]
