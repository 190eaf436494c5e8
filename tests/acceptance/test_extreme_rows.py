"""Whatever a column's type can hold, one row ends no daemon and holds up no other merchant.

The rows stand there as if they had come in past the rules: before these held, or by a superuser's hand. Each
has a merchant of its own, and beside them all a healthy merchant is served on.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from tests.acceptance.extreme_values import (
    HIGHEST,
    INSTANTS,
    LOWEST,
    PATIENCE,
    SENT,
    UNSENDABLE,
    WAITS,
    ends,
    serves_the_healthy,
    start,
)
from tests.acceptance.installation import Installation
from tests.waiting import until_found
from webhook_dispatcher.local.behaviour import Behaviour

pytestmark = pytest.mark.timeout(180)
LARGE = """json_build_object('a', repeat('x', 2000000))"""
DEEP = """(repeat('{"a":', 5000) || '{}' || repeat('}', 5000))::json"""
LONG_NUMBER = """('{"a":' || repeat('9', 100000) || '}')::json"""


@dataclass(frozen=True)
class Row:
    """One merchant's row: what differs from an ordinary event, and what becomes of it."""

    ends: tuple[str, str | None]
    event: Mapping[str, str] = field(default_factory=dict)
    lane: Mapping[str, str] = field(default_factory=dict)
    has_endpoint: bool = True
    status: int = 200


def due(**changed: str) -> dict[str, str]:
    """Let an event have had an attempt, and be due for the next."""
    return {"attempts": "1", "due_at": "clock_timestamp() - interval '1 second'"} | changed


EVENTS = {
    **{f"created {name}": Row(UNSENDABLE, {"created_at": at}) for name, at in INSTANTS.items()},
    "created 1999": Row(UNSENDABLE, {"created_at": "'1999-12-31 23:59:59+00'"}),
    "type empty": Row(WAITS, {"type": "''"}),
    "type with a line break": Row(WAITS, {"type": "E'charge.created\\r\\nX: y'"}),
    "type long": Row(WAITS, {"type": "repeat('x', 100000)"}),
    "object null": Row(UNSENDABLE, {"object": "'null'"}),
    "object array": Row(UNSENDABLE, {"object": "'[]'"}),
    "object number": Row(UNSENDABLE, {"object": "' -1e400 '"}),
    "object 2 MB": Row(UNSENDABLE, {"object": LARGE}),
    "object deep": Row(SENT, {"object": DEEP}),
    "object with a long number": Row(SENT, {"object": LONG_NUMBER}),
    "object behind white space": Row(SENT, {"object": "E' \\n\\t{}'"}),
    "object that names NaN": Row(SENT, {"object": '\'{"a":"NaN","b":"\\u0000\\ud800"}\''}),
    "seq lowest": Row(WAITS, {"seq": LOWEST}),
    "seq -1": Row(SENT, {"seq": "-1"}),
    "seq 0": Row(SENT, {"seq": "0"}),
    "seq highest": Row(SENT, {"seq": HIGHEST}),
    "id lowest": Row(SENT, {"id": "'00000000-0000-0000-0000-000000000000'"}),
    "id highest": Row(SENT, {"id": "'ffffffff-ffff-ffff-ffff-ffffffffffff'"}),
    "trigger and end unknown": Row(SENT, {"trigger": "repeat('x', 9999)", "on_failure": "''"}),
    "last status": Row(SENT, {"last_status": "-32768", "last_outcome": "E'\\n'"}),
}
RETRIES = {
    **{f"created {name}": Row(UNSENDABLE, due(created_at=at)) for name, at in INSTANTS.items()},
    "object array": Row(UNSENDABLE, due(object="'[]'")),
    "object 2 MB": Row(UNSENDABLE, due(object=LARGE)),
    "attempts lowest": Row(SENT, due(attempts="-32768")),
    "attempts -1": Row(SENT, due(attempts="-1")),
    "attempts lowest, in vain": Row(WAITS, due(attempts="-32768"), status=500),
    "attempts highest, in vain": Row(("failed", "exhausted"), due(attempts="32767"), status=500),
    "attempts highest": Row(SENT, due(attempts="32767")),
    "attempts by hand lowest": Row(("failed", "exhausted"), due(attempts_by_hand="-32768"), status=500),
    **{
        f"attempts by hand highest, scheduled {name}": Row(
            WAITS, due(attempts_by_hand="32767", trigger="'manual'", scheduled_at=at), status=500
        )
        for name, at in INSTANTS.items()
    },
    "due -infinity": Row(SENT, due(due_at="'-infinity'")),
    "due 4713 BC": Row(SENT, due(due_at=INSTANTS["year 4713 BC"])),
    "due infinity": Row(WAITS, due(due_at="'infinity'")),
    "due 294276": Row(WAITS, due(due_at=INSTANTS["year 294276"])),
    "claim lapsed": Row(SENT, due(claim=LOWEST)),
    "seq lowest": Row(SENT, due(seq=LOWEST)),
    "seq highest": Row(SENT, due(seq=HIGHEST)),
    "trigger and end unknown": Row(SENT, due(trigger="''", on_failure="'pending'")),
}
UNCONFIGURED = {
    **{
        f"created {name}": Row(UNSENDABLE, {"created_at": at}, has_endpoint=False)
        for name, at in INSTANTS.items()
    },
    **{
        f"due {name}": Row(UNSENDABLE, due(created_at=at), has_endpoint=False)
        for name, at in INSTANTS.items()
    },
    **{
        f"removed {name}": Row(ends, lane={"endpoint_removed_at": INSTANTS[name]}, has_endpoint=False)
        for name, ends in {
            "infinity": ("failed", "not_configured"),
            "-infinity": WAITS,
            "year 294276": ("failed", "not_configured"),
            "year 4713 BC": WAITS,
        }.items()
    },
}
LANES = {
    **{
        f"{column} {name}": Row(ends, lane={column: INSTANTS[name]})
        for column, late in {"lease_until": WAITS, "wait_until": WAITS, "retry_at": SENT}.items()
        for name, ends in {
            "infinity": late,
            "-infinity": SENT,
            "year 294276": late,
            "year 4713 BC": SENT,
        }.items()
    },
    **{f"removed {name}": Row(SENT, lane={"endpoint_removed_at": at}) for name, at in INSTANTS.items()},
    "epoch highest": Row(SENT, lane={"epoch": HIGHEST}),
    "epoch lowest": Row(SENT, lane={"epoch": LOWEST}),
    "from_seq highest": Row(SENT, lane={"from_seq": HIGHEST}),
    "from_seq lowest": Row(SENT, lane={"from_seq": LOWEST}),
    "owner long": Row(SENT, lane={"owner": "repeat('x', 100000)"}),
}
GROUPS = {"in order": EVENTS, "retries": RETRIES, "unconfigured": UNCONFIGURED, "lanes": LANES}
UNCHECKED = "ALTER TABLE webhook.outbox DROP CONSTRAINT event_can_be_sent"
CHECKED = """
ALTER TABLE webhook.outbox ADD CONSTRAINT event_can_be_sent
CHECK (webhook.event_can_be_sent(merchant_id, type, created_at, object)) NOT VALID
"""


