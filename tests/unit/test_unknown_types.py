"""Events of a type that cannot be one, past the rules: left as they are, and lost by nobody."""

import re
from pathlib import Path

from structlog.testing import capture_logs

from tests.unit.builders import LEASE, make_event
from tests.unit.fakes.database import seqs_of
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.harnesses.retrier import RetrierHarness
from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT, MAX_TYPE_CHARACTERS
from webhook_dispatcher.dispatch.worker import RUN
from webhook_dispatcher.domain.claim import SweptLane
from webhook_dispatcher.domain.event import State

NEW_TYPE = "charge invented"


async def test_a_lane_is_left_to_a_newer_daemon_at_the_first_event_of_an_unknown_type() -> None:
    harness = DispatcherHarness()
    with capture_logs() as logs:
        async with harness.open("m", "n", "late") as group:
            harness.database.insert(
                *[make_event(seq, "m") for seq in (1, 2, 5)],
                *[make_event(seq, "m", type=NEW_TYPE) for seq in (3, 4)],
                make_event(6, "n"),
                *[make_event(seq, "late") for seq in range(10, 10 + RUN)],
                make_event(40, "late", type="x" * 1000),
            )
            await harness.rounds(group, count=8)
            assert sorted(harness.sent) == [1, 2, 6, *range(10, 10 + RUN)]
            lane = harness.database.lanes["m"]
            assert (lane.is_leased, lane.wait_until) == (False, None), "a newer daemon may take it at once"
            asked = len(harness.claims.leases_asked)
            harness.database.insert(make_event(50, "m"))
            assert not harness.dispatcher.notice_swept(SweptLane("m", 3, is_free=True)), "nothing for us"
            await harness.rounds(group)
            assert len(harness.claims.leases_asked) == asked, "it is left alone for a while"
            harness.clock.advance(BLOCKED_WAIT)
            for seq in (3, 4):
                del harness.database.owed[seq]  # delivered by that newer one
            assert harness.dispatcher.notice_swept(SweptLane("m", 5, is_free=True))
            await harness.rounds(group)
    assert [seq for seq in harness.sent if seq in (1, 2, 3, 4, 5, 50)] == [1, 2, 5, 50]
    assert set(harness.database.finished) == set(harness.sent)
    told = [line for line in logs if line["event"] == "row.unknown_type"]
    assert [(line["merchant_id"], line["seq"]) for line in told] == [("m", 3), ("late", 40)]
    assert (NEW_TYPE in told[0]["detail"], len(told[1]["detail"]) < MAX_TYPE_CHARACTERS + 20) == (True, True)
    labels = {"reason": "unknown_type"}
    assert harness.metrics.registry.get_sample_value("webhook_blocked_rows", labels) == 0
    harness.dispatcher.update_gauges()
    assert harness.metrics.registry.get_sample_value("webhook_blocked_rows", labels) == 2


async def test_a_due_row_of_an_unknown_type_is_released_at_once_and_left_out_for_a_while() -> None:
    harness = RetrierHarness()
    harness.owe(1, type=NEW_TYPE)
    harness.owe(2)
    assert await harness.round() == 2
    assert harness.sender.event_ids == [2]
    [given_back] = [record for record in harness.records.written if record.event.seq == 1]
    assert (given_back.attempt, given_back.state, given_back.due_at) == (None, None, harness.clock.now)
    assert (seqs_of(harness.records.written), harness.memory.used) == ([1, 2], 0)
    harness.owe(1, type=NEW_TYPE)
    assert await harness.round() == 0
    harness.clock.advance(BLOCKED_WAIT)
    assert await harness.round() == 1
    assert State.FAILED not in {record.state for record in harness.records.written}


async def test_an_event_of_an_unknown_type_outlives_the_want_of_an_endpoint() -> None:
    harness = DispatcherHarness()
    async with harness.open() as group:
        harness.database.insert(make_event(1, "m", type=NEW_TYPE))
        harness.clock.advance(LEASE.total_seconds() + 10 * 86_400)
        await harness.rounds(group)
        assert (harness.database.finished, 1 in harness.database.owed) == ({}, True)


def test_the_longest_a_lane_is_left_is_what_the_page_for_operators_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operate" / "standing-still.md").read_text(encoding="utf-8")
    assert re.search(rf"for\s{BLOCKED_WAIT:.0f}\sseconds", page)
