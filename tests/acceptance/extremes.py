"""Values at the ends of what columns can hold, and what must be true whatever stands in one row."""

from collections.abc import Mapping
from uuid import UUID

from tests.acceptance.process import Daemon, until_found
from tests.acceptance.world import World

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


async def end_of(world: World, event_id: UUID) -> tuple[str, str | None]:
    """Say what has become of an event."""
    row = await world.owner.fetchrow(
        "SELECT state, failed_reason FROM webhook.deliveries WHERE event_id = $1", event_id
    )
    assert row is not None
    return ("owed", None) if row["state"].startswith("pending") else (row["state"], row["failed_reason"])


async def ends(world: World, placed: Mapping[str, UUID]) -> dict[str, tuple[str, str | None]]:
    """Say what has become of all of them."""
    return {name: await end_of(world, event_id) for name, event_id in placed.items()}


async def start(world: World, **changed: str) -> Daemon:
    """Start a daemon, however slow the machine is today."""
    daemon = world.spawn(**changed)
    await daemon.logged("daemon.started", PATIENCE)
    return daemon


async def serves_the_healthy(world: World, daemon: Daemon) -> None:
    """See an event of a healthy merchant delivered, in order and as a retry."""
    sent = await world.emit("healthy")
    retry = await world.emit("healthy")
    await world.owner.execute(
        "UPDATE webhook.outbox SET due_at = clock_timestamp(), attempts = 1 WHERE id = $1", retry.id
    )
    await world.owner.execute("UPDATE webhook.lane SET retry_at = '-infinity' WHERE merchant_id = 'healthy'")
    for event in (sent, retry):

        async def delivered(event_id: UUID = event.id) -> bool:
            assert daemon.process.poll() is None, daemon.log_file.read_text()[-3000:]
            return await end_of(world, event_id) == SENT

        await until_found(delivered, PATIENCE)
