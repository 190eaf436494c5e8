"""A merchant down from two to five, as the operator on call lives through it. Source: contract 3 and 4.

The night takes seconds: a schedule of one retry, then one whose retry comes after an hour. What the commands
print is compared with what the test knows itself. `pytest -s` shows it; it is in a file too.
"""

import asyncio
import os
import pty
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from tests.acceptance.installation import Installation, Sent
from tests.acceptance.load import Load
from tests.waiting import until_found
from webhook_dispatcher.local.arrivals import Arrival, out_of_order
from webhook_dispatcher.local.behaviour import Behaviour

DOWN = "bakery"
OTHERS = ["florist", "grocer", "hatter", "ironmonger"]
LIVE_RATE = 40.0
"""Events a second of all others."""
SLOTS = "10"
"""Retries of the merchant at once: its night is short, so they may not take minutes."""
UNDERWAY = 40
"""Events of others that may wait at the moment of a look: those of a second."""
OVERWHELMED, CUT = Behaviour(status=503), Behaviour(disconnects=True)
CHARGE = "ch_night"
CLOCK = "SELECT clock_timestamp() + interval '1 ms'"
"""Commands are given milliseconds, cut off: a little later than what is there already."""
CANCEL = """
INSERT INTO webhook.control (command, event_id, requested_by) SELECT 'cancel', unnest($1::uuid[]), 'a test'
"""
TALLY = """
SELECT state, failed_reason, attempts, last_outcome, count(*) FROM webhook.deliveries
WHERE merchant_id = $1 GROUP BY 1, 2, 3, 4
"""
BEFORE, DELIVERED, EXHAUSTED, SKIPPED = 40, 60, 200, 20
WAITING, CANCELLED, HELD, AFTER = 110, 10, 40, 40
ALL = BEFORE + DELIVERED + EXHAUSTED + SKIPPED + WAITING + CANCELLED + HELD + AFTER
"""How many events of the merchant came to what."""


@dataclass
class Night:
    """What the test knows of the night: events by what came of them, and the range as options."""

    events: dict[str, list[Sent]] = field(default_factory=dict)
    since: str = ""
    until: str = ""

    @property
    def period(self) -> list[str]:
        """Return the options that name the range."""
        return ["--since", self.since, "--until", self.until]

    def ids(self, *kinds: str) -> set[str]:
        """Return the ids of these events."""
        return {str(event.id) for kind in kinds for event in self.events[kind]}


class Terminal:
    """The operator's: runs commands, shows what they print, and keeps it in a file."""

    def __init__(self, installation: Installation, file: Path) -> None:
        self._installation = installation
        self._file = file

    async def run(self, *arguments: str, stdin: int | None = None) -> str:
        """Run a command while receiver and producers go on; return what it printed."""
        done = await asyncio.to_thread(self._installation.command_at, stdin, *arguments)
        said = f"$ webhook-dispatcher {' '.join(arguments)}\n{done.stdout}{done.stderr}\n"
        print(said)
        with self._file.open("a") as file:
            file.write(said)
        assert done.returncode == 0, said
        return done.stdout


