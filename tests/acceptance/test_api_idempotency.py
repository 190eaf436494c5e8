"""The same request twice has one effect, though two hundred come at once and processes die in between."""

import asyncio
import itertools
import random
import signal
from collections.abc import Mapping
from itertools import count

import aiohttp
import pytest
from aiohttp import web

from tests.acceptance.api_charges import recording
from tests.acceptance.api_fleet import STORM, Fleet, fleet
from tests.acceptance.api_fleet import pooler as pooler
from tests.acceptance.api_merchant import Merchant, Reply, start_api
from tests.acceptance.installation import SEALS, Installation
from webhook_dispatcher.api import catalogue as codes

AT_ONCE = 200
KILLS = 50 if STORM else 10
UNLIMITED = "key=0/PT1M client=0/PT1M address=0/PT1M"
STANDING = """
SELECT
    (SELECT count(*) FROM webhook.audit WHERE person LIKE 'api:%' AND action = 'secret rotated') AS rotated,
    (SELECT count(*) FROM webhook.control WHERE requested_by LIKE 'api:%') AS given,
    (SELECT count(*) FROM webhook.api_request WHERE answer LIKE '%previousSecretUntil%') AS kept_answers,
    (SELECT count(*) FROM webhook.api_request WHERE command_id IS NOT NULL) AS kept_commands
"""
"""One statement, so one snapshot: what was done, and what was kept of it."""


async def at_once(
    processes: Fleet, merchant: Merchant, method: str, path: str, body: object, key: str
) -> list[Reply]:
    """Send the same request two hundred times, over all processes, and see what each was answered."""
    clients = processes.everywhere(merchant, AT_ONCE)
    replies = await asyncio.gather(*(each.ask(method, path, body, key) for each in clients))
    for reply in replies:
        if reply.status == 409:
            assert (reply.code, reply.headers["Retry-After"]) == (codes.STILL_RUNNING, "1")
        else:
            assert reply.status in (200, 201, 202), reply.json
    return replies


def told_once(replies: list[Reply]) -> None:
    """One answer holds the secret; all others of those say that they are told again."""
    answered = [reply for reply in replies if reply.status != 409]
    assert len([reply for reply in answered if reply.data["secret"]]) == 1
    again = [reply for reply in answered if reply.headers.get("Idempotent-Replayed") == "true"]
    assert len(again) == len(answered) - 1
    assert {reply.data["secret"] for reply in again} <= {None}


async def test_two_hundred_equal_requests_have_one_effect(installation: Installation) -> None:
    await installation.start()
    await installation.until_true(SEALS)
    async with (
        fleet(installation, API_LIMITS=UNLIMITED) as processes,
        processes.processes[0].merchant("m1") as merchant,
    ):
        url = {"url": installation.receiver.url("m1")}
        told_once(await at_once(processes, merchant, "PUT", "/v1/webhook", url, "k"))
        made = "SELECT count(*) FROM webhook.audit WHERE person LIKE 'api:%'"
        assert await installation.admin.fetchval(made) == 1

        told_once(await at_once(processes, merchant, "POST", "/v1/webhook/secret", {}, "k"))
        assert await installation.admin.fetchval(made) == 2

        tested = await at_once(processes, merchant, "POST", "/v1/webhook/test", None, "k")
        given = "SELECT count(*) FROM webhook.control WHERE command = 'test_event'"
        assert await installation.admin.fetchval(given) == 1
        assert len({reply.data["eventId"] for reply in tested if reply.status == 200}) == 1


def is_again(reply: Reply) -> bool:
    return reply.headers.get("Idempotent-Replayed") == "true"


