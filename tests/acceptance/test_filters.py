"""Filters that change while daemons are killed: what is wanted comes, in order. Source: contract 2.9."""

import asyncio

from tests.acceptance.installation import Installation, Sent
from tests.waiting import until_found
from webhook_dispatcher.local.arrivals import out_of_order

MERCHANTS = [f"m{number}" for number in range(8)]
ROUNDS = 12
QUICK = {"LEASE": "PT3S", "ATTEMPT_TIMEOUT": "PT2S"}
SETTLED = "SELECT NOT EXISTS (SELECT FROM webhook.outbox)"
NOTHING_OWED = "SELECT NOT EXISTS (SELECT FROM webhook.outbox WHERE merchant_id = '{}')"
NOT_RECALLED = "SELECT NOT EXISTS (SELECT FROM webhook.lane WHERE recalled)"


async def want(installation: Installation, merchant: str, *types: str) -> None:
    await installation.owner.execute(
        "UPDATE webhook.endpoint SET types = $2 WHERE merchant_id = $1", merchant, types or None
    )


async def test_what_was_wanted_when_it_was_written_comes_in_order_whatever_changes_and_dies(
    installation: Installation,
) -> None:
    await installation.configure(*MERCHANTS)
    daemons = [await installation.start(**QUICK) for _ in range(2)]
    due: set[str] = set()
    sent: list[Sent] = []
    for number in range(ROUNDS):
        for merchant in MERCHANTS:
            # A filter is asked in an event's turn: the next would leave out what a killed daemon still owes.
            await installation.until_true(NOTHING_OWED.format(merchant))
            await want(installation, merchant, "charge.failed")
            sent += [await installation.emit(merchant) for _ in range(3)]
            await want(installation, merchant)
            wanted = [
                await installation.emit(merchant),
                await installation.emit(merchant, "{}", "charge.failed"),
            ]
            sent += wanted
            due |= {str(each.id) for each in wanted}
        if number % 5 == 2:
            daemons.pop(0).kill()
            daemons.append(await installation.start(**QUICK))
    await installation.until_true(SETTLED)
    arrivals = installation.receiver.arrivals
    assert due <= {arrival.event_id for arrival in arrivals}
    assert out_of_order(arrivals, {str(each.id): each.seq for each in sent}) == []


async def test_eight_of_nine_that_are_not_wanted_become_no_deliveries_and_can_still_be_read(
    installation: Installation,
) -> None:
    await installation.configure("m")
    daemon = await installation.start()
    told = installation.command("endpoint", "set", "m", "--types", "charge.failed")
    assert (told.returncode, told.stdout) == (
        0,
        "m: types changed; the secret stays (see `endpoint rotate-secret`)\n",
    )
    await installation.until_true(NOT_RECALLED)
    others = [await installation.emit("m", f'{{"id": "ch_{number}"}}') for number in range(40)]
    await installation.emit("m", "{}", "charge.failed")
    await installation.all_delivered(1)
    assert [arrival.type for arrival in installation.receiver.arrivals] == ["charge.failed"]
    assert await installation.count("true") == 1
    assert await installation.owner.fetchval("SELECT count(*) FROM webhook.charges") == 41

    async def counted() -> bool:
        _, text = await daemon.asked("/metrics")
        return f"webhook_unwanted_events_total {len(others)}.0" in text

    await until_found(counted)
    explained = installation.command("explain", "ch_7")
    assert "The endpoint's filter did not want it at " in " ".join(explained.stdout.split())
    assert installation.command("deliveries", "retry", str(others[0].id)).returncode == 1
    tested = await installation.do("test_event", "m")
    assert tested["result"]["outcome"] == "delivered"
    checked = await asyncio.to_thread(installation.command, "check")
    assert "of m; programs for schema 22 are refused" in checked.stdout
    await installation.owner.execute("UPDATE webhook.dispatcher SET schema_version = 22")
    refused = installation.command("endpoint", "set", "m", "--types", "charge.created")
    assert (refused.returncode, "know no filters, and work: " in refused.stderr) == (1, True)
