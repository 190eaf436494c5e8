"""What the console's pages are told, and who is told it: on a real database, as webhook_console."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from uuid import uuid4

import asyncpg
import pytest

from tests.integration.console_readers import console_pool, reader_of
from tests.integration.storage_harness import LEASE, StorageHarness
from tests.integration.test_routing import ADD, route
from webhook_dispatcher.domain.command import LONG_AGO, RECOVERABLE, LeaveOut, Recover, Skip
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.domain.merchant import MerchantState
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.console import deliveries as deliveries_module
from webhook_dispatcher.storage.console import merchants as merchants_module
from webhook_dispatcher.storage.console import previews as previews_module
from webhook_dispatcher.storage.console.commands import Became, CommandFilter, Commands
from webhook_dispatcher.storage.console.database import SessionOver
from webhook_dispatcher.storage.console.deliveries import NEWEST, Deliveries, DeliveryFilter, DeliveryPage
from webhook_dispatcher.storage.console.delivery import Stories
from webhook_dispatcher.storage.console.health import Healths
from webhook_dispatcher.storage.console.merchants import (
    MerchantOrder,
    MerchantPage,
    MerchantRow,
    Merchants,
)
from webhook_dispatcher.storage.console.overview import Overviews, by_outcome
from webhook_dispatcher.storage.console.previews import Previews
from webhook_dispatcher.storage.console.search import Search
from webhook_dispatcher.storage.controls import PostgresControls

EVERYTHING = DeliveryFilter()
ATTEMPT = """
INSERT INTO webhook.attempt_log (
    event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome, reason,
    response_excerpt
)
VALUES (
    $1, $2, 1, 'schedule', clock_timestamp() - $3::interval, 5, 500, 'status', '500', 'an echo of the payload'
)
"""
ATTEMPT_AGO = """
INSERT INTO webhook.attempt_log (event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome)
VALUES ($1, 'm', $2, $3, clock_timestamp() - $4 * interval '1 minute', 60000, 'timeout')
"""
COMMAND_AGO = """
INSERT INTO webhook.control (command, merchant_id, requested_by, status, created_at)
VALUES ($1, $2, $3, 'done', clock_timestamp() - $4 * interval '1 minute')
RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """An operator and a viewer at the console of a database."""

    pool: asyncpg.Pool
    operator: bytes
    viewer: bytes
    storage: StorageHarness

    @property
    def db(self) -> asyncpg.Connection:
        return self.storage.db

    async def page(
        self, wanted: DeliveryFilter = EVERYTHING, after: str | None = None, limit: int = 100
    ) -> DeliveryPage:
        return await Deliveries(self.pool).list(self.operator, wanted, after, limit)

    async def seqs(self, wanted: DeliveryFilter = EVERYTHING, limit: int = 2) -> list[int]:
        """Walk all pages."""
        found, after = list[int](), None
        while True:
            page = await self.page(wanted, after, limit)
            found += [delivery.seq for delivery in page.deliveries]
            if page.next is None:
                return found
            after = page.next

    async def merchants(self, order: MerchantOrder, prefix: str = "", limit: int = 2) -> list[str]:
        """Walk all pages of a list."""
        found, after = list[str](), None
        while True:
            page = await self.merchant_page(order, prefix, after, limit)
            found += [merchant.merchant_id for merchant in page.merchants]
            if page.next is None:
                return found
            after = page.next

    async def merchant_page(
        self, order: MerchantOrder, prefix: str = "", after: str | None = None, limit: int = 100
    ) -> MerchantPage:
        return await Merchants(self.pool).list(self.operator, order, prefix, after, limit)


@pytest.fixture
async def console(storage: StorageHarness) -> AsyncIterator[Reading]:
    operator, viewer = [await reader_of(storage.db, role) for role in ("operator", "viewer")]
    async with console_pool(storage.database) as pool:
        yield Reading(pool, operator, viewer, storage)


async def test_the_newest_come_first_from_outbox_and_log(console: Reading) -> None:
    first, second, third = await console.storage.insert("m", '{"id": "ch_1"}', "{}", "{}")
    (other,) = await console.storage.insert("other")
    (due,) = await console.storage.insert_due("m", 60)
    await console.storage.finish(first, second, state="failed")
    assert await console.seqs() == [due, other, third, second, first]
    assert await console.seqs(DeliveryFilter(merchant_id="m")) == [due, third, second, first]
    oldest = (await console.page()).deliveries[-1]
    assert (oldest.charge_id, oldest.state, oldest.failed_reason) == ("ch_1", "failed", "exhausted")
    assert (oldest.last_outcome, oldest.last_status, oldest.merchant_id) == ("status", 500, "m")


@pytest.mark.parametrize("merchant_id", [None, "m"])
async def test_filters_find_what_matches_and_nothing_else(console: Reading, merchant_id: str | None) -> None:
    delivered, failed, pending = await console.storage.insert("m", "{}", "{}", "{}")
    (due,) = await console.storage.insert_due("m", 60)
    await console.storage.finish(delivered)
    await console.storage.finish(failed, state="failed")
    found = {
        state: await console.seqs(DeliveryFilter(merchant_id, state))
        for state in ("delivered", "failed", "pending", "pending_retry")
    }
    assert found == {
        "delivered": [delivered],
        "failed": [failed],
        "pending": [pending],
        "pending_retry": [due],
    }
    assert await console.seqs(DeliveryFilter(merchant_id, type="charge.failed")) == []
    assert await console.seqs(DeliveryFilter(merchant_id, outcome="status")) == [failed]
    assert await console.seqs(DeliveryFilter(merchant_id, status=200)) == [delivered]
    assert await console.seqs(DeliveryFilter(merchant_id, "failed", status=404)) == []


@pytest.mark.parametrize("merchant_id", [None, "m"])
async def test_times_are_of_one_time_and_narrowing_loses_nothing(
    console: Reading, merchant_id: str | None
) -> None:
    first, second, third = await console.storage.insert("m", "{}", "{}", "{}")
    cut = await console.db.fetchval("SELECT created_at FROM webhook.outbox WHERE seq = $1", second)
    assert await console.seqs(DeliveryFilter(merchant_id, since=cut)) == [third, second]
    assert await console.seqs(DeliveryFilter(merchant_id, until=cut)) == [first]
    assert await console.seqs(DeliveryFilter(merchant_id, since=cut, until=cut + timedelta(days=1))) == [
        third,
        second,
    ]
    await console.storage.finish(third, state="failed", ago=timedelta(hours=2))
    await console.storage.finish(first, state="failed", ago=timedelta(hours=1))
    midway = await console.storage.now() - timedelta(minutes=90)
    for state in (None, "failed"):
        failed = DeliveryFilter(merchant_id, state)
        assert {*await console.seqs(replace(failed, since=cut))} - {second} == {third}
        assert await console.seqs(replace(failed, until=cut)) == [first]
        assert await console.seqs(replace(failed, since=midway, of_end=True)) == [first]
        assert await console.seqs(replace(failed, until=midway, of_end=True)) == [third]
    ordered = [first, third] if merchant_id is None else [third, first]
    assert await console.seqs(DeliveryFilter(merchant_id, "failed")) == ordered