async def test_an_answer_is_kept_for_24_hours_and_no_longer(installation: Installation) -> None:
    """What was answered, which command was given, and what the charge service said alike."""

    async def charge_service(request: web.Request) -> web.Response:
        return web.json_response({"of": request.path}, status=201)

    left = (
        "SELECT extract(EPOCH FROM expires_at - clock_timestamp())::float FROM webhook.api_request ORDER BY 1"
    )
    async with recording(charge_service) as url:
        api = await start_api(installation, API_UPSTREAM=url)
        await installation.configure("m1")
        async with api.merchant("m1") as merchant:

            async def ask_all() -> list[Reply]:
                window = {"since": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}
                return [
                    await merchant.ask("POST", "/v1/webhook/pause", None, "k"),
                    await merchant.ask("POST", "/v1/deliveries/retry", window, "k"),
                    await merchant.ask("POST", "/v1/charges", {}, "k"),
                ]

            assert [is_again(reply) for reply in await ask_all()] == [False] * 3
            seconds = [row[0] for row in await installation.owner.fetch(left)]
            assert len(seconds) == 3
            assert 24 * 3600 - 60 < seconds[0] <= seconds[-1] <= 24 * 3600
            assert [is_again(reply) for reply in await ask_all()] == [True] * 3
            # The commands of before have ended, and a day has passed.
            await installation.owner.execute("UPDATE webhook.control SET status = 'done'")
            await installation.owner.execute("UPDATE webhook.api_request SET expires_at = clock_timestamp()")
            assert [is_again(reply) for reply in await ask_all()] == [False] * 3


@pytest.mark.timeout(120 + 15 * KILLS)
async def test_a_process_that_is_killed_leaves_all_or_nothing(installation: Installation) -> None:
    """Each round asks one process for twelve things, kills it, and asks the others for the same."""
    await installation.start()
    await installation.until_true(SEALS)
    async with (
        fleet(installation, 2, API_LIMITS=UNLIMITED) as processes,
        processes.processes[0].merchant("m1") as merchant,
    ):
        url = {"url": installation.receiver.url("m1")}
        assert (await merchant.ask("PUT", "/v1/webhook", url)).status == 201
        broken = unsaid = 0
        ended: list[int] = []
        for number in range(KILLS):
            keys = {f"{number}-{each}": "secret" if each % 3 else "test" for each in range(12)}
            victim, survivor = processes.everywhere(merchant, 2)
            asking = [asyncio.create_task(attempt(victim, key, what)) for key, what in keys.items()]
            # Anywhere between one answer and the next, however fast this machine is.
            for one in itertools.islice(asyncio.as_completed(asking), random.randrange(len(keys))):
                await one
            await asyncio.sleep(random.uniform(0, 0.01))
            processes.processes[0].daemon.kill()
            ended.append(processes.processes[0].daemon.process.wait())
            answered = [each for each in await asyncio.gather(*asking) if each is not None]
            broken += len(keys) - len(answered)
            standing = await consistent(installation)
            unsaid += standing["kept_answers"] + standing["kept_commands"] - 12 * number - len(answered)
            await asyncio.gather(*(settled(survivor, key, what) for key, what in keys.items()))
            standing = await consistent(installation)
            assert (standing["rotated"], standing["given"]) == (8 * (number + 1), 4 * (number + 1))
            processes.processes[0] = processes.processes[1]
            processes.processes[1] = await start_api(installation, API_LIMITS=UNLIMITED)
        assert ended == [-signal.SIGKILL] * KILLS
        print(f"{len(ended)} kills: {broken} requests without an answer, of {unsaid} the effect was there")
        assert broken > KILLS


async def consistent(installation: Installation) -> Mapping[str, int]:
    """See that whatever was done was kept with its key, and the other way round."""
    row = await installation.owner.fetchrow(STANDING)
    assert row is not None
    assert (row["rotated"], row["given"]) == (row["kept_answers"], row["kept_commands"])
    return dict(row)


async def attempt(client: Merchant, key: str, what: str) -> Reply | None:
    """Ask; None: it was not answered."""
    try:
        body: object = {} if what == "secret" else None
        reply = await client.ask("POST", f"/v1/webhook/{what}", body, key)
    except aiohttp.ClientError:
        return None
    return reply


async def settled(client: Merchant, key: str, what: str) -> None:
    """Ask until it is said what has become of it."""
    for _ in count():
        reply = await attempt(client, key, what)
        assert reply is not None
        if reply.status in (200, 202):
            return
        assert reply.status == 503 or reply.code == codes.STILL_RUNNING, reply.json
        await asyncio.sleep(0.05)
