"""What operations answer when a daemon is late, refuses, or is kept from carrying a command out."""

import asyncio
from uuid import uuid4

from tests.acceptance.api_merchant import command_path, start_api
from tests.acceptance.installation import Installation
from tests.waiting import Yardstick, until, until_found
from webhook_dispatcher.api import catalogue as codes

PENDING = "SELECT max(id) FROM webhook.control WHERE status = 'pending'"
WITHDRAW = "SELECT webhook.withdraw_command($1, 'ana')"
MISSPELL = """
CREATE FUNCTION public.misspell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.command := 'paws';
    RETURN NEW;
END
$$;
CREATE TRIGGER misspelt BEFORE INSERT ON webhook.control FOR EACH ROW EXECUTE FUNCTION public.misspell();
"""
"""A fault of ours, on the way to the daemon."""


async def test_a_command_is_waited_for_for_two_seconds_and_asked_for_from_then_on(
    installation: Installation,
) -> None:
    await installation.configure("m1")
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        with Yardstick() as machine:
            late = await merchant.ask("POST", "/v1/webhook/pause", None, "k")
        assert (late.status, late.data["status"]) == (202, "pending")
        # Two at most for the command, and as much for all else as a busy machine takes.
        assert 2000 <= late.json["meta"]["processingTimeMs"] < 1000 * machine.allows(3.5)
        path = f"/v1/commands/{late.data['commandId']}"
        number = await installation.owner.fetchval("SELECT id FROM webhook.control")
        assert path == await command_path(installation, number), "it tells no number"
        for other in (str(number), str(uuid4()), f"{late.data['commandId']}0"):
            assert (await merchant.ask("GET", f"/v1/commands/{other}")).code == codes.NOT_FOUND
        assert (await merchant.ask("GET", path)).data["status"] == "pending"
        again = await merchant.ask("POST", "/v1/webhook/pause", None, "k")
        assert (again.status, again.data) == (202, late.data), "it is waited for again"
        await installation.start()

        async def is_done() -> bool:
            return bool((await merchant.ask("GET", path)).data["status"] == "done")

        await until_found(is_done)
        at_last = await merchant.ask("POST", "/v1/webhook/pause", None, "k")
        assert (at_last.status, at_last.data) == (200, {"paused": True})
        assert at_last.headers["Idempotent-Replayed"] == "true"
    assert await installation.owner.fetchval("SELECT count(*) FROM webhook.control") == 1


async def test_a_command_that_operators_take_back_is_not_allowed_by_the_state(
    installation: Installation,
) -> None:
    await installation.configure("m1")
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        asked = asyncio.create_task(merchant.ask("POST", "/v1/webhook/pause", None, "k"))
        await installation.until_true(PENDING)
        command = await installation.admin.fetchval(PENDING)
        assert await installation.admin.fetchval(WITHDRAW, command)
        for reply in (await asked, await merchant.ask("POST", "/v1/webhook/pause", None, "k")):
            assert (reply.status, reply.code) == (409, codes.STATE_FORBIDS)
        shown = (await merchant.ask("GET", await command_path(installation, command))).data
        assert (shown["status"], shown["errorCode"]) == ("withdrawn", None)


async def test_a_command_that_a_daemon_finds_malformed_is_our_own_fault(installation: Installation) -> None:
    await installation.start()
    await installation.configure("m1")
    await installation.owner.execute(MISSPELL)
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        reply = await merchant.ask("POST", "/v1/webhook/pause", None, "k")
        assert (reply.status, reply.code) == (500, codes.INTERNAL)
        assert (b"14005" in reply.body, b"unknown command" in reply.body) == (False, False)
        assert reply.json["error"]["details"] == []
        [line] = await until(lambda: api.daemon.log("command.rejected"))
        assert (line["level"], line["code"]) == ("error", -14005)
        assert "unknown command" in line["error"]
        assert line["request_id"] == reply.json["meta"]["requestId"]
        shown = (await merchant.ask("GET", await command_path(installation, line["id"]))).data
        assert (shown["status"], shown["errorCode"]) == ("rejected", None)
