"""Whatever a column's type can hold, one row ends no daemon and holds up no other merchant.

The rows stand there as if they had come in past the rules: before these held, or by a superuser's hand. Each
has a merchant of its own, and beside them all a healthy merchant is served on.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from tests.acceptance.process import Daemon, until_found
from tests.acceptance.world import World
from webhook_dispatcher.local.behaviour import Behaviour

pytestmark = pytest.mark.timeout(180)
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
    "type empty": Row(UNSENDABLE, {"type": "''"}),
    "type with a line break": Row(UNSENDABLE, {"type": "E'charge.created\\r\\nX: y'"}),
    "type long": Row(UNSENDABLE, {"type": "repeat('x', 100000)"}),
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
    "epoch highest": Row(WAITS, lane={"epoch": HIGHEST}),
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


async def place(world: World, merchant_id: str, row: Row) -> UUID:
    """Write one row, as its merchant's only one."""
    lane = {"merchant_id": f"'{merchant_id}'", "retry_at": "clock_timestamp()", **row.lane}
    event = {"merchant_id": f"'{merchant_id}'", "type": "'charge.created'", "object": "'{}'", **row.event}
    if row.has_endpoint:
        await world.configure(merchant_id)
        world.receiver.behave(merchant_id, Behaviour(status=row.status))
    await world.owner.execute(f"DELETE FROM webhook.lane WHERE merchant_id = '{merchant_id}'")
    await world.owner.execute(
        f"INSERT INTO webhook.lane ({', '.join(lane)}) VALUES ({', '.join(lane.values())})"
    )
    event_id: UUID = await world.owner.fetchval(
        f"INSERT INTO webhook.outbox ({', '.join(event)}) OVERRIDING SYSTEM VALUE "
        f"VALUES ({', '.join(event.values())}) RETURNING id"
    )
    return event_id


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


@pytest.mark.parametrize("group", GROUPS)
async def test_no_value_of_any_column_holds_up_another_merchant(world: World, group: str) -> None:
    await world.configure("healthy")
    rows = {f"{number:02} {name}": row for number, (name, row) in enumerate(GROUPS[group].items())}
    await world.owner.execute(UNCHECKED)
    placed = {name: await place(world, f"m {name}", row) for name, row in rows.items()}
    await world.owner.execute(CHECKED)
    daemon = await start(world, UNCONFIGURED_HOLD="P1D")
    await serves_the_healthy(world, daemon)
    wanted = {name: row.ends for name, row in rows.items()}

    async def settled() -> bool:
        return await ends(world, placed) == wanted

    try:
        await until_found(settled, 60)
    except TimeoutError:
        assert await ends(world, placed) == wanted
    await serves_the_healthy(world, daemon)
    _, metrics = await daemon.asked("/metrics")
    errors = [line for line in metrics.splitlines() if line.startswith("webhook_database_errors_total{")]
    assert not [line for line in errors if "measure" in line]
    for arguments in (
        ["deliveries", "list", "--limit", "1000"],
        ["deliveries", "list", "--since", "2000-01-01T00:00Z"],
    ):
        for more in ([], ["--json"]):
            listed = await asyncio.to_thread(world.command, *arguments, *more)
            assert listed.returncode == 0, listed.stderr
    for event_id in placed.values():
        assert await world.attempts(event_id) is not None
    daemon.process.terminate()
    assert await daemon.ended(PATIENCE) == 0
    await serves_the_healthy(world, await start(world))