async def test_a_range_of_time_is_looked_for_between_the_numbers_of_its_minutes(console: Reading) -> None:
    """The look is as short as two rows: without the numbers it would not get to the oldest."""
    seqs = await console.storage.insert("m", *["{}"] * 40)
    now = await console.storage.now()
    for minute, seq in ((60, seqs[9]), (40, seqs[29])):
        await console.db.execute(
            "INSERT INTO webhook.seq_by_minute VALUES (date_trunc('minute', $1::timestamptz), $2)",
            now - timedelta(minutes=minute),
            seq,
        )
    await console.db.execute(
        "UPDATE webhook.outbox SET created_at = $1::timestamptz - interval '55 minutes' "
        "WHERE seq > $2 AND seq <= $3",
        now,
        seqs[9],
        seqs[29],
    )
    wanted = DeliveryFilter(since=now - timedelta(minutes=57), until=now - timedelta(minutes=52))
    page = await console.page(wanted, limit=10)
    assert [delivery.seq for delivery in page.deliveries] == seqs[29:19:-1]
    rows = await console.pool.fetch(
        deliveries_module._STATEMENTS["show_numbers"].text, console.operator, wanted.since, wanted.until, None
    )
    assert [tuple(row) for row in rows] == [(seqs[9], seqs[29] + 1, False)]


@pytest.mark.parametrize("state", [None, "failed"])
async def test_a_look_that_ends_says_how_far_it_got_and_goes_on_there(
    console: Reading, state: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries_module, "LOOK", 3)
    seqs = await console.storage.insert("m", *["{}"] * 8)
    await console.db.execute("UPDATE webhook.outbox SET type = 'charge.failed' WHERE seq = $1", seqs[0])
    for ago, seq in enumerate(reversed(seqs)):
        await console.storage.finish(seq, state="failed", ago=timedelta(seconds=ago))
    wanted = DeliveryFilter(state=state, type="charge.failed")
    first = await console.page(wanted)
    assert (first.deliveries, first.next is not None) == ([], True)
    last = await console.db.fetchrow("SELECT * FROM webhook.delivery_log WHERE seq = $1", seqs[5])
    assert last is not None
    assert first.looked_back_to == (last["finished_at"] if state else last["created_at"])
    assert await console.seqs(wanted) == [seqs[0]]


@pytest.mark.parametrize(
    "wanted", [EVERYTHING, DeliveryFilter(merchant_id="m"), DeliveryFilter(state="failed")], ids=repr
)
async def test_pages_neither_skip_nor_repeat_while_rows_move(
    console: Reading, wanted: DeliveryFilter
) -> None:
    seqs = await console.storage.insert("m", *["{}"] * 12)
    is_failed = wanted.state == "failed"
    if is_failed:
        for seq in seqs:
            await console.storage.finish(seq, state="failed")
    found, after = list[int](), None
    for moved in range(6):
        page = await console.page(wanted, after, limit=2)
        found += [delivery.seq for delivery in page.deliveries]
        after = page.next
        if not is_failed:
            await console.storage.finish(seqs[moved], seqs[11 - moved], state="delivered")
        await console.storage.insert("m")
        if after is None:
            break
    assert found == seqs[::-1]


async def test_an_event_and_a_charge_are_found_with_all_filters_beside(console: Reading) -> None:
    first, second = await console.storage.insert("m", '{"id": "ch_1"}', '{"id": "ch_1"}')
    await console.storage.finish(first)
    event_id = await console.storage.id_of(first)
    assert await console.seqs(DeliveryFilter(event_id=event_id)) == [first]
    assert await console.seqs(DeliveryFilter(charge_id="ch_1"), limit=1) == [second, first]
    assert await console.seqs(DeliveryFilter("other", charge_id="ch_1")) == []
    assert await console.seqs(DeliveryFilter("m", "pending", charge_id="ch_1")) == [second]
    assert await console.seqs(DeliveryFilter("m", event_id=uuid4())) == []
    await console.db.execute("UPDATE webhook.state SET has_charge_index = false")
    assert (await console.page(DeliveryFilter(charge_id="ch_1"))) == DeliveryPage([], is_unindexed=True)


async def _two_endpoints(console: Reading) -> tuple[str, str]:
    """Give merchant m two endpoints, and return their lanes."""
    first, second = lane_named("m", 1), lane_named("m", 2)
    await console.db.execute(
        "INSERT INTO webhook.lane (merchant_id, routed_at) VALUES ('m', clock_timestamp()), ($1, NULL)", first
    )
    await console.storage.configure(first, second)
    return first, second


async def test_of_several_endpoints_one_is_asked_for_what_it_is_owed_and_was_sent(console: Reading) -> None:
    first, second = await _two_endpoints(console)
    (waiting,) = await console.storage.insert("m", '{"id": "ch_1"}')
    (owed,) = await console.storage.insert(first, '{"id": "ch_1"}')
    (ended,) = await console.storage.insert(second, '{"id": "ch_1"}')
    (due,) = await console.storage.insert_due(second, 60)
    await console.storage.finish(ended, state="failed")
    for charge_id, of_second in ((None, [due, ended]), ("ch_1", [ended])):
        wanted = DeliveryFilter("m", charge_id=charge_id)
        assert await console.seqs(replace(wanted, endpoint=1)) == [owed, waiting]
        assert await console.seqs(replace(wanted, endpoint=2)) == of_second
        assert await console.seqs(replace(wanted, endpoint=2, state="failed")) == [ended]
        assert await console.seqs(replace(wanted, endpoint=3)) == []
    failed = Recover("m", LONG_AGO, await console.storage.now(), 1000, ("failed",))
    for number in (1, 2):
        preview = await Previews(console.pool).recovery(console.viewer, replace(failed, endpoint=number))
        assert preview.total == number - 1


@pytest.mark.parametrize("is_owed", [True, False])
async def test_what_was_routed_or_handed_on_later_is_found_by_its_time(
    console: Reading, is_owed: bool
) -> None:
    """Of both merchants two hours ago, m's in lanes since now: the numbers of then end before them."""
    await console.storage.configure("other")
    [direct] = await console.storage.insert_due("other", 60)
    copies = [
        seq for lane in await _two_endpoints(console) for seq in await console.storage.insert_due(lane, 60)
    ]
    await console.db.execute("UPDATE webhook.outbox SET created_at = clock_timestamp() - interval '2 hours'")
    now = await console.storage.now()
    await console.db.execute(
        "INSERT INTO webhook.seq_by_minute VALUES (date_trunc('minute', $1::timestamptz), $2)",
        now - timedelta(minutes=90),
        direct,
    )
    wanted = Recover("m", LONG_AGO, now - timedelta(hours=1.9), 1000, ("pending_retry",), retries=7)
    preview = await Previews(console.pool).recovery(console.viewer, wanted)
    assert preview.total == 2
    if not is_owed:
        await console.storage.finish(direct, *copies)
    of_then = DeliveryFilter(since=now - timedelta(hours=2.1), until=now - timedelta(hours=1.9))
    assert await console.seqs(of_then) == [direct]
    assert await console.seqs(replace(of_then, merchant_id="m")) == copies[::-1]
    assert await console.seqs(replace(of_then, merchant_id="m", endpoint=1)) == copies[:1]
    numbers = deliveries_module._STATEMENTS["show_numbers"].text
    # Of who has copies a day later ends it.
    ends = {None: (direct + 1, False), "other": (direct + 1, False), "m": (NEWEST, True)}
    for merchant_id, end in ends.items():
        [row] = await console.pool.fetch(numbers, console.operator, of_then.since, of_then.until, merchant_id)
        assert (row["end_seq"], row["has_copies"]) == end


