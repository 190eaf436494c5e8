"""Values at the ends of what columns can hold, and what must be true whatever stands in one row."""

from collections.abc import Mapping
from uuid import UUID

from tests.acceptance.installation import Installation
from tests.acceptance.processes import Daemon
from tests.waiting import until_found

PATIENCE = 90.0
SENT = ("delivered", None)
UNSENDABLE = ("failed", "unsendable")
WAITS = ("owed", None)
INSTANTS = {
    "infinity": "'infinity'",
    "-infinity": "'-infinity'",
    "year 294276": "'294276-12-31 23:59:59.999999+00'",
    "year 4713 BC": "'4713-01-01 00:00:00+00 BC'",
    "year 9999": "'9999-12-31 23:59:59.999999+00'",
    "year 1": "'0001-01-01 00:00:00+00'",
}
LOWEST, HIGHEST = "(-9223372036854775808)::bigint", "9223372036854775807"


async def end_of(installation: Installation, event_id: UUID) -> tuple[str, str | None]:
    """Say what has become of an event."""
    row = await installation.owner.fetchrow(
        "SELECT state, failed_reason FROM webhook.deliveries WHERE event_id = $1", event_id
    )
    assert row is not None
    return ("owed", None) if row["state"].startswith("pending") else (row["state"], row["failed_reason"])


async def ends(installation: Installation, placed: Mapping[str, UUID]) -> dict[str, tuple[str, str | None]]:
    """Say what has become of all of them."""
    return {name: await end_of(installation, event_id) for name, event_id in placed.items()}


async def start(installation: Installation, **changed: str) -> Daemon:
    """Start a daemon, however slow the machine is today."""
    daemon = installation.spawn(**changed)
    await daemon.logged("daemon.started", PATIENCE)
    return daemon


async def serves_the_healthy(installation: Installation, daemon: Daemon) -> None:
    """See an event of a healthy merchant delivered, in order and as a retry."""
    sent = await installation.emit("healthy")
    retry = await installation.emit("healthy")
    await installation.owner.execute(
        "UPDATE webhook.outbox SET due_at = clock_timestamp(), attempts = 1 WHERE id = $1", retry.id
    )
    await installation.owner.execute(
        "UPDATE webhook.lane SET retry_at = '-infinity' WHERE merchant_id = 'healthy'"
    )
    for event in (sent, retry):

        async def delivered(event_id: UUID = event.id) -> bool:
            assert daemon.process.poll() is None, daemon.log_file.read_text()[-3000:]
            return await end_of(installation, event_id) == SENT

        await until_found(delivered, PATIENCE)
