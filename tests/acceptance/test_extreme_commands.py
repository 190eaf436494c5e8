"""Whatever an admin writes into commands and endpoints, no daemon ends and no other merchant waits."""

import asyncio
import json
from collections.abc import Mapping

import pytest

from tests.acceptance.extreme_values import (
    HIGHEST,
    INSTANTS,
    LOWEST,
    PATIENCE,
    SENT,
    WAITS,
    ends,
    serves_the_healthy,
    start,
)
from tests.acceptance.installation import Installation
from tests.waiting import until_found

pytestmark = pytest.mark.timeout(180)
COMMANDS: dict[str, dict[str, str]] = {
    "command long": {"command": "repeat('x', 100000)"},
    "command empty": {"command": "''"},
    "merchant empty": {"merchant_id": "''"},
    "merchant long": {"merchant_id": "repeat('x', 100000)"},
    "merchant with a line break": {"merchant_id": "E'\\n'"},
    "event of nobody": {"command": "'cancel'", "event_id": "'ffffffff-ffff-ffff-ffff-ffffffffffff'"},
    "args array": {"args": "'[]'"},
    "args null": {"args": "'null'"},
    "args deep": {"args": "(repeat('[', 5000) || repeat(']', 5000))::jsonb"},
    "args long number": {"args": "('{\"limit\":' || repeat('9', 5000) || '}')::jsonb"},
    "limit fraction": {"command": "'retry_failed'", "args": "'{\"limit\":1e999}'"},
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


async def ask(installation: Installation, changed: Mapping[str, str]) -> int:
    """Insert a command as the superuser, who may write every column."""
    columns = {"command": "'set_url'", "merchant_id": "'healthy'", "requested_by": "'test'", **changed}
    return int(
        await installation.owner.fetchval(
            f"INSERT INTO webhook.control ({', '.join(columns)}) OVERRIDING SYSTEM VALUE "
            f"VALUES ({', '.join(columns.values())}) RETURNING id"
        )
    )


async def test_no_value_of_a_command_holds_up_another(installation: Installation) -> None:
    await installation.configure("healthy")
    daemon = await start(installation)
    await serves_the_healthy(installation, daemon)
    # Whoever owns the schema may have dropped the rule.
    await installation.owner.execute(
        "ALTER TABLE webhook.delivery_log DROP CONSTRAINT state_is_delivered_or_failed"
    )
    event_id = await installation.owner.fetchval(
        "UPDATE webhook.delivery_log SET state = 'x', attempts = -32768 RETURNING event_id"
    )
    strange = await ask(installation, {"command": "'retry'", "event_id": f"'{event_id}'"})
    wanted = {await ask(installation, changed): (name, "rejected") for name, changed in COMMANDS.items()}
    wanted |= {await ask(installation, changed): (name, "done") for name, changed in ACCEPTED.items()}
    wanted[strange] = ("state unknown", "rejected")
    last = await installation.ask("resume", "healthy")

    async def all_handled() -> bool:
        assert daemon.process.poll() is None, daemon.log_file.read_text()[-3000:]
        open_ = "SELECT count(*) FROM webhook.control WHERE status IN ('pending', 'running')"
        return not await installation.owner.fetchval(open_)

    try:
        await until_found(all_handled, PATIENCE)
    finally:
        rows = await installation.owner.fetch(
            "SELECT id, status, error_code, error_message FROM webhook.control"
        )
        print([(wanted.get(row["id"]), dict(row)) for row in rows if row["status"] in ("pending", "running")])
    assert (await installation.handled(last))["status"] == "done"
    assert {row["id"]: row["status"] for row in rows if row["id"] in wanted} == {
        command_id: status for command_id, (_, status) in wanted.items()
    }
    for row in rows:
        if row["status"] == "rejected":
            assert row["error_code"] in range(-14005, -14000), wanted[row["id"]]
            assert len(row["error_message"]) < 300
            for internal in ("argument", "datetime", "out of range", "Python", "Error", "codec"):
                assert internal not in row["error_message"], wanted[row["id"]]
    await serves_the_healthy(installation, daemon)
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


async def test_no_value_of_an_endpoint_holds_up_another_merchant(installation: Installation) -> None:
    await installation.configure("healthy")
    placed = {}
    for name, changed in ENDPOINTS.items():
        await installation.configure(f"m {name}")
        columns = ", ".join(f"{column} = {value}" for column, value in changed.items())
        await installation.admin.execute(
            f"UPDATE webhook.endpoint SET {columns} WHERE merchant_id = $1", f"m {name}"
        )
        placed[name] = (await installation.emit(f"m {name}")).id
    await installation.configure(*NAMES)
    daemon = await start(installation)
    await serves_the_healthy(installation, daemon)
    usable = {name: event for name, event in placed.items() if not name.startswith(IS_UNUSABLE)}

    async def settled() -> bool:
        return set((await ends(installation, usable)).values()) == {SENT}

    await until_found(settled, PATIENCE)
    await serves_the_healthy(installation, daemon)
    others = {name: event for name, event in placed.items() if name not in usable}
    assert set((await ends(installation, others)).values()) == {WAITS}
    for arguments in (["endpoint", "list"], ["endpoint", "show", "m made -infinity"]):
        for more in ([], ["--json"]):
            shown = await asyncio.to_thread(installation.command, *arguments, *more)
            assert shown.returncode == 0, shown.stderr
            if more:
                json.loads(shown.stdout)
    rekeyed = await asyncio.to_thread(installation.command, "endpoint", "rekey")
    assert "Traceback" not in rekeyed.stderr
    checked = await asyncio.to_thread(installation.command, "check")
    assert "Traceback" not in checked.stderr
    daemon.process.terminate()
    assert await daemon.ended(PATIENCE) == 0
    await serves_the_healthy(installation, await start(installation))