async def test_viewers_see_no_payload_no_answer_and_no_audit(console: Reading) -> None:
    await console.storage.configure("m")
    (seq,) = await console.storage.insert("m", '{ "id" :"ch_1"}')
    await console.storage.finish(seq, state="failed")
    event_id = await console.storage.id_of(seq)
    await console.db.execute(ATTEMPT, event_id, "m", timedelta(0))
    seen, unseen = [
        await Stories(console.pool).get(who, event_id) for who in (console.operator, console.viewer)
    ]
    assert seen is not None
    assert unseen is not None
    assert (seen.payload, seen.facts.attempts[0].response_excerpt) == (
        b'{ "id" :"ch_1"}',
        "an echo of the payload",
    )
    assert (unseen.payload, unseen.facts.attempts[0].response_excerpt) == (None, None)
    assert unseen.facts.attempts[0].reason == "500"
    audits = [(await Commands(console.pool).audit(who)).entries for who in (console.operator, console.viewer)]
    assert ([entry.action for entry in audits[0]], audits[1]) == (["endpoint set"], [])
    for view in ("console_payloads", "console_audit"):
        rows = await console.pool.fetch(
            f"SELECT found.* FROM webhook.console_reader($1) AS me CROSS JOIN LATERAL "
            f"(SELECT * FROM webhook.{view} WHERE me.name IS NOT NULL OFFSET 0) AS found",
            console.viewer,
        )
        assert rows == []


ONE_OF_EACH = """
INSERT INTO webhook.control (command, requested_by) VALUES ('pause', 'ana');
INSERT INTO webhook.command_chunk (command_id, place, seqs) VALUES (1, 0, '{1}');
INSERT INTO webhook.dispatcher VALUES ('a', 'h', '1', now(), now(), 0, 0, true, '{}', '{}', '{}');
INSERT INTO webhook.attempts_by_minute VALUES (now(), 'delivered', 1);
INSERT INTO webhook.seq_by_minute VALUES (now(), 1);
INSERT INTO webhook.sealing_key (key_id, public_half) VALUES ('k1', sha256(''));
SELECT webhook.create_api_key('m', 'client', sha256('secret'), 'shop', 'ana')
"""
OF_ITS_OWN = {"state", "current_sealing_key"}
"""What its role may read without a session: which schema this is, and what secrets are sealed with."""


async def test_the_role_reads_nothing_without_a_session(console: Reading) -> None:
    await console.storage.configure("m")
    finished, _ = await console.storage.insert("m", "{}", "{}")
    await console.storage.finish(finished)
    await console.db.execute(ATTEMPT, await console.storage.id_of(finished), "m", timedelta(0))
    await console.db.execute(ONE_OF_EACH)
    names = await console.db.fetch(
        "SELECT relname AS name FROM pg_class WHERE relnamespace = 'webhook'::regnamespace "
        "AND relkind IN ('r', 'p', 'v') AND has_table_privilege('webhook_console', oid, 'SELECT')"
    )
    views = {row["name"] for row in names} - OF_ITS_OWN
    assert {name for name in views if not name.startswith("console_")} == set()
    shown = (
        "SELECT found.* FROM webhook.console_reader($1) AS me "
        "CROSS JOIN LATERAL (SELECT * FROM webhook.{} WHERE me.name IS NOT NULL OFFSET 0) AS found"
    )
    for name in sorted(views):
        assert await console.pool.fetch(f"SELECT * FROM webhook.{name}") == [], name
        assert await console.pool.fetch(shown.format(name), console.operator) != [], name


async def test_a_session_that_is_over_is_told_from_an_empty_page(console: Reading) -> None:
    assert await console.seqs() == []
    await console.db.execute("UPDATE webhook.console_session SET revoked_at = clock_timestamp()")
    asked = [
        Deliveries(console.pool).list(console.operator, EVERYTHING),
        Merchants(console.pool).list(console.operator),
        Merchants(console.pool).get(console.operator, "m"),
        Stories(console.pool).get(console.operator, uuid4()),
        Commands(console.pool).list(console.operator),
        Commands(console.pool).audit(console.viewer),
        Overviews(console.pool).get(console.operator),
        Healths(console.pool).get(console.viewer),
        Search(console.pool).find(console.viewer, "m"),
    ]
    for question in asked:
        with pytest.raises(SessionOver):
            await question


async def test_a_story_has_what_explain_has(console: Reading) -> None:
    await console.storage.configure("m")
    before, seq = await console.storage.insert("m", "{}", "{}")
    await console.db.execute(
        "INSERT INTO webhook.control (command, event_id, requested_by) VALUES ('retry', $1, 'console:ana')",
        await console.storage.id_of(seq),
    )
    await console.db.execute(
        "INSERT INTO webhook.control (command, merchant_id, requested_by, status, handled_at) "
        "VALUES ('pause', 'm', 'cli:bob', 'done', clock_timestamp())"
    )
    story = await Stories(console.pool).get(console.viewer, await console.storage.id_of(seq))
    assert story is not None
    facts = story.facts
    assert (facts.delivery.state, facts.circumstances.ahead, facts.circumstances.head_seq) == (
        "pending",
        1,
        before,
    )
    assert [command.requested_by for command in facts.commands] == ["console:ana"]
    assert facts.merchant_pause is not None
    assert (facts.merchant_pause.requested_by, facts.general_pause, story.others) == ("cli:bob", None, [])
    assert facts.circumstances.url == "https://example.com/"


async def test_a_story_has_what_stood_around_it(console: Reading) -> None:
    earlier, seq = await console.storage.insert("m", "{}", "{}")
    await console.db.execute(
        "UPDATE webhook.outbox SET created_at = created_at - interval '1 hour' WHERE seq = $1", seq
    )
    event, before = await console.storage.id_of(seq), await console.storage.id_of(earlier)
    await console.storage.finish(earlier, seq)
    await console.storage.configure("m")
    for event_id, attempt, trigger, ago in (
        (before, 1, "schedule", 58),
        (before, 2, "schedule", 52),
        (event, 1, "schedule", 50),
        (event, 2, "manual", 10),
    ):
        await console.db.execute(ATTEMPT_AGO, event_id, attempt, trigger, ago)
    given = {
        about: await console.db.fetchval(COMMAND_AGO, *about)
        for about in (
            ("recover", None, "long ago", 300),
            ("pause", None, "over before", 200),
            ("resume", None, "over before", 190),
            ("pause", "m", "goes on into it", 100),
            ("retry_failed", None, "about all", 40),
            ("skip", "other", "about another", 40),
            ("resume", "m", "ends it", 30),
            ("set_url", "m", "told by the audit", 20),
        )
    }
    await console.db.execute(
        "INSERT INTO webhook.command_chunk (command_id, place, seqs, at) "
        "VALUES ($1, 0, $2, clock_timestamp() - interval '11 minutes')",
        given["recover", None, "long ago", 300],
        [seq],
    )
    stories = Stories(console.pool)
    operators, viewers = [await stories.get(session, event) for session in (console.operator, console.viewer)]
    assert operators is not None
    assert viewers is not None
    assert operators.facts.predecessor is not None
    assert (operators.facts.predecessor.event_id, operators.facts.predecessor.seq) == (before, earlier)
    assert [command.requested_by for command in operators.around.commands] == [
        *("long ago", "goes on into it", "about all", "ends it")
    ]
    assert operators.around.commands == viewers.around.commands
    assert [change.action for change in operators.around.changes] == []
    await console.db.execute("UPDATE webhook.delivery_log SET finished_at = clock_timestamp()")
    changed = await stories.get(console.operator, event)
    assert changed is not None
    assert [change.action for change in changed.around.changes] == ["endpoint set"]
    assert viewers.around.changes == []


