"""What merchants ask for by the hundred holds up no operator's command."""

from tests.acceptance.installation import Installation
from tests.waiting import until_found
from webhook_dispatcher.local.behaviour import Behaviour

MERCHANTS = 20
OWN_COMMANDS = 10
"""As many of a merchant's commands as may be open (contract 7)."""
TOKENS = (
    "WITH made AS (INSERT INTO webhook.api_key (client_id, secret_hash, merchant_id, name, created_by) "
    "SELECT 'client' || number, sha256('x'), 'flood' || number, 'a test', 'a test' "
    "FROM generate_series(1, $1) AS made (number) RETURNING id, merchant_id) "
    "INSERT INTO webhook.api_token (hash, api_key_id, expires_at) "
    "SELECT sha256(merchant_id::bytea), id, clock_timestamp() + interval '1 hour' FROM made"
)
ASK = (
    "SELECT count(webhook.own_command(sha256(('flood' || number)::bytea), $2, NULL, NULL, NULL)) "
    "FROM generate_series(1, $1) AS made (number)"
)
HANDLED_BEFORE = "SELECT count(*) FROM webhook.control WHERE requested_by LIKE 'api:%' AND handled_at < $1"
OPEN = "SELECT count(*) FROM webhook.control WHERE requested_by LIKE 'api:%' AND status = 'pending'"


async def flood(installation: Installation) -> None:
    """Let merchants have as many commands waiting as they may."""
    await installation.configure(*(f"flood{number + 1}" for number in range(MERCHANTS)))
    await installation.owner.execute(TOKENS, MERCHANTS)
    merchants = await installation.database.connect("webhook_api")
    try:
        for number in range(OWN_COMMANDS):
            await merchants.execute(ASK, MERCHANTS, "pause" if number % 2 else "resume")
    finally:
        await merchants.close()


async def nothing_is_open(installation: Installation) -> bool:
    return bool(await installation.owner.fetchval(OPEN) == 0)


async def test_operators_commands_wait_for_no_merchants(installation: Installation) -> None:
    await flood(installation)
    await installation.configure("m1")
    installation.receiver.behave("flood1", Behaviour(status=500))  # so that its event is owed
    [event] = await installation.emit_each(["flood1"], 1)
    asked = [
        await installation.ask("cancel", event_id=event.id),
        await installation.ask("pause", "flood1"),
        await installation.ask("set_url", "m1", url="https://example.com/"),
        await installation.ask("resume", "flood2"),
        await installation.ask("pause"),
    ]
    for _ in range(2):
        installation.spawn()
    rows = [await installation.handled(command) for command in asked]
    assert {row["status"] for row in rows} == {"done"}
    before = await installation.owner.fetchval(HANDLED_BEFORE, max(row["handled_at"] for row in rows))
    assert before < MERCHANTS * OWN_COMMANDS / 4
    await until_found(lambda: nothing_is_open(installation))
    [lane] = await installation.admin.fetch(
        "SELECT paused FROM webhook.endpoints WHERE merchant_id = 'flood1'"
    )
    assert lane["paused"], "what it asked for before the operator did has not undone it"
