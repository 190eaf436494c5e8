"""Order by charge in real processes: judged by the receiver's log, charge by charge. Source: I1, I2."""

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

from tests.acceptance.installation import Installation, Sent
from tests.waiting import until
from webhook_dispatcher.local.arrivals import Arrival, out_of_order, overlapping
from webhook_dispatcher.local.behaviour import Behaviour

AT_ONCE = 8
QUICK = Behaviour(delay=timedelta(milliseconds=50))
HELD_FOR_LONG = "SELECT leased_at < clock_timestamp() - interval '3 seconds' FROM webhook.lane"
"""Longer than dispatcher.SESSION_TIME, after which a session without one that hangs has ended."""
EPOCH = "SELECT epoch FROM webhook.lane"
DELIVERED = "SELECT count(*) = $1 FROM webhook.delivery_log WHERE state = 'delivered'"


async def by_charge(installation: Installation) -> None:
    """Configure a merchant, and let its order be kept by charge, as an operator does."""
    await installation.configure("m1")
    told = installation.command("endpoint", "set", "m1", "--order", "charge", "--at-once", str(AT_ONCE))
    assert told.stdout == "m1: order changed; the secret stays (see `endpoint rotate-secret`)\n"
    shown = json.loads(installation.command("endpoint", "show", "m1", "--json").stdout)
    assert (shown["order"], shown["at_once"]) == ("charge", AT_ONCE)


async def emit(installation: Installation, charge: str) -> Sent:
    return await installation.emit("m1", json.dumps({"id": charge}))


def of_charges(arrivals: Iterable[Arrival], charges: dict[str, str]) -> list[list[Arrival]]:
    """Return what arrived by charge."""
    found: defaultdict[str, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        found[charges[arrival.event_id]].append(arrival)
    return list(found.values())


async def test_a_charge_that_hangs_keeps_its_own_events_waiting_alone(installation: Installation) -> None:
    await installation.start()
    await by_charge(installation)
    receiver = installation.receiver
    receiver.behave("m1", Behaviour(hangs=True), QUICK)
    hanging = await emit(installation, "hangs")
    await until(lambda: receiver.arrivals)
    epoch = await installation.owner.fetchval(EPOCH)
    behind = await emit(installation, "hangs")
    for number in range(2 * AT_ONCE):
        await emit(installation, f"ch_{number % AT_ONCE}")
    await installation.until_true(DELIVERED, 2 * AT_ONCE)
    await installation.until_true(HELD_FOR_LONG)
    for number in range(2 * AT_ONCE):
        await emit(installation, f"ch_{number % AT_ONCE}")
    await installation.until_true(DELIVERED, 4 * AT_ONCE)
    # One session has done all that, past its time; the one that hangs has not ended.
    assert await installation.owner.fetchval(EPOCH) == epoch
    assert (await installation.delivery(hanging.id))["attempts"] == 0
    assert str(behind.id) not in {arrival.event_id for arrival in receiver.arrivals}
    receiver.answer_hanging("m1")
    await installation.settled(behind.id, "delivered", 1)
    await installation.settled(hanging.id, "delivered", 1)


async def test_a_daemon_killed_with_several_under_way_repeats_those_and_keeps_each_charges_order(
    installation: Installation,
) -> None:
    victim = await installation.start(LEASE="PT3S", ATTEMPT_TIMEOUT="PT2S")
    await by_charge(installation)
    receiver = installation.receiver
    receiver.behave("m1", Behaviour(delay=timedelta(milliseconds=200)))
    charges: dict[str, str] = {}
    seq_of: dict[str, int] = {}
    for number in range(80):
        charge = f"ch_{number % 10}"
        sent = await emit(installation, charge)
        charges[str(sent.id)], seq_of[str(sent.id)] = charge, sent.seq

    def under_way() -> list[Arrival]:
        return [arrival for arrival in receiver.arrivals if arrival.ended_at is None]

    await until(lambda: len(receiver.arrivals) > 2 * AT_ONCE and len(under_way()) > AT_ONCE / 2)
    victim.kill()
    await installation.start(LEASE="PT3S", ATTEMPT_TIMEOUT="PT2S")
    await installation.until_true(DELIVERED, len(charges))
    lines = of_charges(receiver.arrivals, charges)
    assert len(lines) == 10
    for line in lines:
        assert out_of_order(line, seq_of) == []
        assert overlapping(line) == []
    repeated = len(receiver.arrivals) - len(charges)
    assert 0 < repeated <= 2 * AT_ONCE, "those under way, and answers not on record"