COMMANDS: dict[str, dict[str, str]] = {
    "command long": {"command": "repeat('x', 100000)"},
    "command empty": {"command": "''"},
    "merchant empty": {"merchant_id": "''"},
    "merchant long": {"merchant_id": "repeat('x', 100000)"},
    "merchant with a line break": {"merchant_id": "E'\\n'"},
    "no event": {"command": "'retry'"},
    "event of nobody": {"command": "'cancel'", "event_id": "'ffffffff-ffff-ffff-ffff-ffffffffffff'"},
    "args array": {"args": "'[]'"},
    "args null": {"args": "'null'"},
    "args deep": {"args": "(repeat('[', 5000) || repeat(']', 5000))::jsonb"},
    "args long number": {"args": "('{\"limit\":' || repeat('9', 5000) || '}')::jsonb"},
    "limit negative": {"command": "'retry_failed'", "args": "'{\"limit\":-1}'"},
    "limit fraction": {"command": "'retry_failed'", "args": "'{\"limit\":1e999}'"},
    "since no text": {"command": "'retry_failed'", "args": "'{\"since\":{}}'"},
    "since infinity": {"command": "'retry_failed'", "args": '\'{"since":"infinity"}\''},
    "since before year 1": {"command": "'retry_failed'", "args": '\'{"since":"0001-01-01T00:00:00+14:00"}\''},
    "since after 9999": {"command": "'retry_failed'", "args": '\'{"since":"9999-12-31T23:59:59-14:00"}\''},
    "until before year 1": {
        "command": "'retry_failed'",
        "args": '\'{"since":"2026-01-01T00:00Z","until":"0001-01-01T00:00:00+14:00"}\'',
    },
    "url 1 MB": {"command": "'set_url'", "args": "jsonb_build_object('url', repeat('x', 1000000))"},
    "url line break": {
        "command": "'set_url'",
        "args": "jsonb_build_object('url', E'https://a.example/\\r\\nX: y')",
    },
    **{
        f"progress {result}": {
            "command": f"'{command}'",
            "status": "'running'",
            "running_until": "'-infinity'",
        }
        | {"result": f"'{result}'", "args": '\'{"since":"2026-01-01T00:00Z"}\''}
        for command, result in [
            ("retry_failed", "[1]"),
            ("retry_failed", '{"passed":"x"}'),
            ("retry_failed", '{"matched":1,"retried":0,"passed":0,"reached":["infinity",1]}'),
            ("retry_failed", '{"matched":1,"retried":0,"passed":0,"reached":[null]}'),
            ("test_event", '{"event_id":"x"}'),
            ("test_event", '{"event_id":"00000000-0000-0000-0000-000000000000","created_at":"0001-01-01"}'),
            ("test_event", '{"a":' + "9" * 5000 + "}"),
        ]
    },
}
"""Commands that cannot be carried out, by what differs from a pause of a healthy merchant's endpoint."""
ACCEPTED: dict[str, dict[str, str]] = {
    **{f"created {name}": {"command": "'resume'", "created_at": at} for name, at in INSTANTS.items()},
    **{
        f"range created {name}": {
            "command": "'retry_failed'",
            "created_at": at,
            "args": '\'{"since":"2026-01-01T00:00Z","until":"2027-01-01T00:00Z"}\'',
        }
        for name, at in INSTANTS.items()
    },
    "id lowest": {"command": "'resume'", "id": LOWEST},
    "id highest": {"command": "'resume'", "id": HIGHEST},
}


async def ask(world: World, changed: Mapping[str, str]) -> int:
    """Insert a command as the superuser, who may write every column."""
    columns = {"command": "'set_url'", "merchant_id": "'healthy'", "requested_by": "'test'", **changed}
    return int(
        await world.owner.fetchval(
            f"INSERT INTO webhook.control ({', '.join(columns)}) OVERRIDING SYSTEM VALUE "
            f"VALUES ({', '.join(columns.values())}) RETURNING id"
        )
    )


async def test_no_value_of_a_command_holds_up_another(world: World) -> None:
    await world.configure("healthy")
    daemon = await start(world)
    await serves_the_healthy(world, daemon)
    event_id = await world.owner.fetchval(
        "UPDATE webhook.delivery_log SET state = 'x', attempts = -32768 RETURNING event_id"
    )
    strange = await ask(world, {"command": "'retry'", "event_id": f"'{event_id}'"})
    wanted = {await ask(world, changed): (name, "rejected") for name, changed in COMMANDS.items()}
    wanted |= {await ask(world, changed): (name, "done") for name, changed in ACCEPTED.items()}
    wanted[strange] = ("state unknown", "rejected")
    last = await world.ask("resume", "healthy")

    async def all_handled() -> bool:
        assert daemon.process.poll() is None, daemon.log_file.read_text()[-3000:]
        open_ = "SELECT count(*) FROM webhook.control WHERE status IN ('pending', 'running')"
        return not await world.owner.fetchval(open_)

    try:
        await until_found(all_handled, PATIENCE)
    finally:
        rows = await world.owner.fetch("SELECT id, status, error_code, error_message FROM webhook.control")
        print([(wanted.get(row["id"]), dict(row)) for row in rows if row["status"] in ("pending", "running")])
    assert (await world.handled(last))["status"] == "done"
    assert {row["id"]: row["status"] for row in rows if row["id"] in wanted} == {
        command_id: status for command_id, (_, status) in wanted.items()
    }
    for row in rows:
        if row["status"] == "rejected":
            assert row["error_code"] in range(-14005, -14000), wanted[row["id"]]
            assert len(row["error_message"]) < 300
            for internal in ("argument", "datetime", "out of range", "Python", "Error", "codec"):
                assert internal not in row["error_message"], wanted[row["id"]]
    await serves_the_healthy(world, daemon)
    daemon.process.terminate()
    assert await daemon.ended(PATIENCE) == 0


