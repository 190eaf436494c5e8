"""Events are sent in the order of their numbers, and no number is given twice. Source: I2."""

import pytest

from tests.acceptance.installation import Installation
from webhook_dispatcher.local.arrivals import out_of_order

SEQUENCES = ("outbox_seq_seq", "control_id_seq", "audit_id_seq")
AS_REPLICATED = "; ".join(f"SELECT setval('webhook.{name}', 1, false)" for name in SEQUENCES)
"""Logical replication brings rows over, and no sequence."""
CACHED = "ALTER TABLE webhook.outbox ALTER COLUMN seq SET CACHE 20"


@pytest.mark.parametrize(
    ("changed", "said"),
    [(AS_REPLICATED, "webhook.outbox.seq goes up to 4, and its sequence is at 0"), (CACHED, "has CACHE 20")],
    ids=["logical replication", "a cache"],
)
async def test_nothing_is_sent_by_numbers_that_are_given_again_or_out_of_order(
    installation: Installation, changed: str, said: str
) -> None:
    await installation.configure("m1", "m2")
    installation.command("pause", "m2", "--no-wait")
    sent = await installation.emit_each(["m1", "m2"], 2)
    await installation.owner.execute(changed)
    checked = installation.command("check")
    assert checked.returncode == 3
    assert said in checked.stdout
    daemon = installation.spawn()
    assert await daemon.ended() == 3
    assert said in daemon.log_file.read_text()
    installation.daemons.remove(daemon)

    owner = installation.database.dsn("postgres")
    migrated = installation.command("migrate", DATABASE_URL=owner, DATABASE_POOLER="none")
    assert migrated.returncode == 0, migrated.stderr
    assert said in migrated.stdout + migrated.stderr
    assert installation.command("check").returncode != 3
    # As a new session begins: one that took numbers before has them still.
    await installation.producer.execute("DISCARD SEQUENCES")
    sent += await installation.emit_each(["m1", "m2"], 2)
    assert [event.seq for event in sent] == sorted({event.seq for event in sent})
    await installation.start()
    assert installation.command("resume", "m2").returncode == 0
    await installation.all_delivered(len(sent))
    assert out_of_order(installation.receiver.arrivals, {str(event.id): event.seq for event in sent}) == []
