"""A merchant reads its events while they are written: none is skipped, none comes twice, all in order."""

import asyncio
import os
import random

import pytest

from tests.acceptance.api_merchant import Merchant, Reply, start_api
from tests.acceptance.installation import Installation
from tests.waiting import until
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.local.behaviour import Behaviour

TOTAL = int(os.environ.get("API_FEED_EVENTS", "3000"))
"""Events of the merchant that are committed while it reads; 100,000 in the long form."""
PRODUCERS = 8
AT_ONCE = 2
"""Transactions that a producer has open at once."""
LEAD = 400
"""How many events the reader may be behind what was committed."""
UNLIMITED = "key=0/PT1M"
INSERT = """
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT CASE WHEN n % 10 > 0 THEN 'm1' ELSE 'm2' END, 'charge.created', json_build_object('n', n)
FROM generate_series(1, $1) AS n
"""
IN_ORDER = """
SELECT id FROM (
    SELECT merchant_id, xid, seq, id FROM webhook.outbox
    UNION ALL
    SELECT merchant_id, xid, seq, event_id FROM webhook.delivery_log
) AS event
WHERE merchant_id = 'm1'
ORDER BY xid, seq
"""


class Producers:
    """Write until so many events are committed, in transactions that overlap and end in any order.

    They stay close to the reader: far behind them it would only see what has long been committed.
    """

    def __init__(self, installation: Installation, total: int, reader: "Reader") -> None:
        self._installation = installation
        self._left = self._total = total
        self._reader = reader

    def _is_followed(self) -> bool:
        return self._total - self._left - len(self._reader.read) < LEAD

    async def run(self) -> None:
        async with asyncio.TaskGroup() as writers:
            for number in range(PRODUCERS * AT_ONCE):
                writers.create_task(self._write(random.Random(number)))

    async def _write(self, chance: random.Random) -> None:
        connection = await self._installation.database.connect("webhook_producer")
        while self._left > 0:
            await until(self._is_followed)
            transaction = connection.transaction()
            await transaction.start()
            if chance.random() < 0.5:
                # Its number is low, and its events come late.
                await connection.execute("SELECT pg_current_xact_id()")
            written = 0
            for _ in range(chance.randint(1, 3)):
                count = chance.randint(1, 20)
                await connection.execute(INSERT, count)
                written += count - count // 10
                await asyncio.sleep(chance.random() * chance.choice([0.0, 0.01, 0.01, 0.2]))
            if chance.random() < 0.1:
                await transaction.rollback()
            else:
                await transaction.commit()
                self._left -= written
        await connection.close()


class Reader:
    """Reads all the while, as a merchant does that keeps its place."""

    def __init__(self, merchant: Merchant) -> None:
        self._merchant = merchant
        self._cursor: str | None = None
        self.read: list[str] = []
        self.pages = self.delayed = 0

    async def step(self) -> bool:
        """Read a page; False where there was nothing more."""
        query = "" if self._cursor is None else f"&cursor={self._cursor}"
        reply = await self._merchant.ask("GET", f"/v1/events?limit=100{query}")
        self._cursor = reply.json["meta"]["nextCursor"]
        self.read += [event["id"] for event in reply.data]
        self.pages += 1
        self.delayed += "delayedSince" in reply.json["meta"]
        return bool(reply.data)


@pytest.mark.timeout(300 + TOTAL // 100)
async def test_nothing_is_skipped_and_nothing_comes_twice_beside_producers_that_overlap(
    installation: Installation,
) -> None:
    """A daemon moves events into the log meanwhile, some of them after a failure."""
    installation.receiver.behave("m1", Behaviour(status=500), *[Behaviour()] * 4)
    await installation.configure("m1")
    await installation.start(RETRY_SCHEDULE="PT0.1S", LOG_LEVEL="info")
    api = await start_api(installation, API_LIMITS=UNLIMITED)
    async with api.merchant("m1") as merchant:
        reader = Reader(merchant)
        producing = asyncio.create_task(Producers(installation, TOTAL, reader).run())
        while not producing.done():
            await reader.step()
        await producing
        while await reader.step():
            pass
        in_order = [str(row["id"]) for row in await installation.owner.fetch(IN_ORDER)]
    print(f"{len(in_order)} events of m1, {reader.pages} pages, {reader.delayed} of them delayed")
    assert len(in_order) >= TOTAL
    assert len(set(reader.read)) == len(reader.read), "none twice"
    assert set(in_order) == set(reader.read), "none skipped"
    assert reader.read == in_order
    assert reader.delayed > 0, "transactions overlapped"


async def _refusal(reply: Reply) -> tuple[int, int, str, str]:
    [detail] = reply.json["error"]["details"]
    return reply.status, reply.code, detail["field"], detail["message"]


async def test_an_event_is_shown_as_it_is_sent_wherever_it_is(installation: Installation) -> None:
    await installation.configure("m1")
    api = await start_api(installation)
    text = '{"id":"ch_1",  "amount":1.10}'
    sent = await installation.emit("m1", text, "charge.succeeded")
    async with api.merchant("m1") as merchant, api.merchant("m2") as other:
        owed = await merchant.ask("GET", "/v1/events")
        await installation.start()
        [arrival] = await installation.arrived(1)
        await installation.settled(sent.id, "delivered", 1)
        finished = await merchant.ask("GET", "/v1/events")
        assert b'"data":[' + arrival.body + b"]" in owed.body
        assert finished.data == owed.data
        assert (await other.ask("GET", "/v1/events")).data == []
        behind = await merchant.ask("GET", f"/v1/events?cursor={owed.json['meta']['nextCursor']}")
        assert behind.data == []
        assert behind.json["meta"]["nextCursor"], "to go on with"


async def test_cursors_that_are_refused_say_why(installation: Installation) -> None:
    api = await start_api(installation)
    await installation.emit("m1")
    async with api.merchant("m1") as merchant, api.merchant("m2") as other:
        cursor = (await merchant.ask("GET", "/v1/events")).json["meta"]["nextCursor"]
        foreign = await _refusal(await other.ask("GET", f"/v1/events?cursor={cursor}"))
        assert foreign == (
            422,
            codes.VALIDATION_FAILED,
            "cursor",
            "This cursor is not of this list: begin again without it.",
        )
        since = "since=2026-01-01T00:00:00Z"
        both = await _refusal(await merchant.ask("GET", f"/v1/events?cursor={cursor}&{since}"))
        assert both[2:] == ("since", "Give this or a cursor, not both.")
        assert len((await merchant.ask("GET", f"/v1/events?{since}")).data) == 1

        for change, said in (
            ("next_xid = '1000000000'", "Some of what follows this cursor is not kept any more"),
            ("next_xid = '0'", None),
        ):
            await installation.owner.execute(f"UPDATE webhook.milestone SET {change}")
            reply = await merchant.ask("GET", f"/v1/events?cursor={cursor}")
            assert (reply.status == 200) if said is None else said in (await _refusal(reply))[3]

        renamed = "ALTER FUNCTION webhook.timeline() RENAME TO old_timeline"
        await installation.owner.execute(
            f"{renamed}; CREATE FUNCTION webhook.timeline() RETURNS text LANGUAGE sql RETURN 'FFFFFFFF'"
        )
        refused = await _refusal(await merchant.ask("GET", f"/v1/events?cursor={cursor}"))
        assert "from before the database was replaced" in refused[3]