@pytest.mark.parametrize("number", [1, 2])
async def test_a_story_has_what_was_asked_for_its_endpoint_and_not_for_another(
    console: Reading, number: int
) -> None:
    lanes = await _two_endpoints(console)
    [seq] = await console.storage.insert(lanes[number - 1], "{}")
    event_id = await console.storage.id_of(seq)
    await console.db.execute("UPDATE webhook.outbox SET created_at = clock_timestamp() - interval '1 hour'")
    asked = [
        ("pause", None, 1, 100),
        ("pause", None, 2, 90),
        # Of one that was paused, the end of the other's pause is no end.
        ("resume", None, 3 - number, 80),
        ("retry_failed", None, 1, 50),
        ("retry_failed", None, 2, 45),
        ("pause", None, None, 40),
        ("resume", None, 1, 30),
        ("resume", None, 2, 20),
        ("retry", event_id, 1, 15),
        ("retry", event_id, 2, 14),
        ("retry", event_id, None, 13),
    ]
    for name, event, endpoint, ago in asked:
        given = await console.db.fetchval(
            COMMAND_AGO, name, None if event else "m", f"{name} {endpoint}", ago
        )
        await console.db.execute(
            "UPDATE webhook.control SET event_id = $2, args = $3 WHERE id = $1",
            given,
            event,
            "{}" if endpoint is None else f'{{"endpoint": {endpoint}}}',
        )
    await console.db.execute("UPDATE webhook.endpoint SET url = url || merchant_id")
    story = await Stories(console.pool).get(console.operator, event_id)
    assert story is not None
    assert [command.requested_by for command in story.around.commands] == [
        *(f"pause {number}", f"retry_failed {number}", "pause None", f"resume {number}")
    ]
    assert [command.requested_by for command in story.facts.commands] == [f"retry {number}", "retry None"]
    urls = [change.url_after for change in story.around.changes if change.action == "url changed"]
    assert urls == [f"https://example.com/{lanes[number - 1]}"]


async def _fill_for_previews(console: Reading) -> None:
    """Have deliveries of every sort that a mass command takes, or leaves out."""
    await console.storage.configure(*("m", "n", "$platform"))
    for merchant in ("m", "n", "none", "p"):
        seqs = await console.storage.insert(merchant, *['{"id": "ch_1"}'] * 9)
        await console.storage.finish(seqs[0], seqs[1])
        await console.storage.finish(*seqs[2:6], state="failed")
        await console.storage.finish(seqs[6], state="failed", ago=timedelta(hours=3))
        for seq, reason in ((seqs[3], "skipped"), (seqs[4], "cancelled")):
            await console.db.execute(
                "UPDATE webhook.delivery_log SET failed_reason = $2 WHERE seq = $1", seq, reason
            )
        await console.db.execute(
            "UPDATE webhook.delivery_log SET type = 'webhook.test' WHERE seq = $1", seqs[5]
        )
        await console.db.execute(
            "UPDATE webhook.delivery_log SET type = 'charge.failed' WHERE seq = $1", seqs[1]
        )
        await console.storage.insert_due(merchant, 60, 60, -60)
    # Notices to the platform are of types of their own, which the log does not hold anybody to.
    await console.db.execute(
        "UPDATE webhook.delivery_log SET merchant_id = '$platform' WHERE merchant_id = 'p'"
    )


ALL_STATES = tuple(map(str, RECOVERABLE))


RECOVERIES: Sequence[tuple[tuple[str, ...], tuple[str, ...] | None, str | None]] = (
    (ALL_STATES, None, None),
    (("failed",), None, None),
    (("skipped", "pending_retry"), None, None),
    (ALL_STATES, ("charge.failed",), None),
    (ALL_STATES, None, "ch_1"),
    (ALL_STATES, None, "ch_2"),
)


@pytest.mark.parametrize("merchant_id", [None, "m", "none", "$platform"])
async def test_a_preview_counts_what_the_command_line_counts(
    console: Reading, merchant_id: str | None
) -> None:
    await _fill_for_previews(console)
    now = await console.storage.now()
    previews, command_line = Previews(console.pool), Administration(console.db)
    await console.db.execute("UPDATE webhook.lane SET failing_since = $1 WHERE merchant_id = 'm'", now)
    await console.db.execute("UPDATE webhook.outbox SET attempts = 7 + seq % 2, attempts_by_hand = 1")
    for kinds, leave_out in product(RECOVERIES, ((), ("last_attempts",), ("failing",), tuple(LeaveOut))):
        left_out = tuple(map(str, leave_out))
        hour_ago = now - timedelta(hours=1)
        wanted = Recover(merchant_id, hour_ago, now, 1000, *kinds, leave_out=left_out, retries=7)
        shown, said = (
            await previews.recovery(console.viewer, wanted),
            await command_line.preview_recovery(wanted),
        )
        assert (shown.kinds, shown.has_more) == (said.kinds, False), (kinds, leave_out)
        counted = [(each.last_attempts, each.failing, each.failing_merchants) for each in (shown, said)]
        assert counted[0] == counted[1], (kinds, leave_out)
        if merchant_id == "m" and kinds == RECOVERIES[0]:
            assert counted[0][0] == 1, "of two that wait the next attempt of one is the last"
        assert (shown.merchants, shown.more_merchants) == (said.merchants if merchant_id is None else {}, 0)
    await console.db.execute("UPDATE webhook.outbox SET type = 'charge.failed' WHERE seq % 3 = 0")
    half = await console.db.fetchval("SELECT created_at FROM webhook.outbox ORDER BY seq OFFSET 9 LIMIT 1")
    for since, (_, *which) in product((LONG_AGO, half), RECOVERIES):
        skip = Skip(merchant_id, now, since, *which)  # type: ignore[arg-type]
        shown, said = await previews.skip(console.viewer, skip), await command_line.preview_skip(skip)
        assert (shown.kinds, shown.types, shown.has_more) == (said.kinds, said.types, False), which
        assert (shown.merchants, shown.more_merchants) == (said.merchants if merchant_id is None else {}, 0)
    for endpoint in (1, 2) if merchant_id == "m" else ():
        wanted = Recover(merchant_id, LONG_AGO, now, 1000, ALL_STATES, endpoint=endpoint)
        skip = Skip(merchant_id, now, endpoint=endpoint)
        counts = [
            (await previews.recovery(console.viewer, wanted), await previews.skip(console.viewer, skip)),
            (await command_line.preview_recovery(wanted), await command_line.preview_skip(skip)),
        ]
        shown_kinds, said_kinds = ([each.kinds for each in both] for both in counts)
        assert shown_kinds == said_kinds
        assert [bool(kinds) for kinds in said_kinds] == 2 * [endpoint == 1]


