"""Tail and sweep: how arrivals, late commits and left-overs are found."""

from tests.integration.storage_harness import LAPSED, LEASE, Daemon, StorageHarness
from webhook_dispatcher.domain.claim import Arrival, SweptLane
from webhook_dispatcher.domain.record import LaneTurn

INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, 'charge.created', '{}')"


async def test_nothing_has_ever_arrived(storage: StorageHarness, here: Daemon) -> None:
    arrivals = await here.claims.read_arrivals(0, 10)
    assert (arrivals.last_seq, arrivals.visible, arrivals.is_cut) == (0, (), False)
    assert arrivals.database_now <= await storage.now()


async def test_arrivals_are_read_in_order_behind_the_cursor(storage: StorageHarness, here: Daemon) -> None:
    (first,), (second,), (third,) = [await storage.insert(name) for name in ("b", "a", "b")]
    arrivals = await here.claims.read_arrivals(first, 10)
    assert arrivals.visible == (Arrival(second, "a"), Arrival(third, "b"))
    assert (arrivals.last_seq, arrivals.is_cut) == (third, False)
    cut = await here.claims.read_arrivals(0, 2)
    assert [arrival.seq for arrival in cut.visible] == [first, second]
    assert (cut.last_seq, cut.is_cut) == (third, True)


async def test_what_is_due_outside_the_order_is_no_arrival(storage: StorageHarness, here: Daemon) -> None:
    (retry,) = await storage.insert_due("m", 60)
    arrivals = await here.claims.read_arrivals(0, 10)
    assert (arrivals.last_seq, arrivals.visible) == (retry, ())
    assert await here.claims.read_gaps([(1, retry)], 10) == []


async def test_number_not_committed_yet_is_counted_and_found_in_its_gap(
    storage: StorageHarness, here: Daemon
) -> None:
    producer = await storage.database.connect("webhook_producer")
    slow = producer.transaction()
    await slow.start()
    await producer.execute(INSERT, "m")
    (later,) = await storage.insert("n")
    arrivals = await here.claims.read_arrivals(0, 10)
    assert (arrivals.last_seq, arrivals.visible) == (later, (Arrival(later, "n"),))
    assert await here.claims.read_gaps([(1, later - 1)], 10) == []
    await slow.commit()
    await producer.close()
    assert await here.claims.read_gaps([(1, later - 1)], 10) == [Arrival(later - 1, "m")]


async def test_arrivals_tell_which_transactions_may_still_be_open(
    storage: StorageHarness, here: Daemon
) -> None:
    producer = await storage.database.connect("webhook_producer")
    async with producer.transaction():
        await producer.execute(INSERT, "m")
        number = await producer.fetchval("SELECT pg_current_xact_id()::text::bigint")
        during = await here.claims.read_arrivals(0, 10)
    await producer.close()
    after = await here.claims.read_arrivals(0, 10)
    assert during.oldest_open <= number < during.next_transaction
    assert after.oldest_open > number


async def test_gaps_are_read_within_their_bounds_and_limit(storage: StorageHarness, here: Daemon) -> None:
    seqs = await storage.insert("m", *["{}"] * 9)
    found = await here.claims.read_gaps([(seqs[0], seqs[1]), (seqs[4], seqs[8])], 3)
    assert [arrival.seq for arrival in found] == [*seqs[0:2], *seqs[4:7]]
    assert await here.claims.read_gaps([], 3) == []


async def test_sweep_goes_round_with_so_many_probes_at_a_time(storage: StorageHarness, here: Daemon) -> None:
    heads = {name: (await storage.insert(name, "{}", "{}"))[0] for name in ("a", "c", "B", "\u00e9", "b")}
    round_of_names: list[str] = []
    after = ""
    while probes := await here.claims.sweep(after, 2):
        assert len(probes) <= 2
        assert [(probe.lane, probe.head_seq) for probe in probes] == [
            (probe.lane, heads[probe.lane]) for probe in probes
        ]
        round_of_names += [probe.lane for probe in probes]
        after = probes[-1].lane
    assert round_of_names == ["B", "a", "b", "c", "\u00e9"]  # by bytes, whatever the database's collation
    assert [probe.lane for probe in await here.claims.sweep("", 1)] == ["B"]


async def test_sweep_sees_only_what_is_owed_in_order(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert_due("retries", -1)
    await storage.insert_due("both", -1)
    (head,) = await storage.insert("both")
    assert await here.claims.sweep("", 10) == [SweptLane("both", head, True)]


async def test_sweep_tells_which_lanes_are_free(storage: StorageHarness, here: Daemon) -> None:
    for name in ("leased", "lapsed", "missing", "paused", "recalled", "waiting"):
        await storage.insert(name)
    *_, waiting = await here.lease("leased", "recalled", "waiting")
    await here.lease("lapsed", "paused", lease=LAPSED)
    until = (await here.claims.read_arrivals(0, 1)).database_now + LEASE
    await here.records.write([], [LaneTurn(waiting, True, 0, until)], LEASE)
    await storage.db.execute(
        "UPDATE webhook.lane SET paused = merchant_id = 'paused', recalled = merchant_id = 'recalled'"
    )
    free = {probe.lane: probe.is_free for probe in await here.claims.sweep("", 10)}
    assert free == {
        "lapsed": True,
        "leased": False,
        "missing": True,
        "paused": False,
        "recalled": False,
        "waiting": False,
    }


async def test_what_was_committed_late_is_reached_through_the_sweep(
    storage: StorageHarness, here: Daemon
) -> None:
    (late, *_) = await storage.insert("m", *["{}"] * 3)
    await storage.db.execute("INSERT INTO webhook.lane (merchant_id, from_seq) VALUES ('m', $1)", late + 1)
    (probe,) = await here.claims.sweep("", 10)
    (lease,) = await here.lease(probe.lane, head=probe.head_seq)
    assert [event.seq for event in await here.read("m", after=lease.from_seq)] == [late, late + 1, late + 2]