@contextmanager
def keyboard(typed: str) -> Iterator[int]:
    """Open a terminal on which somebody has typed this."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


async def counted(installation: Installation, condition: str, number: int) -> None:
    """Wait until so many deliveries of the merchant are like this."""

    async def reached() -> bool:
        return await installation.count(f"merchant_id = '{DOWN}' AND {condition}") == number

    try:
        await until_found(reached)
    except TimeoutError:
        tally = await installation.admin.fetch(TALLY, DOWN)
        raise AssertionError(f"wanted {number} with {condition}: {tally}") from None


async def clock(installation: Installation) -> str:
    instant: str = (await installation.owner.fetchval(CLOCK)).isoformat()
    return instant


async def live_through(installation: Installation, terminal: Terminal) -> Night:
    """Have the merchant go down and leave events in every state; it is still down, and paused, at the end."""
    night = Night()
    daemon = await installation.start(RETRY_SCHEDULE="PT0.05S", LANE_RETRIES=SLOTS)
    night.events["before"] = await installation.emit_each([DOWN], BEFORE)
    await counted(installation, "state = 'delivered'", BEFORE)
    night.since = await clock(installation)
    night.events["delivered"] = await installation.emit_each([DOWN], DELIVERED)
    await counted(installation, "state = 'delivered'", BEFORE + DELIVERED)
    installation.receiver.behave(DOWN, OVERWHELMED, CUT, repeat=True)
    night.events["failed"] = await installation.emit_each([DOWN], EXHAUSTED)
    await counted(installation, "failed_reason = 'exhausted'", EXHAUSTED)
    await terminal.run("pause", DOWN)
    night.events["skipped"] = await installation.emit_each([DOWN], SKIPPED)
    await terminal.run("skip", DOWN, "--before", await clock(installation), "--yes")
    await terminal.run("resume", DOWN)
    daemon.terminate()
    await daemon.ended()
    await installation.start(RETRY_SCHEDULE="PT1H", LANE_RETRIES=SLOTS)
    night.events["waiting"] = await emit_charge(installation, WAITING)
    night.events["cancelled"] = await installation.emit_each([DOWN], CANCELLED)
    await counted(installation, "state = 'pending_retry'", WAITING + CANCELLED)
    await installation.admin.execute(CANCEL, [event.id for event in night.events["cancelled"]])
    await counted(installation, "failed_reason = 'cancelled'", CANCELLED)
    await terminal.run("pause", DOWN)
    night.events["held"] = await installation.emit_each([DOWN], HELD)
    night.until = await clock(installation)
    return night


async def emit_charge(installation: Installation, count: int) -> list[Sent]:
    """Write so many events, the last of which is of a charge with a name."""
    events = await installation.emit_each([DOWN], count - 1)
    return [*events, await installation.emit(DOWN, f'{{"id": "{CHARGE}"}}')]


@pytest.fixture
def terminal(installation: Installation, tmp_path: Path) -> Terminal:
    """Open the operator's terminal."""
    return Terminal(installation, tmp_path / "night.txt")


async def test_down_from_two_to_five(installation: Installation, terminal: Terminal) -> None:
    await installation.configure(DOWN, *OTHERS)
    async with Load(installation.database.dsn("webhook_producer"), OTHERS, LIVE_RATE) as load:
        night = await live_through(installation, terminal)
        await look_at_the_night(terminal, night)
        sent_before = len(installation.receiver.of(DOWN))
        again = await recover(installation, terminal, night)
        night.events["after"] = await installation.emit_each([DOWN], AFTER)
        await counted(installation, "state = 'delivered'", ALL - SKIPPED - CANCELLED)
    check_the_merchant(night, installation.receiver.of(DOWN)[sent_before:], again)
    await check_others(installation, load.sent)