async def test_a_preview_of_one_endpoint_counts_what_the_command_line_counts(console: Reading) -> None:
    first, second = await _two_endpoints(console)
    await console.storage.insert("m")
    for lane in (first, second):
        await console.storage.insert(lane)
    waiting = [(await console.storage.insert_due(lane, 60))[0] for lane in ("m", first, second, second)]
    ended = [(await console.storage.insert("m"))[0] for _ in range(2)]
    await console.storage.finish(*ended, waiting[-1], state="failed")
    await console.db.execute("UPDATE webhook.delivery_log SET attempts = 0 WHERE seq = $1", ended[0])
    now = await console.storage.now()
    previews, command_line = Previews(console.pool), Administration(console.db)
    for endpoint, owed, again in ((1, 3, 3), (2, 2, 2)):
        skip = Skip("m", now, endpoint=endpoint)
        wanted = Recover("m", LONG_AGO, now, 1000, ("failed", "pending_retry"), retries=7, endpoint=endpoint)
        shown = await previews.skip(console.viewer, skip), await previews.recovery(console.viewer, wanted)
        said = await command_line.preview_skip(skip), await command_line.preview_recovery(wanted)
        assert [each.total for each in shown] == [owed, again]
        assert [each.kinds for each in shown] == [each.kinds for each in said]