ENDPOINTS = {
    "url 1 MB": {"url": "'https://a.example/' || repeat('x', 1000000)"},
    "url empty": {"url": "''"},
    "url with a line break": {"url": "E'https://a.example/\\r\\nX: y'"},
    "url without host": {"url": "'https://'"},
    "url with half a host": {"url": "'https://[::1'"},
    "url beyond ASCII": {"url": "E'https://\\u202eelpmaxe.a/\\U0001F600'"},
    "url of an unknown scheme": {"url": "'gopher://a.example/'"},
    "url port": {"url": "'https://a.example:99999999999999999999/'"},
    "secret empty": {"secret": "''"},
    "secret short": {"secret": "'\\x00'"},
    "secret of noise": {"secret": "decode(repeat('ff', 500000), 'hex')"},
    "key empty": {"key_id": "''"},
    "key long": {"key_id": "repeat('x', 100000)"},
    "key with a line break": {"key_id": "E'\\n\\u202e'"},
    "secret before, of noise": {
        "previous_secret": "'\\xff'",
        "previous_key_id": "E'\\n'",
        "previous_until": "'infinity'",
    },
    **{
        f"secret before until {name}": {
            "previous_secret": "endpoint.secret",
            "previous_key_id": "endpoint.key_id",
            "previous_until": at,
        }
        for name, at in INSTANTS.items()
    },
    **{
        f"made {name}": {"created_at": at, "updated_at": at, "secret_created_at": at}
        for name, at in INSTANTS.items()
    },
}
IS_UNUSABLE = ("url", "key", "secret empty", "secret short", "secret of noise", "secret before, of noise")
NAMES = ["", "m\n2", "m" * 1000, "\u202e", "-", "\\", "'", "webhook"]


async def test_no_value_of_an_endpoint_holds_up_another_merchant(world: World) -> None:
    await world.configure("healthy")
    placed = {}
    for name, changed in ENDPOINTS.items():
        await world.configure(f"m {name}")
        columns = ", ".join(f"{column} = {value}" for column, value in changed.items())
        await world.admin.execute(
            f"UPDATE webhook.endpoint SET {columns} WHERE merchant_id = $1", f"m {name}"
        )
        placed[name] = (await world.emit(f"m {name}")).id
    await world.configure(*NAMES)
    daemon = await start(world)
    await serves_the_healthy(world, daemon)
    usable = {name: event for name, event in placed.items() if not name.startswith(IS_UNUSABLE)}

    async def settled() -> bool:
        return set((await ends(world, usable)).values()) == {SENT}

    await until_found(settled, PATIENCE)
    await serves_the_healthy(world, daemon)
    others = {name: event for name, event in placed.items() if name not in usable}
    assert set((await ends(world, others)).values()) == {WAITS}
    for arguments in (["endpoint", "list"], ["endpoint", "show", "m made -infinity"]):
        for more in ([], ["--json"]):
            shown = await asyncio.to_thread(world.command, *arguments, *more)
            assert shown.returncode == 0, shown.stderr
            if more:
                json.loads(shown.stdout)
    rekeyed = await asyncio.to_thread(world.command, "endpoint", "rekey")
    assert "Traceback" not in rekeyed.stderr
    checked = await asyncio.to_thread(world.command, "check")
    assert "Traceback" not in checked.stderr
    daemon.process.terminate()
    assert await daemon.ended(PATIENCE) == 0
    await serves_the_healthy(world, await start(world))