async def look_at_the_night(terminal: Terminal, night: Night) -> None:
    """Ask what an operator asks, and compare it with what is known."""
    screen = await terminal.run("status")
    [(pending, waiting)] = re.findall(
        r"backlog +([\d,]+) wait for their first attempt, ([\d,]+) for a", screen
    )
    assert HELD <= int(pending) <= HELD + UNDERWAY
    assert int(waiting) == WAITING
    assert re.search(rf"failing +1 merchant, the longest: {DOWN} since ", screen)
    assert re.search(rf"held +1 merchant: {DOWN} \(", screen)
    assert re.search(r"paused +1 merchant\n", screen)
    assert re.search(r"oldest +waits for .*: event \S+ of \S+\n", screen)
    assert re.search(r"attempts +[\d.]+/s in the last 5 min: .*\d status", screen), "them, and not us"
    assert re.search(r"sizes +attempt_log .* outbox ", screen), "what fills the disk"
    assert re.search(r"dispatchers +\S+, version \S+, has run for .* holds (\d+ lanes?|no lane)\n", screen)

    failing = (await terminal.run("merchants", "--failing")).splitlines()
    assert len([line for line in failing if not line.startswith("  ")]) == 2
    assert f" {2 * EXHAUSTED + WAITING + CANCELLED} " in failing[1]
    assert f" {HELD} " in failing[1]
    assert failing[1].endswith(f" {DOWN} (paused, {WAITING} for a retry)")

    failed = " ".join((await terminal.run("explain", str(night.events["failed"][0].id))).split())
    assert f"merchant {DOWN}, seq {night.events['failed'][0].seq}" in failed
    assert "all 2 attempts failed, the last with " in failed
    assert f"webhook-dispatcher deliveries retry {night.events['failed'][0].id}" in failed
    charge = " ".join((await terminal.run("explain", CHARGE)).split())
    assert f"Event {night.events['waiting'][-1].id}: charge.created of charge {CHARGE}" in charge
    assert "attempt 2 is due at" in charge
    assert f"{DOWN} is paused since" in charge


async def recover(installation: Installation, terminal: Terminal, night: Night) -> set[str]:
    """Look first, then send it all again; return what was to be sent again."""
    again = night.ids("delivered", "failed", "waiting")
    states = [part for name in ("failed", "pending_retry", "delivered") for part in ("--state", name)]
    asked = ["recover", DOWN, *night.period, *states, "--with-failing", "--with-last-attempts"]
    arrived = len(installation.receiver.of(DOWN))
    preview = (await terminal.run(*asked, "--dry-run")).splitlines()
    assert preview[0].startswith(f"{len(again):,} to be sent again, from ")
    kinds = f"{EXHAUSTED:,} failed, {WAITING} pending_retry, {DELIVERED} delivered"
    assert preview[0].rpartition(": ")[2] == kinds
    assert preview[1:3] == [
        f"  {DOWN}: {len(again):,}",
        f"{DELIVERED:,} were accepted already, and are sent a second time",
    ]
    assert preview[3:] == [
        f"{WAITING:,} wait for the last attempt of their schedule: included",
        f"{len(again):,} are of 1 merchant that fails now: included",
    ]
    assert len(installation.receiver.of(DOWN)) == arrived, "a dry run sends nothing"

    installation.receiver.behave(DOWN, Behaviour())
    await terminal.run("resume", DOWN)
    with keyboard("y\n") as theirs:
        lines = (await terminal.run(*asked, "--deadline", "PT5M", stdin=theirs)).splitlines()
    assert lines[:3] == preview[:3]
    assert f"recovered {len(again)}" in lines[-1]
    await installation.arrived(arrived + len(again) + HELD, DOWN)
    return again


def check_the_merchant(night: Night, arrivals: list[Arrival], again: set[str]) -> None:
    """Everything of the window came once more, what waited for its first attempt came, and nothing else."""
    came = Counter(arrival.event_id for arrival in arrivals)
    assert came.keys() == again | night.ids("held", "after")
    assert set(came.values()) == {1}
    assert {arrival.status for arrival in arrivals} == {200}
    firsts = [arrival.event_id for arrival in arrivals if arrival.event_id in night.ids("held", "after")]
    assert firsts == [str(event.id) for event in [*night.events["held"], *night.events["after"]]]


async def check_others(installation: Installation, sent: list[Sent]) -> None:
    """All others' events came, in order, and none of them twice."""
    ids = {str(event.id): event.seq for event in sent}
    await installation.all_delivered(len(ids) + ALL - SKIPPED - CANCELLED)
    arrivals = [arrival for arrival in installation.receiver.arrivals if arrival.merchant_id in OTHERS]
    assert Counter(arrival.event_id for arrival in arrivals) == Counter(ids.keys())
    assert not out_of_order(arrivals, ids)
    assert {UUID(event_id) for event_id in ids} == {event.id for event in sent}