async def test_a_preview_says_where_there_may_be_more(
    console: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _fill_for_previews(console)
    now = await console.storage.now()
    monkeypatch.setattr(previews_module, "LOOK", 2)
    for merchant_id in (None, "m"):
        wanted = Recover(merchant_id, now - timedelta(hours=1), now, 1000)
        assert (await Previews(console.pool).recovery(console.viewer, wanted)).has_more
        assert (await Previews(console.pool).skip(console.viewer, Skip(merchant_id, now))).has_more
    monkeypatch.setattr(previews_module, "MERCHANTS_SHOWN", 1)
    monkeypatch.setattr(previews_module, "LOOK", 1000)
    shown = await Previews(console.pool).recovery(
        console.viewer, Recover(None, now - timedelta(hours=1), now, 1000), with_platform=True
    )
    assert (len(shown.merchants), shown.more_merchants, shown.total) == (1, 2, sum(shown.kinds.values()))


async def test_of_an_id_that_was_used_again_each_delivery_can_be_read(console: Reading) -> None:
    (seq,) = await console.storage.insert("m", '{"is": "first"}')
    event_id = await console.storage.id_of(seq)
    await console.storage.finish(seq)
    again = await console.db.fetchval(
        "INSERT INTO webhook.outbox (id, merchant_id, type, object) "
        "VALUES ($1, 'm', 'charge.created', '{\"is\": \"second\"}') RETURNING seq",
        event_id,
    )
    latest = await Stories(console.pool).get(console.operator, event_id)
    first = await Stories(console.pool).get(console.operator, event_id, seq)
    assert latest is not None
    assert first is not None
    for story, its, other, payload in (
        (latest, again, seq, b'{"is": "second"}'),
        (first, seq, again, b'{"is": "first"}'),
    ):
        assert (story.facts.delivery.seq, story.payload) == (its, payload)
        assert [each.seq for each in story.others] == [other]


async def test_what_is_gone_is_explained(console: Reading) -> None:
    unknown = uuid4()
    await console.db.execute(
        "INSERT INTO webhook.control (command, event_id, requested_by) VALUES ('retry', $1, 'ana')", unknown
    )
    assert await Stories(console.pool).get(console.viewer, unknown) is None
    unfound = await Stories(console.pool).explain_unfound(console.viewer, unknown)
    assert (unfound.has_charge_index, [command.command for command in unfound.commands]) == (True, ["retry"])
    assert unfound.kept_since is not None


async def _fare(console: Reading) -> datetime:
    """Have one merchant of each state."""
    await console.storage.configure(*("failing", "healthy", "new", "paused", "slow", "suspended"))
    await console.db.execute("INSERT INTO webhook.lane (merchant_id) VALUES ('unconfigured')")
    now = await console.storage.now()
    await console.db.execute(
        "UPDATE webhook.lane SET failing_since = $1::timestamptz - interval '1 hour' "
        "WHERE merchant_id = 'failing'",
        now,
    )
    await console.db.execute(
        "UPDATE webhook.lane SET failing_since = $1::timestamptz - interval '2 hours', suspended_at = $1, "
        "wait_until = $1::timestamptz + interval '1 hour' WHERE merchant_id = 'suspended'",
        now,
    )
    await console.db.execute("UPDATE webhook.lane SET paused = true WHERE merchant_id = 'paused'")
    await console.db.execute(
        "UPDATE webhook.lane SET last_success_at = $1 WHERE merchant_id IN ('healthy', 'slow')", now
    )
    await console.storage.insert("slow", "{}", "{}", "{}")
    await console.storage.insert("healthy")
    await console.db.execute(
        "UPDATE webhook.outbox SET created_at = $1::timestamptz - interval '5 minutes' "
        "WHERE merchant_id = 'slow'",
        now,
    )
    (failed,) = await console.storage.insert("failing")
    await console.storage.finish(failed, state="failed")
    return now


async def test_merchants_are_listed_with_how_they_fare(console: Reading) -> None:
    now = await _fare(console)
    page = await console.merchant_page(MerchantOrder.ID)
    assert {merchant.merchant_id: merchant.state(page.now) for merchant in page.merchants} == {
        "failing": MerchantState.FAILING,
        "healthy": MerchantState.HEALTHY,
        "new": MerchantState.NEW,
        "paused": MerchantState.PAUSED,
        "slow": MerchantState.SLOW,
        "suspended": MerchantState.SUSPENDED,
        "unconfigured": MerchantState.NOT_CONFIGURED,
    }
    assert page.now >= now
    waiting = {merchant.merchant_id: (merchant.waiting, merchant.failed) for merchant in page.merchants}
    assert (waiting["slow"], waiting["failing"], waiting["paused"]) == ((3, 0), (0, 1), (0, 0))
    suspended = page.merchants[5]
    assert suspended.next_try_at == now + timedelta(hours=1)


async def test_who_fails_is_told_by_the_latest_attempts_and_not_by_the_last(console: Reading) -> None:
    made = (
        "INSERT INTO webhook.attempt_log "
        "(event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome) "
        "SELECT gen_random_uuid(), $1, 1, 'schedule', "
        "now() - age * interval '1 microsecond' - $4::interval, 5, "
        "CASE WHEN age = ANY($3::int[]) THEN 'timeout' ELSE 'delivered' END "
        "FROM generate_series(1, $2) AS age"
    )
    for merchant, attempts, failing, age in (
        ("often", 245, list(range(2, 245, 5)), timedelta(0)),
        ("once", 1, [1], timedelta(0)),
        ("seldom", 100, [1, 2], timedelta(0)),
        ("silent", 3, [1, 2, 3], timedelta(days=1)),  # no longer: two days ago has no partition
    ):
        await console.storage.configure(merchant)
        await console.db.execute(made, merchant, attempts, failing, age)
    await console.db.execute(
        "UPDATE webhook.lane SET last_success_at = clock_timestamp(), last_failure_at = clock_timestamp(), "
        "failing_since = CASE WHEN merchant_id <> 'often' THEN clock_timestamp() END"
    )
    page = await console.merchant_page(MerchantOrder.ID)
    found = {
        row.merchant_id: (row.state(page.now), row.attempts_failed, row.attempted) for row in page.merchants
    }
    assert found == {
        "often": (MerchantState.FAILING, 20, 100),
        "once": (MerchantState.HEALTHY, 1, 1),
        "seldom": (MerchantState.HEALTHY, 2, 100),
        "silent": (MerchantState.FAILING, 0, 0),
    }
    for merchant, (state, failed, attempted) in found.items():
        shown = await Merchants(console.pool).get(console.viewer, merchant)
        assert shown is not None
        assert (shown.state(page.now), shown.attempts_failed, shown.attempted) == (state, failed, attempted)
    assert await console.merchants(MerchantOrder.FAILING, limit=1) == ["silent", "often"]
    [silent, often] = (await console.merchant_page(MerchantOrder.FAILING)).merchants
    assert (silent.failed_outcome, often.failed_outcome) == (None, "timeout")
    overview = await Overviews(console.pool).get(console.viewer)
    assert (overview.failing, overview.failing_is_cut) == (2, False)


async def test_whoever_fails_is_found_behind_those_that_were_judged(
    console: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merchants_module, "MAX_JUDGED", 2)
    for merchant in ("a", "b", "c", "d"):
        await console.storage.configure(merchant)
        for _ in range(2 if merchant in ("b", "d") else 1):
            await console.db.execute(ATTEMPT, uuid4(), merchant, timedelta(0))
    await console.db.execute(
        "UPDATE webhook.lane SET failing_since = clock_timestamp(), last_failure_at = clock_timestamp()"
    )
    assert await console.merchants(MerchantOrder.FAILING) == ["b", "d"]
    overview = await Overviews(console.pool).get(console.viewer)
    assert (overview.failing, overview.failing_is_cut) == (1, True)


async def test_a_merchant_is_named_for_the_first_of_its_endpoints_that_fails(console: Reading) -> None:
    await _two_endpoints(console)
    await console.storage.configure("n")
    await console.db.execute(
        "UPDATE webhook.lane SET failing_since = clock_timestamp() - interval '1 minute' "
        "* CASE WHEN webhook.endpoint_of(merchant_id) = 1 THEN 3 WHEN merchant_id = 'n' THEN 2 ELSE 1 END "
        "WHERE merchant_id <> 'm'"
    )
    assert await console.merchants(MerchantOrder.FAILING, limit=1) == ["m", "n"]


async def test_what_is_not_routed_yet_is_owed_to_number_1(console: Reading) -> None:
    first, second = await _two_endpoints(console)
    for lane in ("m", first, second):
        await console.storage.insert(lane)
        await console.storage.insert_due(lane, 60)
    merchant = await Merchants(console.pool).get(console.viewer, "m")
    assert merchant is not None
    owed = [(each.waiting, each.waiting_for_retry) for each in map(merchant.fares, (1, 2))]
    assert owed == [(2, 2), (1, 1)]


async def test_the_keys_of_all_merchants_are_listed_page_by_page(console: Reading) -> None:
    for merchant, client in (("m", "one"), ("m", "two"), ("n", "three")):
        await console.db.execute(
            "SELECT webhook.create_api_key($1, $2, sha256('secret'), 'shop', 'ana')", merchant, client
        )
    first = await Merchants(console.pool).all_api_keys(console.viewer, limit=2)
    assert [(key.merchant_id, key.client_id) for key in first.keys] == [("n", "three"), ("m", "two")]
    last = await Merchants(console.pool).all_api_keys(console.viewer, first.next, limit=2)
    assert ([key.client_id for key in last.keys], last.next) == (["one"], None)


async def test_attempts_that_could_not_be_made_say_nothing_of_their_merchant(console: Reading) -> None:
    await console.storage.configure("m")
    for _ in range(3):
        await console.db.execute(ATTEMPT, uuid4(), "m", timedelta(0))
    await console.db.execute("UPDATE webhook.attempt_log SET outcome = 'unsendable'")
    await console.db.execute(
        "UPDATE webhook.lane SET last_success_at = clock_timestamp(), last_failure_at = clock_timestamp()"
    )
    page = await console.merchant_page(MerchantOrder.ID)
    [row], alone = page.merchants, await Merchants(console.pool).get(console.viewer, "m")
    assert (row.state(page.now), row.attempted) == (MerchantState.HEALTHY, 0)
    assert alone is not None
    assert (alone.state(page.now), alone.attempted) == (MerchantState.HEALTHY, 0)
    assert await console.merchants(MerchantOrder.FAILING) == []


async def test_merchants_are_listed_in_every_order_page_by_page(console: Reading) -> None:
    await _fare(console)
    assert await console.merchants(MerchantOrder.ID) == [
        *["failing", "healthy", "new", "paused", "slow", "suspended", "unconfigured"]
    ]
    assert await console.merchants(MerchantOrder.ID, "s") == ["slow", "suspended"]
    assert await console.merchants(MerchantOrder.FAILING, limit=1) == ["suspended", "failing"]
    assert await console.merchants(MerchantOrder.FAILING, "f") == ["failing"]
    assert await console.merchants(MerchantOrder.BEHIND, limit=1) == ["slow", "healthy"]
    assert await console.merchants(MerchantOrder.PAUSED) == ["paused"]
    assert await console.merchants(MerchantOrder.VOLUME, limit=1) == ["slow", "failing", "healthy"]
    page = await console.merchant_page(MerchantOrder.VOLUME)
    assert ([merchant.volume for merchant in page.merchants], page.looked_at) == ([3, 1, 1], 5)
    assert (await console.merchant_page(MerchantOrder.BEHIND)).is_complete


def _failed(row: MerchantRow) -> tuple[object, ...]:
    latest = row.failed_event_id, row.failed_outcome, row.failed_status, row.failed_reason
    return *latest, row.waiting_for_retry


async def test_why_merchants_fail_is_said_where_those_alone_are_listed(console: Reading) -> None:
    now = await _fare(console)
    latest = uuid4()
    await console.db.execute(ATTEMPT, uuid4(), "failing", timedelta(minutes=2))
    await console.db.execute(ATTEMPT, latest, "failing", timedelta(minutes=1))
    await console.db.execute(ATTEMPT, uuid4(), "failing", timedelta(0))
    await console.db.execute(
        "UPDATE webhook.attempt_log SET outcome = 'delivered' WHERE started_at > $1", now
    )
    await console.db.execute(ATTEMPT, uuid4(), "suspended", timedelta(hours=3))
    await console.storage.insert_due("failing", 60, 60)
    suspended, failing = (await console.merchant_page(MerchantOrder.FAILING)).merchants
    assert _failed(failing) == (latest, "status", 500, "500", 2)
    assert _failed(suspended) == (None, None, None, None, 0), "it failed before it began to fail"
    others = (await console.merchant_page(MerchantOrder.ID)).merchants
    assert set(map(_failed, others)) == {(None, None, None, None, 0)}


async def test_one_merchant_is_told_with_its_keys_and_latest_attempts(console: Reading) -> None:
    await _fare(console)
    await console.db.execute(ATTEMPT, uuid4(), "failing", timedelta(minutes=1))
    await console.db.execute(ATTEMPT, uuid4(), "failing", timedelta(0))
    await console.db.execute(
        "SELECT webhook.create_api_key('failing', 'client', sha256('secret'), 'shop', 'cli:ana')"
    )
    merchant = await Merchants(console.pool).get(console.viewer, "failing")
    assert merchant is not None
    assert merchant.state(merchant.now) is MerchantState.FAILING
    assert [(each.number, each.url) for each in merchant.configured] == [(1, "https://example.com/")]
    assert [key.client_id for key in merchant.api_keys] == ["client"]
    first, second = merchant.latest_attempts
    assert first.started_at > second.started_at
    assert (first.reason, first.outcome, merchant.waiting, merchant.is_paused) == ("500", "status", 0, False)
    assert await Merchants(console.pool).get(console.viewer, "nobody") is None
    unconfigured = await Merchants(console.pool).get(console.viewer, "unconfigured")
    assert unconfigured is not None
    assert unconfigured.state(unconfigured.now) == MerchantState.NOT_CONFIGURED


async def test_the_overview_counts_and_adds_up(console: Reading) -> None:
    await _fare(console)
    await console.storage.insert_due("healthy", 60)
    now = await console.storage.now()
    for ago, outcome, attempts in (
        (0, "delivered", 5),
        (30, "timeout", 2),
        (300, "delivered", 7),
        (2000, "tls", 1),
    ):
        await console.db.execute(
            "INSERT INTO webhook.attempts_by_minute VALUES (date_trunc('minute', $1::timestamptz), $2, $3)",
            now - timedelta(minutes=ago),
            outcome,
            attempts,
        )
    await console.db.execute(
        "INSERT INTO webhook.dispatcher VALUES "
        "('a', 'host', '1.0', $1, $1, 3, 2, true, '{}', '{}'), "
        "('b', 'host', '1.0', $1, $1::timestamptz - interval '1 minute', 0, 0, false, '{too late}', "
        "'{a fault}'), "
        "('dead', 'host', '1.0', $1, $1::timestamptz - interval '28 minutes', 0, 0, true, '{}', '{}')",
        now,
    )
    overview = await Overviews(console.pool).get(console.viewer)
    assert (overview.waiting, overview.waiting_for_retry, overview.failed) == (4, 1, 1)
    assert (overview.failing, overview.suspended, overview.paused) == (1, 1, 1)
    assert (overview.everything_is_paused, overview.pause) == (False, None)
    assert overview.oldest is not None
    assert overview.oldest.merchant_id == "slow"
    assert by_outcome(overview.hour) == {"delivered": 5, "timeout": 2}
    assert by_outcome(overview.day) == {"delivered": 12, "timeout": 2}
    assert (len(overview.hour), len(overview.day), overview.alive) == (60, 96, 1)
    assert [dispatcher.owner for dispatcher in overview.dispatchers] == ["a", "b"]
    assert overview.dispatchers[1].faults == ["a fault"]
    await console.db.execute("DELETE FROM webhook.dispatcher WHERE owner = 'a'")
    found = await Overviews(console.pool).dispatchers(console.viewer)
    assert [dispatcher.owner for dispatcher in found] == ["b", "dead"], "nobody else works"


async def test_who_works_is_shown_beside_who_died_by_a_clock_that_was_ahead(console: Reading) -> None:
    """As a server's was whose standby took over."""
    await console.db.execute(
        "INSERT INTO webhook.dispatcher VALUES "
        "('dead', 'host', '1.0', $1, $1::timestamptz + interval '10 minutes', 0, 0, true, '{}', '{}'), "
        "('works', 'host', '1.0', $1, $1, 3, 2, true, '{}', '{}'), "
        "('late', 'host', '1.0', $1, $1::timestamptz - interval '2 minutes', 0, 0, true, '{}', '{}'), "
        "('old', 'host', '1.0', $1, $1::timestamptz - interval '6 minutes', 0, 0, true, '{}', '{}')",
        await console.db.fetchval("SELECT clock_timestamp()"),
    )
    found = await Overviews(console.pool).dispatchers(console.viewer)
    assert [dispatcher.owner for dispatcher in found] == ["dead", "works", "late"]


async def test_the_lag_is_of_first_attempts_of_what_finished_lately(console: Reading) -> None:
    recent, old = await console.storage.insert("m", "{}", "{}")
    await console.db.execute(
        "UPDATE webhook.outbox SET created_at = clock_timestamp() - interval '3 seconds'"
    )
    for seq, ago in ((recent, timedelta(0)), (old, timedelta(hours=2))):
        await console.db.execute(ATTEMPT, await console.storage.id_of(seq), "m", timedelta(seconds=1) + ago)
        await console.storage.finish(seq, ago=ago)
    lag = (await Overviews(console.pool).get(console.viewer)).lag
    assert lag.events == 1
    assert lag.median is not None
    assert 1.5 < lag.median < 3


async def test_commands_are_listed_and_filtered(console: Reading) -> None:
    for number, (command, merchant) in enumerate([("pause", "m"), ("resume", "m"), ("pause", None)]):
        await console.db.execute(
            "INSERT INTO webhook.control (command, merchant_id, args, requested_by) VALUES ($1, $2, $3, $4)",
            command,
            merchant,
            f'{{"number": {number}}}',
            "console:ana" if merchant else "cli:bob",
        )
    commands = Commands(console.pool)
    page = await commands.list(console.viewer, limit=2)
    rest = await commands.list(console.viewer, after=page.next)
    assert [row.args for row in (*page.commands, *rest.commands)] == [{"number": n} for n in (2, 1, 0)]
    assert rest.next is None
    of_merchant = await commands.list(console.viewer, CommandFilter("pause", "pending", "m", "console:ana"))
    assert [(row.merchant_id, row.args) for row in of_merchant.commands] == [("m", {"number": 0})]
    shown = await commands.get(console.viewer, of_merchant.commands[0].id)
    assert shown == of_merchant.commands[0]
    assert await commands.get(console.viewer, 2**62) is None


async def test_it_is_told_which_of_the_five_hundred_failed(console: Reading) -> None:
    seqs = await console.storage.insert("m", *["{}"] * 5)
    command = await console.db.fetchval(
        "INSERT INTO webhook.control (command, merchant_id, requested_by, status) "
        "VALUES ('retry_failed', 'm', 'ana', 'done') RETURNING id"
    )
    gone = 10**9
    await console.db.execute(
        "INSERT INTO webhook.command_chunk (command_id, place, seqs) VALUES ($1, 0, $2), ($1, 3, $3)",
        command,
        seqs[:3],
        [*seqs[3:], gone],
    )
    await console.storage.finish(seqs[0], seqs[3])
    await console.storage.finish(seqs[1], seqs[4], state="failed")
    commands = Commands(console.pool)
    page = await commands.events(console.viewer, command)
    assert [(event.seq, event.became) for event in page.events] == [
        (seqs[0], Became.DELIVERED),
        (seqs[1], Became.FAILED),
        (seqs[2], Became.WAITING),
        (seqs[3], Became.DELIVERED),
        (seqs[4], Became.FAILED),
        (gone, Became.GONE),
    ]
    assert (page.next, page.looked_at) == (None, 6)
    failed, after = list[int](), None
    while True:
        page = await commands.events(console.viewer, command, only_failed=True, after=after, limit=1)
        failed += [event.seq for event in page.events]
        if page.next is None:
            break
        after = page.next
    assert failed == [seqs[1], seqs[4]]
    row = await commands.get(console.viewer, command)
    assert row is not None
    assert row.has_events


async def test_what_a_command_found_finished_before_it_is_not_what_became_of_it(console: Reading) -> None:
    (seq,) = await console.storage.insert("m")
    await console.storage.finish(seq, state="failed", ago=timedelta(hours=3))
    await console.db.execute(
        "INSERT INTO webhook.command_chunk (command_id, place, seqs) VALUES (1, 0, $1)", [seq]
    )
    page = await Commands(console.pool).events(console.viewer, 1)
    assert [event.became for event in page.events] == [Became.GONE]


async def test_it_is_told_what_became_of_what_was_handed_on_since(console: Reading) -> None:
    """One was attempted before, and is handed on; the other goes back to the order, and is routed."""
    storage = console.storage
    here = await storage.daemon("here")
    await storage.configure("m")
    tried, never = await storage.insert("m", "{}", "{}")
    ids = [await storage.id_of(seq) for seq in (tried, never)]
    await console.db.execute("UPDATE webhook.outbox SET attempts = 1 WHERE seq = $1", tried)
    await storage.finish(tried, never, state="failed")
    await console.db.execute("UPDATE webhook.delivery_log SET attempts = 0 WHERE seq = $1", never)
    command = await console.db.fetchval(COMMAND_AGO, "recover", "m", "before it", 300)
    wanted = Recover("m", LONG_AGO, await storage.now(), 1000, ("failed",))
    async with PostgresControls(here.pool).transaction() as transaction:
        made = await transaction.reopen_all(await transaction.find_finished(wanted, 0, 10))
        await transaction.note_chunk(command, made.seqs)
        await transaction.wake_lanes(made.heads)
    assert await console.db.fetchval(ADD, None) == "created"
    await here.claims.hand_on(await here.claims.find_strays(9, 1 << 20, []), await storage.now())
    [held] = (await here.claims.lease({"m": 1}, LEASE)).leases
    await route(here, held)
    copies = [row["seq"] for row in await console.db.fetch("SELECT seq FROM webhook.outbox ORDER BY seq")]
    assert (len(copies), min(copies) > never) == (2, True)
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.count_waiting(made.seqs) == 2
    commands = Commands(console.pool)
    for became in (Became.WAITING, Became.DELIVERED):
        page = await commands.events(console.viewer, command)
        assert [(event.event_id, event.became) for event in page.events] == [(id_, became) for id_ in ids]
        await storage.finish(*[seq for seq in copies if became is Became.WAITING])
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.count_waiting(made.seqs) == 0
    await console.db.execute("DELETE FROM webhook.attempt_log")
    for event_id in ids:
        await console.db.execute(ATTEMPT_AGO, event_id, 1, "manual", 0)
        story = await Stories(console.pool).get(console.viewer, event_id)
        assert story is not None
        assert command in [each.id for each in story.around.commands]


async def test_the_audit_is_paged_and_of_one_merchant(console: Reading) -> None:
    for merchant in ("a", "b", "a"):
        await console.db.execute("DELETE FROM webhook.endpoint WHERE merchant_id = $1", merchant)
        await console.storage.configure(merchant)
    commands = Commands(console.pool)
    page = await commands.audit(console.operator, limit=3)
    rest = await commands.audit(console.operator, after=page.next)
    assert [entry.action for entry in (*page.entries, *rest.entries)] == [
        *["endpoint set", "endpoint removed", "endpoint set", "endpoint set"]
    ]
    assert [entry.merchant_id for entry in (await commands.audit(console.operator, "b")).entries] == ["b"]
    assert page.entries[0].after is not None
    assert page.entries[0].after["url"] == "https://example.com/"


async def test_health_says_what_the_database_knows(console: Reading) -> None:
    await _fare(console)
    health = await Healths(console.pool).get(console.viewer)
    assert (health.schema_version, health.missing, health.suspended) == (health.needed_version, [], 1)
    assert (health.server, health.everything_is_paused) == (health.known_server, False)
    assert (health.sealing_key_id, health.pause) == (None, None)
    assert health.kept_since is not None
    assert health.made_until is not None
    assert health.made_until > health.kept_since
    tomorrow = (await console.storage.now()).date() + timedelta(days=1)
    await console.db.execute(f"DROP TABLE webhook.attempt_log_{tomorrow:%Y%m%d}")
    assert (await Healths(console.pool).get(console.viewer)).missing == [("attempt_log", tomorrow)]


async def test_health_names_who_is_suspended_and_what_a_dispatcher_is_wanting_for(console: Reading) -> None:
    await _fare(console)
    await console.db.execute("DELETE FROM webhook.outbox")
    await console.storage.configure("stranded")
    await console.storage.insert("stranded")
    healths = Healths(console.pool)
    assert (await healths.get(console.viewer)).stranded is None, "it may be taken up at any moment"
    await console.db.execute("UPDATE webhook.outbox SET created_at = created_at - interval '1 hour'")
    health = await healths.get(console.viewer)
    assert [merchant.merchant_id for merchant in health.suspended_next] == ["suspended"]
    assert ("stranded", "https://example.com/") in health.urls
    assert health.stranded is not None
    assert health.stranded.merchant_id == "stranded"
    assert await Administration(console.db).find_stranded() == health.stranded, "as check says"
    await console.db.execute(
        "UPDATE webhook.lane SET lease_until = clock_timestamp() + interval '1 minute' "
        "WHERE merchant_id = 'failing'"
    )
    assert (await healths.get(console.viewer)).stranded is None, "somebody holds a lane"


async def test_health_says_who_paused_everything(console: Reading) -> None:
    await console.db.execute("UPDATE webhook.state SET paused = true")
    await console.db.execute(
        "INSERT INTO webhook.control (command, requested_by, status, handled_at) "
        "VALUES ('pause', 'console:ana', 'done', clock_timestamp())"
    )
    pause = (await Healths(console.pool).get(console.viewer)).pause
    assert pause is not None
    assert pause.requested_by == "console:ana"


async def test_one_field_finds_merchants_events_charges_and_commands(console: Reading) -> None:
    await console.storage.configure("shop-1")
    (seq,) = await console.storage.insert("shop-1", '{"id": "ch_1"}')
    command = await console.db.fetchval(
        "INSERT INTO webhook.control (command, requested_by) VALUES ('pause', 'ana') RETURNING id"
    )
    search = Search(console.pool)
    event_id = await console.storage.id_of(seq)
    assert [found.merchant_id for found in (await search.find(console.viewer, " shop ")).merchants] == [
        "shop-1"
    ]
    assert [found.seq for found in (await search.find(console.viewer, str(event_id))).event.deliveries] == [
        seq
    ]
    assert [found.seq for found in (await search.find(console.viewer, "ch_1")).charge.deliveries] == [seq]
    found = await search.find(console.viewer, f"#{command}")
    assert found.command is not None
    assert found.command.id == command
    assert (await search.find(console.viewer, "")).count == 0
    assert (await search.find(console.viewer, "nothing")).count == 0