async def place(installation: Installation, merchant_id: str, row: Row) -> UUID:
    """Write one row, as its merchant's only one."""
    lane = {"merchant_id": f"'{merchant_id}'", "retry_at": "clock_timestamp()", **row.lane}
    event = {"merchant_id": f"'{merchant_id}'", "type": "'charge.created'", "object": "'{}'", **row.event}
    if row.has_endpoint:
        await installation.configure(merchant_id)
        installation.receiver.behave(merchant_id, Behaviour(status=row.status))
    await installation.owner.execute(f"DELETE FROM webhook.lane WHERE merchant_id = '{merchant_id}'")
    await installation.owner.execute(
        f"INSERT INTO webhook.lane ({', '.join(lane)}) VALUES ({', '.join(lane.values())})"
    )
    event_id: UUID = await installation.owner.fetchval(
        f"INSERT INTO webhook.outbox ({', '.join(event)}) OVERRIDING SYSTEM VALUE "
        f"VALUES ({', '.join(event.values())}) RETURNING id"
    )
    return event_id


async def test_they_hold_up_nobody_where_an_error_ends_a_session(installation: Installation) -> None:
    role = f"webhook_dispatcher IN DATABASE {installation.database.name}"
    await installation.owner.execute(f"ALTER ROLE {role} SET exit_on_error = on")
    await hold_up_nobody(installation, "in order")


@pytest.mark.parametrize("group", GROUPS)
async def test_no_value_of_any_column_holds_up_another_merchant(
    installation: Installation, group: str
) -> None:
    await hold_up_nobody(installation, group)


async def hold_up_nobody(installation: Installation, group: str) -> None:
    """Assert that each extreme row of a group ends as it must, and that the others' events are delivered."""
    await installation.configure("healthy")
    rows = {f"{number:02} {name}": row for number, (name, row) in enumerate(GROUPS[group].items())}
    await installation.owner.execute(UNCHECKED)
    placed = {name: await place(installation, f"m {name}", row) for name, row in rows.items()}
    await installation.owner.execute(CHECKED)
    daemon = await start(installation, UNCONFIGURED_HOLD="P1D")
    await serves_the_healthy(installation, daemon)
    wanted = {name: row.ends for name, row in rows.items()}

    async def settled() -> bool:
        return await ends(installation, placed) == wanted

    try:
        await until_found(settled, 60)
    except TimeoutError:
        assert await ends(installation, placed) == wanted
    await serves_the_healthy(installation, daemon)
    _, metrics = await daemon.asked("/metrics")
    errors = [line for line in metrics.splitlines() if line.startswith("webhook_database_errors_total{")]
    assert not [line for line in errors if "measure" in line]
    for arguments in (
        ["deliveries", "list", "--limit", "1000"],
        ["deliveries", "list", "--since", "2000-01-01T00:00Z"],
    ):
        for more in ([], ["--json"]):
            listed = await asyncio.to_thread(installation.command, *arguments, *more)
            assert listed.returncode == 0, listed.stderr
    for event_id in placed.values():
        assert await installation.attempts(event_id) is not None
    daemon.process.terminate()
    assert await daemon.ended(PATIENCE) == 0
    await serves_the_healthy(installation, await start(installation))
